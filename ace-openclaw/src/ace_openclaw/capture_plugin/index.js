// Appends every finished turn to the file that the configuration names, one JSON object to a line.
import { appendFileSync, existsSync } from "node:fs";
import { dirname } from "node:path";
import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";

export default definePluginEntry({
  id: "ace-capture",
  name: "ACE capture",
  description: "Writes finished turns to a file, from which 'ace openclaw learn' learns.",
  register(api) {
    const file = api.pluginConfig?.file;
    if (!file) return;
    api.on("agent_end", (event, context) => {
      // Without its folder, the plugin was removed while OpenClaw was running.
      if (!existsSync(dirname(file))) return;
      const { sessionId, sessionKey, agentId, workspaceDir } = context;
      const { messages, runId, success, error, durationMs } = event;
      const turn = { sessionId, sessionKey, agentId, workspaceDir, runId, success, error, durationMs, messages };
      // One write to a line: turns of several agents may end at the same time.
      appendFileSync(file, JSON.stringify(turn) + "\n", { mode: 0o600 });
    });
  },
});

// Appends every finished turn to a file, one JSON object to a line, or puts it into the queue of ACE's learner and
// starts the learner; or both. The configuration names the file, the queue and the command of the learner.
import { spawn } from "node:child_process";
import { appendFileSync, closeSync, existsSync, mkdirSync, openSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { definePluginEntry } from "openclaw/plugin-sdk/plugin-entry";

let queued = 0;

// The learner may read the queue at any time, so a turn appears there as a whole. Names are in the order of time.
function enqueue(queue, turn) {
  mkdirSync(queue, { recursive: true, mode: 0o700 });
  const name = `${String(Date.now()).padStart(15, "0")}-${process.pid}-${String(++queued).padStart(6, "0")}`;
  const unfinished = join(queue, `${name}.tmp`);
  writeFileSync(unfinished, JSON.stringify(turn), { mode: 0o600 });
  renameSync(unfinished, join(queue, `${name}.json`));
}

// The learner outlives OpenClaw, and ends when it has nothing to do.
function startLearner(command, folder, logger) {
  const log = openSync(join(folder, "learner.log"), "a", 0o600);
  try {
    const options = { cwd: folder, detached: true, stdio: ["ignore", "ignore", log] };
    const learner = spawn(command[0], command.slice(1), options);
    learner.on("error", (error) => logger.warn(`ACE cannot learn: ${error.message}; run 'ace openclaw install' again`));
    learner.unref();
  } finally {
    closeSync(log);
  }
}

export default definePluginEntry({
  id: "ace-capture",
  name: "ACE capture",
  description: "Hands finished turns to ACE, which learns from them.",
  register(api) {
    const { file, queue, learner } = api.pluginConfig ?? {};
    api.on("agent_end", (event, context) => {
      const { sessionId, sessionKey, agentId, workspaceDir } = context;
      const { messages, runId, success, error, durationMs } = event;
      const turn = { sessionId, sessionKey, agentId, workspaceDir, runId, success, error, durationMs, messages };
      // Without its folder, the plugin was removed while OpenClaw was running.
      if (file && existsSync(dirname(file))) {
        // One write to a line: turns of several agents may end at the same time.
        appendFileSync(file, JSON.stringify(turn) + "\n", { mode: 0o600 });
      }
      if (queue && learner && existsSync(dirname(queue))) {
        enqueue(queue, turn);
        startLearner(learner, dirname(queue), api.logger);
      }
    });
  },
});

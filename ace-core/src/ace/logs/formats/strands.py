"""Sessions of Strands Agents, which are folders with a file for each message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ace.logs.building import RunBuilder
from ace.logs.head import LogHead
from ace.logs.messages import add_message
from ace.logs.run import Problem, Run
from ace.logs.source import Source

__all__ = ["READERS", "StrandsReader"]

_NUMBER: Final = re.compile(r"message_(\d+)\.json")


class StrandsReader:
    """Reads the folder of a session: every agent in it is a run."""

    name = "strands"
    title = "Strands Agents sessions"
    places: Sequence[str] = ("$TMPDIR/strands/sessions/session_*",)
    side_files: Sequence[str] = ("session.json", "agent.json", "multi_agent.json")
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for a folder with a session and its agents, or with the messages of an agent."""
        if head.shape != "folder":
            return 0.0
        is_session = "session.json" in head.names and "agents" in head.names
        return 0.95 if is_session or ("agent.json" in head.names and "messages" in head.names) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each agent."""
        agents = sorted((source.path / "agents").glob("agent_*")) or [source.path]
        for agent in agents:
            session = source.path.name.removeprefix("session_")
            name = agent.name.removeprefix("agent_")
            identity = session if agent == source.path or len(agents) == 1 else f"{session}/{name}"
            yield from _run(agent, identity)


def _run(agent: Path, identity: str) -> Iterator[Run | Problem]:
    builder = RunBuilder()
    files = [(int(found[1]), path) for path in agent.glob("messages/*") if (found := _NUMBER.fullmatch(path.name))]
    for number, path in sorted(files):
        try:
            stored: Any = json.loads(path.read_bytes())
            message = stored.get("redact_message") or stored["message"]
        except (OSError, ValueError, LookupError, AttributeError) as error:
            yield Problem(str(path), None, f"no message can be read: {error}")
            continue
        builder.at(stored.get("created_at"))
        add_message(builder, message, str(number))
    if builder.steps:
        yield builder.run(id=identity)


READERS: Final = (StrandsReader(),)

"""The recorded runs of Claude Code that the tests read, and records made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data")
TRANSCRIPTS = DATA / "transcripts"
STREAMS = DATA / "streams"
RELEASES = ("2.1.329", "2.1.197")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def user(text: str, uuid: str, parent: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "user", "uuid": uuid, "parentUuid": parent, "message": {"role": "user", "content": text}, **more}


def assistant(text: str, uuid: str, parent: str | None = None, **more: Any) -> dict[str, Any]:
    message = {"id": f"msg_{uuid}", "role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "uuid": uuid, "parentUuid": parent, "message": message, **more}

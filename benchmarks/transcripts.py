"""Measures how long a stored session of Claude Code takes to become traces, against reading its file as JSON.

The session has 700 turns and 40 MB, most of it snapshots of prompts and results of tools, as in real ones. A quarter of
it is measured too: if the time is linear, both have the same ratio. It exits with 1 if a turn is missing, never because
of time.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ace_claude_code import transcript_to_turn_traces
from benchmarks.options import add_markdown, add_quick, parser_of
from benchmarks.ratios import Ratio, in_turns, show
from benchmarks.wrong_result import WrongResult, require

TURNS = 700
CALLS_PER_TURN = 8
SNAPSHOT = "Text that the client keeps of a request. " * 680
OUTPUT = "a line that a tool has printed\n" * 120


def records_of(turns: int) -> Iterator[dict[str, Any]]:
    """Return the records of a session, in the shape in which Claude Code stores them."""
    numbers = iter(range(turns * (CALLS_PER_TURN * 2 + 3)))
    parent: str | None = None

    def record(kind: str, **fields: Any) -> dict[str, Any]:
        nonlocal parent
        uuid = f"00000000-0000-4000-8000-{next(numbers):012}"
        made = {"parentUuid": parent, "isSidechain": False, "type": kind, "uuid": uuid, "sessionId": "s", **fields}
        parent = uuid
        return made

    for turn in range(turns):
        yield record("user", message={"role": "user", "content": f"Do task {turn} of the list, with a test."})
        yield record("attachment", attachment={"type": "prompt_snapshot", "text": SNAPSHOT})
        for call in range(CALLS_PER_TURN):
            name = f"toolu_{turn}_{call}"
            use = {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": f"make {call}"}}
            yield record("assistant", message={"id": f"msg_{turn}_{call}", "role": "assistant", "content": [use]})
            result = {"type": "tool_result", "tool_use_id": name, "content": OUTPUT, "is_error": False}
            yield record("user", message={"role": "user", "content": [result]})
        words = [{"type": "text", "text": f"Task {turn} is done."}]
        yield record("assistant", message={"id": f"msg_{turn}", "role": "assistant", "content": words})


def ratio_of(turns: int, folder: Path, rounds: int) -> Ratio:
    """Return the time for a session with so many turns, beside that of reading its file as JSON."""
    path = folder / f"session-{turns}.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records_of(turns)), encoding="utf-8")
    require(len(transcript_to_turn_traces(path)) == turns, f"not {turns} turns")

    def read() -> list[object]:
        return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]

    converted, parsed = in_turns(lambda: transcript_to_turn_traces(path), read, rounds)
    size = path.stat().st_size / 1e6
    return Ratio(f"{turns} turns, {size:.0f} MB", converted, "the file as JSON", parsed)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("transcripts", __doc__)
    add_quick(parser, "a tenth of the turns")
    add_markdown(parser)
    options = parser.parse_args(arguments)
    quick = options.quick
    turns = TURNS // 10 if quick else TURNS
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = [ratio_of(count, Path(folder), 2 if quick else 5) for count in (turns // 4, turns)]
    except WrongResult as problem:
        print(f"WRONG: {problem}")
        return 1
    show(rows, markdown=options.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measures how long logs take to be read, against reading the same file with `json.loads` alone, and the peak memory.

The session has 60 MB and the records of Claude Code; the folder has many files of the same size together. The file of
many runs has 1 GB and is read by another process. It exits with 1 if something is not read, never because of time or
memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ace.logs import Run, read_runs
from ace.logs.source import file_source
from benchmarks.options import add_markdown, add_quick, parser_of
from benchmarks.ratios import Ratio, in_turns, show
from benchmarks.wrong_result import WrongResult, require

SESSION_MB = 60
MOST_SECONDS = 2.0
"""How long the session may take."""
MB_PER_SECOND = 40.0
"""How much of many files may be read per second at least."""
MOST_MEMORY_MB = 150.0
FILES = 200
OUTPUT = "a line that a tool has printed, with \u201cquotes\u201d\n" * 30

CHILD = """
import resource, sys
from ace.logs import Run, read_runs
runs = sum(isinstance(found, Run) for found in read_runs(sys.argv[1]))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(runs, peak / (1e6 if sys.platform == "darwin" else 1e3))
"""


def records_of(turns: int) -> Iterator[dict[str, Any]]:
    """Return the records of a session, in the shape in which Claude Code stores them."""
    parent: str | None = None
    for number in range(turns * 4):
        uuid = f"00000000-0000-4000-8000-{number:012}"
        record: dict[str, Any] = {"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/work"}
        record |= {"sessionId": "s", "version": "2.1.24", "gitBranch": "main", "uuid": uuid}
        record |= {"timestamp": f"2026-02-09T10:00:{number % 60:02}.000Z", **_message(number)}
        yield record
        parent = uuid


def _message(number: int) -> dict[str, Any]:
    turn, kind = divmod(number, 4)
    if kind == 0:
        return {"type": "user", "message": {"role": "user", "content": f"Do task {turn} of the list, with a test."}}
    if kind == 1:
        block: dict[str, Any] = {"type": "tool_use", "id": f"t{turn}", "name": "Bash", "input": {"command": "make"}}
    elif kind == 2:
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": OUTPUT, "is_error": False}
        content = {"type": "user", "message": {"role": "user", "content": [result]}}
        return {**content, "toolUseResult": {"stdout": OUTPUT, "stderr": "", "interrupted": False}}
    else:
        block = {"type": "text", "text": f"Task {turn} is done."}
    usage = {"input_tokens": 9, "output_tokens": 5}
    message = {"id": f"m{turn}.{kind}", "role": "assistant", "model": "claude", "content": [block], "usage": usage}
    return {"type": "assistant", "message": message}


def write_session(path: Path, megabytes: float) -> int:
    """Write a session of some size, and return the number of its records."""
    size = len(_lines(records_of(10))) / 10
    turns = int(megabytes * 1e6 / size)
    path.write_text(_lines(records_of(turns)), encoding="utf-8")
    return turns * 4


def _lines(records: Iterator[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)


def write_runs(path: Path, megabytes: float) -> int:
    """Write a file of many runs, a line each, and return their number."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Do the task."}]
    for number in range(20):
        function = {"name": "bash", "arguments": "{}"}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": OUTPUT})
    messages.append({"role": "assistant", "content": "It is done."})
    line = json.dumps({"id": "run-000000000", "messages": messages, "success": True}, ensure_ascii=False) + "\n"
    count = int(megabytes * 1e6 / len(line.encode()))
    with path.open("w", encoding="utf-8") as file:
        file.writelines(line.replace("run-000000000", f"run-{number:09}") for number in range(count))
    return count


def read_as_json(path: Path) -> int:
    """Read every line of a file as JSON, and keep none."""
    with path.open("rb") as file:
        return sum(json.loads(line) is not None for line in file)


def decode(path: Path) -> int:
    """Read the records of a file, and keep none."""
    return sum(1 for _ in file_source(path).records())


def runs_in(path: Path) -> int:
    """Read the runs of a file or folder, and keep none."""
    return sum(isinstance(found, Run) for found in read_runs(path))


def session_rows(folder: Path, megabytes: float, rounds: int) -> Iterator[Ratio]:
    """Measure one session: as lines, as a list, and as a run."""
    path = folder / "session.jsonl"
    count = write_session(path, megabytes)
    as_list = folder / "list.json"
    as_list.write_bytes(b"[" + path.read_bytes().strip().replace(b"\n", b",\n") + b"]")
    require(decode(path) == decode(as_list) == read_as_json(path) == count, f"not {count} records")
    baseline = f"json.loads for each of {count} lines"
    for what, measured in (("lines", lambda: decode(path)), ("the same in a JSON list", lambda: decode(as_list))):
        yield Ratio(f"{what}, {megabytes:g} MB", *_beside(measured, path, baseline, rounds))
    goal = MOST_SECONDS * 1000 * megabytes / SESSION_MB
    measured_runs = _beside(lambda: runs_in(path), path, baseline, rounds)
    yield Ratio(f"runs of one file, {megabytes:g} MB", *measured_runs, most_measured=goal)


def _beside(measured: Any, path: Path, name: str, rounds: int) -> tuple[float, str, float]:
    own, plain = in_turns(measured, lambda: read_as_json(path), rounds)
    return own, name, plain


def folder_row(folder: Path, megabytes: float, rounds: int) -> Ratio:
    """Measure a folder of many files."""
    logs, whole = folder / "logs", folder / "whole.jsonl"
    logs.mkdir()
    with whole.open("wb") as together:
        for number in range(FILES):
            write_session(logs / f"{number}.jsonl", megabytes / FILES)
            together.write((logs / f"{number}.jsonl").read_bytes())
    require(runs_in(logs) >= FILES, f"not {FILES} runs")
    measured = _beside(lambda: runs_in(logs), whole, "json.loads for each line", rounds)
    return Ratio(f"runs of {FILES} files, {megabytes:g} MB", *measured, most_measured=1000 * megabytes / MB_PER_SECOND)


def memory_row(folder: Path, megabytes: float) -> Ratio:
    """Measure the peak memory of a process that reads many runs."""
    path, small = folder / "runs.jsonl", folder / "few.jsonl"
    count, few = write_runs(path, megabytes), write_runs(small, 1)
    (runs, peak), (few_runs, least) = _read_apart(path), _read_apart(small)
    require((runs, few_runs) == (count, few), f"{runs} runs instead of {count}, {few_runs} instead of {few}")
    what = f"peak memory for {megabytes:g} MB of runs"
    return Ratio(what, peak, "that for 1 MB", least, most_measured=MOST_MEMORY_MB, unit="MB")


def _read_apart(path: Path) -> tuple[int, float]:
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True, check=True)
    runs, peak = done.stdout.split()
    return int(runs), float(peak)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of("logs", __doc__)
    add_quick(parser, "a tenth of the size")
    add_markdown(parser)
    options = parser.parse_args(arguments)
    part, rounds = (0.1, 2) if options.quick else (1.0, 3)
    try:
        with tempfile.TemporaryDirectory() as folder:
            rows = [*session_rows(Path(folder), SESSION_MB * part, rounds)]
            rows += [folder_row(Path(folder), SESSION_MB * part, rounds), memory_row(Path(folder), 1000 * part)]
    except WrongResult as problem:
        print(f"WRONG: {problem}")
        return 1
    show(rows, markdown=options.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())

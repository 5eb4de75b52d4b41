"""Thousands of damaged files: none stops the reading, and every record that is still whole is read.

The files are real ones with random damage. `ACE_FUZZ_SEED=N` repeats the files of a failure, whose message says N;
`ACE_FUZZ_FILES=N` makes more of them.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ace.logs.decoding import NotALogError, head_of, records
from ace.logs.run import Problem

DATA = Path(__file__).parent / "data"
# Where everything is required, as on CI, the files are the same in every run.
CHANCE = 0 if "ACE_REQUIRE" in os.environ else random.SystemRandom().randrange(1_000_000)
SEED = int(os.environ.get("ACE_FUZZ_SEED") or CHANCE)
FILES = int(os.environ.get("ACE_FUZZ_FILES") or 1500)
PARTS = 3

Pieces = list[bytes]
Chance = random.Random


def values_in(path: Path) -> list[Any]:
    """What is read of a file; nothing if it cannot be a log."""
    problems: list[Problem] = []
    try:
        head = head_of(path, 50)
    except NotALogError:
        return []
    return [record.value for record in records(path, path.name, head.shape, problems)]


def objects_in(value: object) -> Iterator[object]:
    """Yield a record, and the objects in it.

    A line that was cut off after a colon, a whole line and a line of one bracket are one value over three lines.
    """
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_in(inner)


def as_text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def line_files() -> list[Path]:
    paths = [*DATA.rglob("*.jsonl"), *(Path(__file__).parents[2] / "claude_code/data/transcripts").rglob("*.jsonl")]
    plain = [path for path in paths if not path.read_bytes().startswith(b"\xff\xfe")]
    return sorted(path for path in plain if all(map(is_json, path.read_bytes().splitlines())))


def list_files() -> list[Path]:
    return sorted(path for path in DATA.rglob("*.json") if path.read_bytes().startswith(b"["))


def is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


# Damage of one piece, a line or an element of a list


def cut(piece: bytes, chance: Chance) -> bytes:
    return piece[: chance.randrange(len(piece))]


def beheaded(piece: bytes, chance: Chance) -> bytes:
    return piece[chance.randrange(1, len(piece)) :]


def corrupted(piece: bytes, chance: Chance) -> bytes:
    data = bytearray(piece)
    for _ in range(chance.randint(1, 4)):
        data[chance.randrange(len(data))] = chance.choice([*range(256), *b'"{}[]\\,:\x00'])
    return bytes(data).replace(b"\n", b" ")


def with_hole(piece: bytes, chance: Chance) -> bytes:
    start = chance.randrange(len(piece))
    return piece[:start] + piece[start + chance.randint(1, 40) :]


def nul_padded(piece: bytes, chance: Chance) -> bytes:
    at = chance.randrange(len(piece))
    return piece[:at] + b"\x00" * chance.randint(1, 5000) + piece[at:]


DAMAGES: Sequence[Callable[[bytes, Chance], bytes]] = (cut, beheaded, corrupted, with_hole, nul_padded)


# Damage of a file of lines. The lines that stay whole are those that are found as they were.


def damaged_lines(pieces: Pieces, chance: Chance) -> bytes:
    lines = list(pieces)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(lines))
        kind = chance.randrange(9)
        if kind < len(DAMAGES):
            lines[at] = DAMAGES[kind](lines[at], chance) if len(lines[at]) > 1 else b"{"
        elif kind == 5:
            lines.insert(chance.randrange(len(lines)), lines[at])
        elif kind == 6:
            chance.shuffle(lines)
        elif kind == 7:
            lines.insert(at, chance.choice([b"# note", b"", b"\x00" * 50, b"npm warn deprecated", b"}", b'"', b"\r"]))
        else:
            lines[at] += b"\x00" * 20
    return chance.choice([b"\n", b"\r\n"]).join(lines)


def whole_lines(data: bytes, pieces: Pieces) -> Counter[str]:
    """The lines that are still whole, apart from NUL bytes around them."""
    known = set(pieces)
    lines = (line.strip(b"\x00\r ") for line in data.split(b"\n"))
    return Counter(as_text(json.loads(line)) for line in lines if line in known)


def check(path: Path, data: bytes, expected: Counter[str], seed: str) -> None:
    path.write_bytes(data)
    missing = expected - Counter(as_text(found) for value in values_in(path) for found in objects_in(value))
    if missing:
        (path.parent / "failure").write_bytes(data)
        pytest.fail(f"{seed}: {missing.total()} whole records are not read, such as {next(iter(missing))[:300]}")


@pytest.mark.parametrize("part", range(PARTS))
def test_whole_lines_of_a_damaged_file_are_read(part: int, tmp_path: Path) -> None:
    files = [path.read_bytes().splitlines() for path in line_files()]
    for number in range(part, FILES, PARTS):
        chance = random.Random(f"lines {SEED} {number}")
        pieces = chance.choice(files)
        data = damaged_lines(pieces, chance)
        check(tmp_path / "log.jsonl", data, whole_lines(data, pieces), f"ACE_FUZZ_SEED={SEED} {number}")


def test_whole_records_after_torn_ones_in_the_same_line_are_read(tmp_path: Path) -> None:
    files = [path.read_bytes().splitlines() for path in line_files()]
    for number in range(FILES // 3):
        chance = random.Random(f"glued {SEED} {number}")
        pieces = chance.choice(files)
        lines = [*pieces, *pieces]
        at = chance.randrange(len(pieces), len(lines))
        torn = lines[at][: chance.randrange(1, len(lines[at]) - 1)]
        expected = Counter(as_text(json.loads(line)) for line in lines)
        lines[at] = torn + lines[at]
        check(tmp_path / "log.jsonl", b"\n".join(lines), expected, f"ACE_FUZZ_SEED={SEED} {number}")


def test_whole_elements_of_a_damaged_list_are_read(tmp_path: Path) -> None:
    lists = [json.loads(path.read_bytes()) for path in list_files()]
    for number in range(FILES // 3):
        chance = random.Random(f"list {SEED} {number}")
        elements = chance.choice(lists) * 3
        indent = chance.choice([None, None, 1, 4])
        pieces = [json.dumps(element, indent=indent).encode() for element in elements]
        at = chance.randrange(1, len(pieces))
        expected = Counter(map(as_text, elements[:at] + elements[at + 1 :]))
        pieces[at] = chance.choice(DAMAGES)(pieces[at], chance)
        before, between, after = (b"[", b", ", b"]") if indent is None else (b"[\n", b",\n", b"\n]")
        data = before + between.join(pieces) + after
        check(tmp_path / "log.json", data, expected, f"ACE_FUZZ_SEED={SEED} {number}")


def test_no_damage_to_the_bytes_of_any_file_stops_the_reading(tmp_path: Path) -> None:
    files = sorted(path for path in DATA.rglob("*") if path.is_file())
    path = tmp_path / "log"
    for number in range(FILES // 3):
        chance = random.Random(f"bytes {SEED} {number}")
        source = chance.choice(files)
        path = tmp_path / f"log{source.suffix}"
        data = source.read_bytes()
        for _ in range(chance.randint(1, 3)):
            data = chance.choice(DAMAGES)(data, chance) if len(data) > 1 else b"{"
        path.write_bytes(data)
        for value in values_in(path):
            json.dumps(value)

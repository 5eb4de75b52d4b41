"""Hundreds of damaged files through every reader: each gives a result or one of our own errors, and none hangs.

The files are real inputs with random damage. `ACE_FUZZ_SEED=N` repeats the files of a failure, whose message says N;
`ACE_FUZZ_FILES=N` makes more of them.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import logging
import os
import random
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, SimpleNamespace

import pytest

from ace.cli import main
from ace.cli.errors import UsageError
from ace.cli.inputs import GatheredTraces, RunFilter, gather_traces
from ace.cli.learning.sample_files import sample_of
from ace.cli.settings import load_settings
from ace.context import ACEStepContext
from ace.evaluation import TrainingLog
from ace.logs import read_trace, traces_in
from ace.logs.spool import StoredTrace
from ace.protocols.trace_converters import AmbiguousTraceError, TraceConversionError
from ace.roles.rendering import fitted_sections, sections_of
from ace.skillbook import Skillbook
from ace.skillbook.errors import SkillbookError
from ace.steps import LoadTracesStep

TESTS = Path(__file__).parents[2]
# Where everything is required, as on CI, the files are the same in every run, as the examples of Hypothesis are.
CHANCE = 0 if "ACE_REQUIRE" in os.environ else random.SystemRandom().randrange(1_000_000)
SEED = int(os.environ.get("ACE_FUZZ_SEED") or CHANCE)
FILES = int(os.environ.get("ACE_FUZZ_FILES") or 720)
PARTS = 6
WATCHDOG = 120
"""Seconds for one file, after which its reader counts as hanging. It takes some milliseconds."""

MESSAGES = [
    {"role": "user", "content": "Two and two?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    {"role": "assistant", "content": [{"type": "text", "text": "Four."}, {"type": "tool_use", "id": "t", "input": {}}]},
]
TRACES: list[object] = [
    {"task": "t", "output": "o", "feedback": "f", "steps": [{"action": "a", "observation": "b"}], "success": True},
    {"messages": MESSAGES, "metadata": {"model": "m"}, "metrics": {"cost": 0.1}},
    MESSAGES,
    {"id": ["langchain", "schema"], "lc": 1, "type": "constructor", "kwargs": {"content": "c", "type": "ai"}},
    {"input": "i", "intermediate_steps": [[{"tool": "s", "tool_input": "q", "log": "l"}, "found"]], "output": "o"},
    {
        "schema": 1,
        "question": "q",
        "steps": [{"kind": "call", "name": "n", "content": "c", "is_error": False, "place": "1"}],
    },
]
OPENCLAW = [
    {"type": "session", "version": 3, "id": "a", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w"},
    {"type": "message", "id": "1", "parentId": None, "message": {"role": "user", "content": "hi", "timestamp": 1}},
    {
        "type": "message",
        "id": "2",
        "parentId": "1",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "x"}]},
    },
]
TABLE = 'Task,Final Answer,Messages\n1+1?,2,"[{""role"": ""user""}]"\n"two\nlines",4,\n'
SETTINGS = 'model = "openai/x"\nworkers = 2\ntimeout = 1.5\nmax_input_mb = 5\nskillbook = "a.db"\n'
PLAYBOOK = (
    "## STRATEGIES\n[str-00001] helpful=3 harmful=1 :: Check the unit.\n[str-00002] helpful=0 harmful=0 :: Be brief.\n"
)
MARKDOWN = (
    "# Notes\n\n- Check the unit.\n- Be brief.\n\n<!-- ace:begin -->\n## Skills\n- [a-00001] Ask.\n<!-- ace:end -->\n"
)
RAW_VALUES = {"long number": "1" * 4301, "deep list": "[" * 3000 + "]" * 3000, "same names": '{"a": 1, "a": 2}'}
"""What `json.dumps` cannot write, by the text that it writes instead."""
WEIRD_VALUES: Sequence[object] = [
    *[*RAW_VALUES] * 3,
    *(
        None,
        True,
        0,
        -1,
        1e308,
        float("nan"),
        float("inf"),
        10**30,
        -(2**63),
        "",
        " ",
        "\ud800",
        "\x00",
        "\x1b[2J",
        "x" * 5000,
    ),
    *(
        [],
        {},
        [[]],
        {"": None},
        ["a", 1, None],
        {"a": {"b": {"c": []}}},
        "{}",
        "null",
        "2026-13-45T99:99:99Z",
        "-0",
        "\u0661",
    ),
]
WEIRD_BYTES: Sequence[bytes] = [
    *(
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\r",
        b"\n",
        b'"',
        b"'",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"=",
        b"\xe2\x80\xa8",
    ),
    *(
        b"9" * 4301,
        b"[" * 6000,
        b'{"a":' * 3000,
        b"NaN",
        b"-Infinity",
        b"1e99999",
        b"\\ud800",
        b"0x" + b"f" * 5000,
        b'"""',
    ),
    *(
        b"<html>",
        b"SQLite format 3\x00",
        b"PK\x03\x04",
        b"%PDF",
        b"\x1b]0;x\x07",
        b"null",
        b"\n\n\n",
        b"[[a]]\n",
        b"x" * 70_000,
    ),
]


def damaged_value(chance: random.Random, value: object) -> object:
    """Replace, remove or repeat something somewhere inside a JSON value."""
    whole = copy.deepcopy(value)
    here = whole
    while isinstance(here, dict | list) and here:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        key = chance.choice(keys)
        inner = here[key]
        if isinstance(inner, dict | list) and inner and chance.random() < 0.7:
            here = inner
            continue
        act = chance.randrange(4)
        if act == 0:
            del here[key]
        elif act == 1 and isinstance(here, dict):
            here[chance.choice(["", "role", "type", "content", "id", "steps", "\ud800", "kind"])] = here.pop(key)
        else:
            here[key] = copy.deepcopy(chance.choice(WEIRD_VALUES))
        return whole
    return copy.deepcopy(chance.choice(WEIRD_VALUES))


def damaged_bytes(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Cut, change, insert or repeat something somewhere inside bytes."""
    for _ in range(chance.choice([1, 1, 1, 2, 3, 8])):
        place = chance.randrange(len(data) + 1)
        end = min(len(data), place + chance.choice([1, 2, 10, 100, 2000]))
        act = chance.randrange(7)
        if act == 0:
            data = data[:place]
        elif act == 1:
            data = data[:place] + data[end:]
        elif act == 2:
            data = data[:place] + chance.choice(WEIRD_BYTES) + data[place:]
        elif act == 3:
            data = data[:place] + chance.randbytes(end - place) + data[end:]
        elif act == 4:
            data = data[:place] + data[place:end] * chance.choice([2, 3, 50]) + data[end:]
        elif act == 5:
            data = data[:place] + chance.choice(others)[: chance.choice([10, 1000, 20_000])]
        else:
            data = chance.choice(WEIRD_BYTES) + data
    return data[:400_000]


class Fuzz:
    """Makes damaged files and reads them."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.chance = chance
        found = sorted(
            [*TESTS.glob("claude_code/data/transcripts/**/*.jsonl"), *TESTS.glob("browser_use/histories/*.json")]
        )
        texts = [path.read_bytes()[:60_000] for path in found]
        book = Skillbook()
        for number in range(4):
            skill = book.add_skill("units", f"Check unit {number}.", justification="it failed")
            book.tag_skill(skill.id, "helpful")
        self.book = book.to_dict()
        store = folder / "whole.db"
        with Skillbook.open(store) as stored:
            for number in range(4):
                stored.add_skill("units", f"Check unit {number}.", evidence="e")
            stored.tag_skill("units-00001", "harmful")
            stored.remove_skill("units-00002", soft=True)
        self.store = store.read_bytes()
        lines = "\n".join(map(json.dumps, TRACES)).encode()
        claw = "\n".join(map(json.dumps, OPENCLAW)).encode()
        self.records = [
            lines,
            json.dumps(TRACES).encode(),
            claw,
            TABLE.encode(),
            MARKDOWN.encode(),
            b"It failed.\n",
            *texts,
        ]
        self.makers: Sequence[tuple[int, Callable[[], None]]] = [
            (9, self.traces),
            (3, self.standard_input),
            (3, self.live),
            (2, self.settings),
            (2, self.skillbook),
            (2, self.imported),
            (3, self.damaged_store),
            (1, self.logs),
        ]

    def one(self, number: int) -> None:
        """Make one file and read it."""
        weights, makers = zip(*self.makers, strict=True)
        self.number = number
        [maker] = self.chance.choices(makers, weights)
        maker()

    def content(self, *whole: object) -> bytes:
        """Return damaged content: of the given values, or of any record."""
        chance = self.chance
        if not whole and chance.random() < 0.6:
            return damaged_bytes(chance, chance.choice(self.records), self.records)
        values = list(whole or TRACES)
        damaged = json.dumps(damaged_value(chance, chance.choice(values)), ensure_ascii=chance.random() < 0.5)
        for mark, raw in RAW_VALUES.items():
            damaged = damaged.replace(f'"{mark}"', raw)
        data = damaged.encode("utf-8", "surrogatepass")
        return data if chance.random() < 0.7 else damaged_bytes(chance, data, self.records)

    def written(self, suffix: str, data: bytes) -> Path:
        """Write a file; the one before of the same kind is replaced."""
        path = self.folder / f"fuzz{suffix}"
        path.write_bytes(data)
        return path

    def traces(self) -> None:
        suffix = self.chance.choice([".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".txt", ".md", ".log", ""])
        path = self.written(suffix, self.content())
        self.gathered([str(path)])
        LoadTracesStep()(ACEStepContext(sample=path))

    def standard_input(self) -> None:
        data = self.content()
        self.written(".stdin", data)
        before = sys.stdin
        sys.stdin = SimpleNamespace(buffer=io.BytesIO(data))
        try:
            self.gathered(["-"])
        finally:
            sys.stdin = before

    def gathered(self, paths: list[str]) -> None:
        with contextlib.suppress(UsageError), gather_traces(paths, wanted=RunFilter(max_bytes=1_000_000)) as found:
            self.read(found)

    def read(self, found: GatheredTraces) -> None:
        list(found.summary.questions())
        json.dumps(found.summary.as_json())
        for problem in found.problems:
            assert "failed: " not in problem.reason, problem
        for trace in found.traces[:30]:
            assert isinstance(trace.record, StoredTrace)
            sample_of(trace.record.load(), trace.place)
            fitted_sections(sections_of(read_trace(trace.record)), 4000)

    def live(self) -> None:
        """Read a value in memory, as the service and MCP do."""
        value = damaged_value(self.chance, self.chance.choice(TRACES))
        for trace in traces_in(value):
            with contextlib.suppress(AmbiguousTraceError, TraceConversionError):
                fitted_sections(sections_of(read_trace(trace)), 4000)

    def settings(self) -> None:
        others = [SETTINGS.encode(), *self.records]
        path = self.written(".toml", damaged_bytes(self.chance, SETTINGS.encode(), others))
        path.replace(self.folder / "ace.toml")
        with contextlib.suppress(UsageError):
            load_settings({}, environ={"HOME": str(self.folder)}, folder=self.folder)

    def skillbook(self) -> None:
        path = self.written(".json", self.content(self.book))
        with contextlib.suppress(SkillbookError):
            Skillbook.load_from_file(path)
        self.command("show", path)

    def imported(self) -> None:
        chance = self.chance
        text = chance.choice([PLAYBOOK.encode(), MARKDOWN.encode(), json.dumps(self.book).encode()])
        suffix = chance.choice([".md", ".txt", ".json", ".toml", ""])
        path = self.written(suffix, damaged_bytes(chance, text, self.records))
        self.ace("skillbook", "import", str(path), "--skillbook", str(self.folder / "taken.json"))

    def damaged_store(self) -> None:
        for leftover in self.folder.glob("fuzz-*.db*"):
            leftover.unlink()
        path = self.written(f"-{self.number}.db", self.store)
        if self.chance.random() < 0.4:
            path.write_bytes(damaged_bytes(self.chance, self.store, [self.store]))
        else:
            self.damage_rows(path)
        command = self.chance.choice(["show", "log", "blame", "diff", "export", "prune"])
        further = {"diff": ["1"], "export": [str(self.folder / "out.md")], "blame": ["units-00001"]}.get(command, [])
        self.command(command, path, *further)

    def damage_rows(self, path: Path) -> None:
        chance = self.chance
        with contextlib.closing(sqlite3.connect(path)) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for _ in range(chance.choice([1, 1, 2, 5])):
                table = chance.choice(tables)
                columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')] or ["none"]
                act = chance.randrange(6)
                with contextlib.suppress(sqlite3.Error):  # it may have been dropped before, or have a constraint
                    if act == 0:
                        connection.execute(f'DELETE FROM "{table}"')
                    elif act == 1:
                        connection.execute(f'DROP TABLE "{table}"')
                    elif act == 2:
                        connection.execute(f'ALTER TABLE "{table}" DROP COLUMN "{chance.choice(columns)}"')
                    else:
                        values = [
                            None,
                            b"\xff\x00",
                            "text",
                            -5,
                            2**62,
                            1.5,
                            "",
                            "{}",
                            "[" * 6000,
                            "null",
                            '{"a": 1}',
                            "9" * 4301,
                        ]
                        column, value = chance.choice(columns), chance.choice(values)
                        connection.execute(f'UPDATE "{table}" SET "{column}" = ?', (value,))
            connection.commit()

    def logs(self) -> None:
        entries = b'{"run": "r", "samples": 5, "accuracy": 0.5}\n{"run": "r", "kept": true}\n'
        path = self.written(".log.jsonl", damaged_bytes(self.chance, entries, self.records))
        with contextlib.suppress(ValueError):
            log = TrainingLog(path)
            if log.last_run is not None:
                log.points_of(log.last_run)

    def command(self, name: str, book: Path, *further: str) -> None:
        self.ace("skillbook", name, *further, "--skillbook", str(book))

    def ace(self, *arguments: str) -> None:
        """Run a command here: its exit code has a meaning, and no error comes out of it."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(arguments))
        assert code in (0, 1, 2), arguments
        assert code != 2 or len(err.getvalue().splitlines()) == 1, err.getvalue()


@contextlib.contextmanager
def watched() -> Iterator[Callable[[], None]]:
    """Raise in the middle of what hangs; yields what starts the time anew."""

    def bark(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"no end after {WATCHDOG} s")

    before = signal.signal(signal.SIGALRM, bark)

    def start() -> None:
        signal.setitimer(signal.ITIMER_REAL, WATCHDOG)

    try:
        yield start
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_reader_raises_anything_else_or_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    caplog.set_level(logging.CRITICAL)
    failures: list[str] = []
    with watched() as start_time:
        fuzz = Fuzz(tmp_path, random.Random(f"{SEED} {part}"))
        for number in range(FILES // PARTS):
            (tmp_path / "ace.toml").unlink(missing_ok=True)
            start_time()
            try:
                fuzz.one(number)
            except Exception as error:
                logging.getLogger(__name__).critical("file %d", number, exc_info=error)
                failures.append(f"file {number}: {type(error).__name__}: {str(error)[:200]}")
    assert failures == [], f"ACE_FUZZ_SEED={SEED}, part {part}"

"""`LogReaderConformance`: the checks for the reader of the logs of a tool."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from ace.logs import LogHead, LogReader, NotALogError, Problem, Run, Speaker, file_source, live_source
from ace.plugins import LogReaderSpec
from ace.testing.suite import Conformance, demand, last_line, must_be_given, resolved, run_without, spec_of

__all__ = ["LogReaderConformance"]

_KINDS: Final = {"call": "agent", "thought": "agent", "result": "tool"}
"""The kinds of steps that only one speaker has; anyone may say a message."""
_FOREIGN: Final[Sequence[object]] = (
    {"unrelated": True},
    {"type": "unrelated", "data": [1]},
    7,
    None,
    "text",
    [],
    [[1]],
)
_FEWEST_CUTS: Final = 8
_READ: Final = """
import importlib
from pathlib import Path
from ace.logs import Run, file_source
target, *paths = sys.argv[1:]
module, _, name = target.partition(":")
reader = getattr(importlib.import_module(module), name)()
for path in paths:
    print(sum(isinstance(found, Run) for found in reader.runs(file_source(Path(path)))))
"""


class LogReaderConformance(Conformance, is_suite=True):
    """Checks the reader of the logs of a tool.

    Fixtures: `plugin_name`, `framework_modules`, `reader`, `sample_logs`, `claims_foreign_logs`.
    """

    @pytest.fixture
    def reader(self, plugin_name: str) -> LogReader:
        """The reader; by default, that of the plugin."""
        spec = spec_of(plugin_name, LogReaderSpec)
        made: Any = resolved(plugin_name, spec.target, spec.requires)
        found: LogReader = made()
        demand(
            found.name == spec.name == plugin_name,
            f"the reader is called {found.name!r} and its spec {spec.name!r}; both must have the name of the plugin",
        )
        return found

    @pytest.fixture
    def sample_logs(self) -> Sequence[Path]:
        """Some logs, each with at least one run; small files of every form that the reader takes."""
        logs: Sequence[Path] = must_be_given(self, "sample_logs")
        return logs

    @pytest.fixture
    def claims_foreign_logs(self) -> bool:
        """Whether the reader takes what no other reader knows, so that it may claim anything."""
        return False

    def test_attributes(self, reader: LogReader) -> None:
        """The reader has the attributes of `LogReader`, with values of the right types."""
        demand(isinstance(reader, LogReader), f"{reader!r} is not a LogReader: an attribute or a method is missing")
        for name in ("name", "title"):
            value = getattr(reader, name)
            demand(isinstance(value, str) and value.strip(), f"{name} must be a text, and is {value!r}")
        demand(isinstance(reader.note, str), f"note must be a text, and is {reader.note!r}")
        for name in ("places", "side_files"):
            values: object = getattr(reader, name)
            demand(
                isinstance(values, list | tuple) and all(isinstance(value, str) for value in values),
                f"{name} must be a tuple of texts, and is {values!r}",
            )

    def test_recognises_its_logs(self, reader: LogReader, sample_logs: Sequence[Path]) -> None:
        """The sample logs score above 0 to 1."""
        for path in sample_logs:
            score: object = reader.recognises(file_source(path).head)
            demand(
                isinstance(score, int | float) and 0 < score <= 1,
                f"{path.name} scores {score!r}, not above 0 and at most 1",
            )

    def test_claims_nothing_else(self, reader: LogReader, tmp_path: Path, claims_foreign_logs: bool) -> None:
        """Other heads score 0, also empty ones and those of values without fields."""
        heads = [live_source(value).head for value in _FOREIGN]
        heads += [LogHead(path=tmp_path / "log", shape=shape) for shape in ("text", "sqlite", "zip", "folder", "table")]
        for head in heads:
            score = reader.recognises(head)
            demand(
                score == 0 or claims_foreign_logs,
                f"a head that is not of this format scores {score!r}, not 0: {head!r}",
            )

    def test_runs(self, reader: LogReader, sample_logs: Sequence[Path]) -> None:
        """Each sample log has a run; steps have the right kinds and speakers, and the traces are JSON."""
        for path in sample_logs:
            found: list[object] = list(reader.runs(file_source(path)))
            strangers = [item for item in found if not isinstance(item, Run | Problem)]
            demand(not strangers, f"runs() yields {strangers[:1]!r} for {path.name}, not a Run or a Problem")
            runs = [item for item in found if isinstance(item, Run)]
            demand(runs, f"runs() yields no Run for {path.name}: {found!r}")
            for run in runs:
                _check_run(run, path)

    def test_reads_twice_the_same(self, reader: LogReader, sample_logs: Sequence[Path]) -> None:
        """Reading a log again, also in turns with another reading, gives the same."""
        for path in sample_logs:
            expected = list(reader.runs(file_source(path)))
            pairs = zip(reader.runs(file_source(path)), reader.runs(file_source(path)), strict=True)
            demand([first for first, _ in pairs] == expected, f"{path.name} gives other runs when it is read again")

    def test_survives_damage(self, reader: LogReader, sample_logs: Sequence[Path], tmp_path: Path) -> None:
        """Logs that are cut, doubled or out of order, and logs of others, raise nothing."""
        for path in sample_logs:
            if not path.is_file():
                continue
            for number, data in enumerate(_damaged(path.read_bytes())):
                copy = tmp_path / f"{number}" / path.name
                copy.parent.mkdir(exist_ok=True)
                copy.write_bytes(data)
                try:
                    source = file_source(copy)
                except NotALogError:
                    continue
                _read(reader, source, f"a damaged copy of {path.name} ({len(data)} bytes)")
        for value in _FOREIGN:
            _read(reader, live_source(value), repr(value))

    def test_without_framework(
        self, request: pytest.FixtureRequest, framework_modules: tuple[str, ...], sample_logs: Sequence[Path]
    ) -> None:
        """Logs can be read without the framework, as they may be read elsewhere."""
        if not framework_modules:
            pytest.skip("the reader belongs to no framework")
        spec = spec_of(request.getfixturevalue("plugin_name"), LogReaderSpec)
        done = run_without(framework_modules, _READ, spec.target, *map(str, sample_logs))
        demand(done.returncode == 0, f"logs cannot be read without the framework: {last_line(done.stderr)}")


def _check_run(run: Run, path: Path) -> None:
    for step in run.steps:
        speaker = _KINDS.get(step.kind, step.speaker)
        demand(
            step.speaker == speaker and step.speaker in get_args(Speaker),
            f"a {step.kind} in {path.name} is spoken by {step.speaker!r}, not {speaker!r}: {step!r}",
        )
        demand(
            step.kind in (*_KINDS, "message") and isinstance(step.content, str),
            f"a step in {path.name} has the kind {step.kind!r} and a content of {type(step.content)}",
        )
    demand(run.success in (None, True, False), f"success must be True, False or None, and is {run.success!r}")
    try:
        json.dumps(run.to_trace(), allow_nan=False)
    except (TypeError, ValueError) as error:
        pytest.fail(f"the trace of a run in {path.name} is not JSON: {error}", pytrace=False)


def _damaged(data: bytes) -> Iterator[bytes]:
    """Yield copies of a log that are cut, doubled, torn in the middle or out of order."""
    for at in range(1, _FEWEST_CUTS):
        cut = len(data) * at // _FEWEST_CUTS
        yield data[:cut]
        yield data[cut:]
        yield data[:cut] + b"\n" + data[cut:]
    lines = data.splitlines(keepends=True)
    yield from (data * 2, b"".join(reversed(lines)), b"".join(lines[1:]))
    random.Random(7).shuffle(lines)
    yield b"".join(lines)


def _read(reader: LogReader, source: Any, what: str) -> None:
    try:
        for found in reader.runs(source):
            demand(isinstance(found, Run | Problem), f"runs() yields {found!r} for {what}, not a Run or a Problem")
    except Exception as error:  # of the reader under test
        pytest.fail(f"runs() raises {type(error).__name__}: {error} for {what}; yield a Problem", pytrace=False)

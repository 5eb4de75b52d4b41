"""Spans that real instrumentation libraries have recorded become runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ace.logs import Run, read_runs
from tests.core.logs.spans.kettle import steps_of

ROOT = Path(__file__).resolve().parents[4]
LIBRARIES = ("genai-openai", "genai-openai-events", "anthropic", "openinference-langchain")
QUESTION = "When is high water in Bremen?"
BROKEN = "When is high water in Nowhere?"
ANSWER = "By [tides-00001] it is at nine."
TOKENS = {  # those that the scripted servers report for both model calls
    "genai-openai": (20, 8),
    "genai-openai-events": (20, 8),
    "anthropic": (2000, 100),
    "openinference-langchain": (26, 8),
}

Export = Callable[[str], Path]


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Return the export of an application that one of the libraries records; each is run once."""
    folder = tmp_path_factory.mktemp("exports")

    def run(library: str) -> Path:
        path = folder / f"{library}.jsonl"
        if not path.exists():
            command = [sys.executable, "-m", "tests.core.logs.spans.instrumented_agent", library, str(path)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        return path

    return run


def runs_by_task(path: Path) -> dict[str, Run]:
    """The runs in a file, which has no problems."""
    found = list(read_runs(path))
    runs = {run.task: run for run in found if isinstance(run, Run)}
    assert len(runs) == len(found), found
    return runs


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_task_with_a_tool(export: Export, library: str) -> None:
    run = runs_by_task(export(library))[QUESTION]
    looked = [("message", "agent", "I look.", False)] if library == "anthropic" else []
    assert steps_of(run) == [
        ("message", "person", QUESTION, False),
        *looked,
        ("call", "tide_table", '{"port": "Bremen"}', False),
        ("result", "tide_table", "there is no table of Bremen", False),
        ("message", "agent", ANSWER, False),
    ]
    assert (run.answer, run.success, run.skill_ids) == (ANSWER, None, ("tides-00001",))
    assert (run.tokens.input, run.tokens.output) == TOKENS[library]
    assert run.started is not None
    assert run.ended is not None
    assert run.ended > run.started
    assert (run.model, run.rest["services"]) == ("scripted", ["harbour"])


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_task_that_failed(export: Export, library: str) -> None:
    run = runs_by_task(export(library))[BROKEN]
    assert (run.answer, run.success) == ("", False)
    kind, name, content, is_error = steps_of(run)[-1]
    place = {"anthropic": "anthropic.chat", "openinference-langchain": "tools/tide_table"}.get(library, "chat scripted")
    assert (kind, name, is_error) == ("result", place.rpartition("/")[2], True)
    assert "no such port" in content
    assert run.rest["failed_at"] == place
    assert run.reason.startswith(f"The run failed in {place}: ")


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_export_in_every_order_and_form(export: Export, library: str, tmp_path: Path) -> None:
    lines = export(library).read_text(encoding="utf-8").splitlines()
    batches = [json.loads(line) for line in lines]
    document = {name: [span for batch in batches for span in batch.get(name, [])] for name in batches[0] | batches[-1]}
    forms = {
        "interleaved.jsonl": "\n".join([*lines[1::2], *lines[::2]]),
        "reversed.jsonl": "\n".join(reversed(lines)),
        "document.json": json.dumps(document),
        "indented.json": json.dumps(document, indent=1),
        "list.json": json.dumps(batches),
    }
    expected = {task: (steps_of(run), run.reason) for task, run in runs_by_task(export(library)).items()}
    for name, text in forms.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        found = runs_by_task(tmp_path / name)
        assert {task: (steps_of(run), run.reason) for task, run in found.items()} == expected, name

"""Spans that real instrumentation libraries have recorded become traces."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ace import read_trace
from ace.cli.inputs import gather_traces, readable_records
from ace.otlp import records_in, spans_to_trace
from ace.traces import StandardTraceDict
from tests.support.command_line import ace
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

ROOT = Path(__file__).resolve().parents[3]
LIBRARIES = ("genai-openai", "genai-openai-events", "anthropic", "openinference-langchain")
QUESTION = "When is high water in Bremen?"
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


def steps_of(trace: StandardTraceDict) -> list[tuple[str, str, str, bool]]:
    return [(step["kind"], step["name"], step["content"], step["is_error"]) for step in trace["steps"]]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_task_with_a_tool(export: Export, library: str) -> None:
    trace = spans_to_trace(records_in(export(library))[0])
    looked = [("message", "assistant", "I look.", False)] if library == "anthropic" else []
    assert steps_of(trace) == [
        ("message", "user", QUESTION, False),
        *looked,
        ("call", "tide_table", '{"port": "Bremen"}', False),
        ("result", "tide_table", "there is no table of Bremen", False),
        ("message", "assistant", ANSWER, False),
    ]
    assert (trace["question"], trace["answer"], trace["success"]) == (QUESTION, ANSWER, None)
    assert trace["skill_ids"] == ["tides-00001"]
    counts = trace["metrics"]
    assert (counts["input_tokens"], counts["output_tokens"]) == TOKENS[library]
    assert (counts["model_calls"], counts["tool_calls"]) == (2, 1)
    assert counts["duration_seconds"] > 0
    assert trace["metadata"]["services"] == ["harbour"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_task_that_failed(export: Export, library: str) -> None:
    trace = spans_to_trace(records_in(export(library))[1])
    assert (trace["question"], trace["answer"], trace["success"]) == ("When is high water in Nowhere?", "", False)
    kind, name, content, is_error = steps_of(trace)[-1]
    place = {"anthropic": "anthropic.chat", "openinference-langchain": "tools/tide_table"}.get(library, "chat scripted")
    assert (kind, name, is_error) == ("result", place.rpartition("/")[2], True)
    assert "no such port" in content
    assert trace["metadata"]["failed_at"] == place
    assert trace["feedback"].startswith(f"The run failed in {place}: ")


@pytest.mark.parametrize("library", LIBRARIES)
def test_ace_learn_reads_the_export_in_every_order_and_form(export: Export, library: str, tmp_path: Path) -> None:
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
    expected = sorted(spans_to_trace(record)["reasoning"] for record in records_in(export(library)))
    for name, text in forms.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        found = gather_traces([str(tmp_path / name)])
        assert found.problems == []
        with readable_records():
            assert sorted(read_trace(trace.record)["reasoning"] for trace in found.traces) == expected, name


def test_the_command_learns_from_an_export(export: Export, tmp_path: Path) -> None:
    (tmp_path / "spans.jsonl").write_bytes(export("openinference-langchain").read_bytes())
    with ScriptedServer(learning_script()) as server:
        environ = {"OPENAI_API_KEY": "sk-scripted-0123456789", "OPENAI_BASE_URL": server.api_base}
        done = ace("learn", "spans.jsonl", "--model", "openai/scripted", "--json", folder=tmp_path, environ=environ)
        assert done.code == 0, done
        prompts = [request.text for request in server.by_role("reflector")]
    first, second = sorted(prompts, key=lambda text: "Nowhere" in text)
    assert "there is no table of Bremen" in first
    assert "The run failed in tools/tide_table: LookupError: no such port." in second

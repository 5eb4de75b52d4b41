"""`ace learn --otel` against a collector that decodes what arrives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.otel.collector import Collector, ReceivedSpan, tree
from tests.support.command_line import Done, ace
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as started:
        yield started


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(learning_script()) as started:
        yield started


def write_logs(folder: Path, count: int = 4) -> None:
    lines = [{"task": f"t{number}", "answer": f"LESSON w{number % 3}"} for number in range(count)]
    (folder / "logs.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def learn(folder: Path, server: ScriptedServer, *options: str, environ: dict[str, str] | None = None) -> Done:
    model = ["--model", "openai/scripted", "--api-base", server.api_base]
    return ace("learn", "logs.jsonl", "--json", *model, *options, folder=folder, environ=environ or {})


def check_tree(spans: list[ReceivedSpan]) -> None:
    """No span is there twice, each parent is there, and children lie inside their parents."""
    ids = {span.id: span for span in spans}
    assert len(ids) == len(spans)
    for span in spans:
        assert span.start <= span.end
        if span.parent:
            parent = ids[span.parent]
            assert parent.trace_id == span.trace_id
            assert parent.start <= span.start and span.end <= parent.end, (parent, span)


def test_a_run_is_a_tree_of_spans(tmp_path: Path, server: ScriptedServer, collector: Collector) -> None:
    write_logs(tmp_path, 2)
    done = learn(tmp_path, server, "--no-prove", "--no-merge", "--otel", environ=collector.environ)
    assert done.code == 0, done.err
    spans = collector.spans
    check_tree(spans)
    [run] = [span for span in spans if span.name == "ace.run"]
    assert run.parent == "" and run.attributes["ace.run.learned"] == 2
    of_run = [span for span in spans if span.trace_id == run.trace_id]
    sample = [
        "    ace.sample",
        "        ace.step ReflectStep",
        "            chat scripted",
        "        ace.step TagStep",
        "        ace.step UpdateStep",
        "            chat scripted",
        "        ace.step ApplyStep",
    ]
    drawn = tree(of_run)
    assert drawn == ["ace.run", *sample, *sample]
    guide = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "see-runs-in-your-tools.md"
    if guide.exists():  # not next to an installed wheel
        picture = "\n".join(drawn)
        assert f"```text\n{picture}\n```" in guide.read_text(encoding="utf-8")
    # Before a run into a new skillbook, the model is asked for a word, which belongs to no run.
    assert [span.name for span in spans if span.trace_id != run.trace_id] == ["chat scripted"]


def test_nothing_is_sent_unless_it_is_enabled(tmp_path: Path, server: ScriptedServer, collector: Collector) -> None:
    write_logs(tmp_path)
    assert learn(tmp_path, server, environ=collector.environ).code == 0
    assert learn(tmp_path, server, "--again", environ=collector.environ | {"ACE_OTEL": "0"}).code == 0
    disabled = {**collector.environ, "OTEL_SDK_DISABLED": "true"}
    assert learn(tmp_path, server, "--again", "--otel", environ=disabled).code == 0
    assert collector.posts == []


def test_metrics_add_up_to_the_report(tmp_path: Path, server: ScriptedServer, collector: Collector) -> None:
    write_logs(tmp_path)
    done = learn(tmp_path, server, environ={**collector.environ, "ACE_OTEL": "1"})
    assert done.code == 0, done.err
    use, skills = done.data["model_use"], done.data["skills"]
    assert use["input_tokens"] > 0
    total = collector.total
    assert total("gen_ai.client.token.usage", gen_ai_token_type="input") == use["input_tokens"]
    assert total("gen_ai.client.token.usage", gen_ai_token_type="output") == use["output_tokens"]
    assert total("ace.samples", ace_outcome="learned") == done.data["traces"]["learned"] == 4
    assert total("ace.skill.changes", ace_skill_operation="ADD", ace_skill_applied=True) == skills["added"] == 3
    chats = [span for span in collector.spans if span.name.startswith("chat ")]
    assert len(chats) == use["calls"]
    assert sum(chat.attributes["gen_ai.usage.input_tokens"] for chat in chats) == use["input_tokens"]


def test_texts_are_sent_only_on_request_and_redacted(
    tmp_path: Path, server: ScriptedServer, collector: Collector
) -> None:
    key = "sk-proj-a1B2c3D4e5F6g7H8"
    (tmp_path / "logs.jsonl").write_text(json.dumps({"task": f"Use {key}", "answer": "LESSON w1"}), encoding="utf-8")
    assert learn(tmp_path, server, "--otel", environ=collector.environ).code == 0
    assert "LESSON" not in str(collector.spans)
    collector.spans.clear()
    done = learn(tmp_path, server, "--again", "--otel", "--otel-content", environ=collector.environ)
    assert done.code == 0, done.err
    chats = [span for span in collector.spans if span.attributes.get("ace.role") == "Reflector"]
    asked = json.loads(chats[0].attributes["gen_ai.input.messages"])
    [answered] = json.loads(chats[0].attributes["gen_ai.output.messages"])
    assert "LESSON w1" in str(asked) and {message["role"] for message in asked} <= {"system", "user"}
    assert answered["role"] == "assistant" and "LESSON w1" in answered["parts"][0]["content"]
    assert chats[0].attributes["gen_ai.response.finish_reasons"] == ["stop"]
    assert key not in str(collector.spans)

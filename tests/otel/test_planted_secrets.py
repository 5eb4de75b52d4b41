"""What redaction finds in traces is neither sent nor stored, whatever it stands in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.secrets_in_text.first import planted_texts
from benchmarks.secrets_in_text.texts import Planted
from tests.otel.collector import Collector
from tests.support.command_line import ace
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

TEXTS = planted_texts()


def session(number: int, text: str) -> dict[str, Any]:
    """A recorded session that holds a text in its question, a tool call, its result, the answer and the feedback."""
    call = {"name": "Bash", "arguments": json.dumps({"command": text})}
    return {
        "id": f"run-{number}",
        "messages": [
            {"role": "user", "content": f"Task {number}. {text}"},
            {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": call}]},
            {"role": "tool", "tool_call_id": "call_1", "content": f"error: {text}"},
            {"role": "assistant", "content": f"LESSON w{number}. I did it with {text}"},
            {"role": "user", "content": f"No, that is wrong. {text}"},
            {"role": "assistant", "content": f"Now with {text}"},
        ],
        "metadata": {"place": text},
        "feedback": f"Wrong: {text}",
    }


def written(value: str) -> list[bytes]:
    """A value as it may be in a file: as text, in JSON, and in JSON in JSON."""
    once = json.dumps(value)[1:-1]
    return list({text.encode() for text in (value, once, json.dumps(once)[1:-1])})


def leaked(texts: list[Planted], place: bytes) -> list[str]:
    return [text.kind for text in texts if any(form in place for form in written(text.text[text.start : text.end]))]


@pytest.mark.parametrize("part", range(4))
def test_planted_secrets_stay_in_the_traces(tmp_path: Path, part: int) -> None:
    texts = TEXTS[part::4]
    traces = tmp_path / "traces"
    traces.mkdir()
    for number, text in enumerate(texts):
        (traces / f"run-{number}.json").write_text(json.dumps(session(number, text.text)), encoding="utf-8")
    with ScriptedServer(learning_script()) as server, Collector() as collector:
        options = ["--model", "openai/scripted", "--api-base", server.api_base, "--workers", "4", "--json"]
        files = ["--results", "results.json", "--log", "log.jsonl"]
        done = ace(
            "learn", "traces", *options, *files, "--otel", "--otel-content", folder=tmp_path, environ=collector.environ
        )
        exported = ace("skillbook", "export", "book.json", folder=tmp_path)
        sent = "\n".join(json.dumps(request.body) for request in server.requests).encode()
        spans = json.dumps([[span.name, span.attributes] for span in collector.spans], default=str).encode()
    assert (done.code, exported.code) == (0, 0), done.err + exported.err
    assert done.data["traces"]["learned"] == len(texts)
    assert b"LESSON w1" in sent and b"LESSON w1" in spans  # the texts are there, without what was planted
    places = {"sent": sent, "spans": spans, "printed": (done.out + done.err).encode()}
    places |= {
        str(path.relative_to(tmp_path)): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file() and traces not in path.parents
    }
    assert {"results.json", "log.jsonl", "skills.db", "book.json"} <= places.keys()
    assert {name: found for name, place in places.items() if (found := leaked(texts, place))} == {}

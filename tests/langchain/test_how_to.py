"""The guide, line by line: its blocks with a model behind HTTP, and its commands with the records of real runs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.load import dumps
from langchain_core.messages import AIMessage, convert_to_messages, message_to_dict, messages_to_dict

from ace_langchain import skillbook_middleware
from examples.learn_with_langchain import script as script_of_the_page
from tests.docs.markdown_examples import Example, examples_in, run_example
from tests.langchain import harbour
from tests.langchain.test_learning import chat_model
from tests.langchain.test_stored_files import FIRST, Json, learned, runs, watched
from tests.support.command_line import ace
from tests.support.scripted_server import Answer, ScriptedRequest, ScriptedServer

__all__ = ["runs", "watched"]  # fixtures

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "learn-with-langchain.md"
OWN_MODEL = "model = ScriptedChatModel(script=script)\n"
RECORD = re.compile(r"^\| (?P<record>[^|]+?) +\| (?P<trace>[^|]+?) +\|$", re.MULTILINE)


def behind_http(request: ScriptedRequest) -> Any:
    """Answer as the model of the page does."""
    answer = script_of_the_page(request.role, request.text, convert_to_messages(request.messages))
    if isinstance(answer, AIMessage):
        [call] = answer.tool_calls
        return Answer(call["args"], tool=call["name"])
    return answer


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module in which the blocks of the page run."""
    module = ModuleType("page_on_langchain")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    return module


def test_the_blocks_of_the_page_run_with_a_model_behind_http(page: ModuleType) -> None:
    blocks = examples_in(PAGE.read_text(encoding="utf-8"))
    assert sum(OWN_MODEL in block.source for block in blocks) == 1
    with ScriptedServer(behind_http) as server:
        page.__dict__["its_model"] = chat_model(server, stream_usage=True)
        for block in blocks:
            source = block.source.replace(OWN_MODEL, "model = its_model\n")
            run_example(Example(source, block.line, block.expected), page, PAGE)
        agents = [request for request in server.requests if not request.role]
    for request in agents:
        roles = [message["role"] for message in request.messages]
        assert roles.count("system") <= 1
        assert "system" not in roles[1:]
        assert request.text.count("# Skills learned") <= 1
    assert {request.role for request in server.requests} == {"", "reflector", "skill_manager"}


def test_the_command_reads_every_record_of_the_table(tmp_path: Path, runs: list[Json], watched: Any) -> None:
    events, snapshot, history = watched
    table = PAGE.read_text(encoding="utf-8").partition("| record | one trace is |\n|---|---|\n")[2]
    told = [(row["record"], row["trace"]) for row in RECORD.finditer(table.partition("\n\n")[0] + "\n")]
    files: dict[str, list[tuple[str, int]]] = {
        "messages, as written by": [
            (json.dumps([message_to_dict(message) for message in FIRST]), 1),
            (json.dumps([message.model_dump() for message in FIRST]), 1),
            ("\n".join(map(dumps, FIRST)), 1),
            (json.dumps([messages_to_dict(FIRST)] * 2), 2),
        ],
        "the state of": [
            ("\n".join([json.dumps({"messages": messages_to_dict(FIRST)})] * 2), 2),
            (json.dumps({"input": "2+2?", "output": "4", "intermediate_steps": []}), 1),
        ],
        "a `StateSnapshot`": [("\n".join(dumps(state._asdict()) for state in history), 1), (dumps(snapshot), 1)],
        "LangSmith runs": [("\n".join(map(json.dumps, runs[::-1])), 2), (json.dumps(runs), 2)],
        "events of": [("\n".join(map(dumps, events)), 1), (dumps(events), 1)],
    }
    assert [record.startswith(start) for (record, _), start in zip(told, files, strict=True)] == [True] * len(files)
    for number, (record, written) in enumerate(files.items()):
        for form, (content, traces) in enumerate(written):
            path = tmp_path / "stored" / f"{number}-{form}.{'jsonl' if content[0] == '{' else 'json'}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(content, encoding="utf-8")
            assert len(learned(path)) == traces, (record, content)
    with ScriptedServer(harbour.script) as server:
        environ = {"OPENAI_API_KEY": "sk-scripted-0123456789", "OPENAI_BASE_URL": server.api_base}
        done = ace("learn", "stored", "--model", "openai/scripted", "--json", folder=tmp_path, environ=environ)
        assert done.code == 0, done
        assert len(server.by_role("reflector")) == sum(traces for written in files.values() for _, traces in written)


def test_the_command_learns_from_what_a_middleware_has_recorded(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with ScriptedServer(harbour.script) as server:
        agent: Any = create_agent(chat_model(server), harbour.TOOLS, middleware=[skillbook_middleware(record=path)])
        with pytest.raises(LookupError):
            agent.invoke({"messages": "When is high water in Bremen?"})
        environ = {"OPENAI_API_KEY": "sk-scripted-0123456789", "OPENAI_BASE_URL": server.api_base}
        done = ace("learn", "runs.jsonl", "--model", "openai/scripted", folder=tmp_path, environ=environ)
        assert done.code == 0, done.err
        shown = ace("skillbook", "show", folder=tmp_path, environ=environ)
    assert harbour.RULE in shown.out

"""`once=True`: no run learns what an earlier one has learned, and of a record that has grown only the new part."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.environments import Sample, SimpleEnvironment
from ace.runners import ACE, RecordedTrace, TraceAnalyser, give_up, unfinished_runs
from ace.skillbook import Skillbook
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import Reply, ScriptedRequest, ScriptedServer


def record(number: int, **fields: Any) -> dict[str, Any]:
    return {"question": f"What is the secret of thing{number}?", "ground_truth": f"value-of-thing{number}", **fields}


def already(results: list[Any]) -> list[bool]:
    return [bool(result.output and result.output.metadata["already_learned"]) for result in results]


class World:
    """A store, a model, and a new runner for each run, as if in a new process."""

    def __init__(self, server: ScriptedServer, folder: Path) -> None:
        self.server = server
        self.path = folder / "s.db"

    def learn(self, *traces: Any, **options: Any) -> list[bool]:
        with Skillbook.open(self.path) as book:
            runner = TraceAnalyser.from_client(client_for(self.server, validation_retries=0), skillbook=book)
            return already(runner.run(list(traces), max_in_flight=1, **{"once": True, **options}))

    def reflected(self) -> list[str]:
        """Return the prompts of the reflector since the last call."""
        found = [request.text for request in self.server.by_role("reflector")]
        self.server.clear()
        return found


@pytest.fixture
def world(tmp_path: Path) -> Any:
    with ScriptedServer(secrets_world.answer) as server:
        yield World(server, tmp_path)


def test_what_was_learned_is_known_by_its_content_and_not_by_its_place(world: World) -> None:
    assert world.learn(RecordedTrace(record(1), "a.jsonl#1"), record(2)) == [False, False]
    world.server.clear()
    assert world.learn(RecordedTrace(record(1), "moved/b.jsonl#9"), record(2)) == [True, True]
    assert world.server.requests == []
    assert world.learn(record(1), once=False) == [False]


def test_feedback_belongs_to_the_content(world: World) -> None:
    assert world.learn(record(1)) == [False]
    assert world.learn(record(1, feedback="wrong")) == [False]
    assert world.learn(record(1, feedback="wrong"), record(1), record(1, trace_id="another name")) == [True] * 3


def test_the_epochs_of_one_run_and_its_repeated_inputs_are_unaffected(world: World) -> None:
    assert world.learn(record(1), record(1), epochs=2) == [False] * 4
    assert world.learn(record(1), record(2), epochs=2) == [True, False, True, False]


def test_a_failed_trace_is_not_learned_and_one_that_was_given_up_is(world: World) -> None:
    broken = [True]

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if broken[0] and "thing1?" in request.text:
            return "no JSON"
        return secrets_world.answer(request)

    world.server.script = script
    assert world.learn(record(1), record(2), run_id="first") == [False, False]
    assert world.learn(record(1), record(2), run_id="second") == [False, True]
    with Skillbook.open(world.path) as book:
        assert [(run.run_id, run.failed) for run in unfinished_runs(book)] == [("first", 1), ("second", 1)]
        assert give_up(book, "second") == 1
        assert [run.run_id for run in unfinished_runs(book)] == ["first"]
        assert give_up(book, "second") == 0
    broken[0] = False
    world.server.clear()
    assert world.learn(record(1), record(2)) == [True, True]
    assert world.learn(record(1), record(2), run_id="second", resume=True) == [True, True]
    assert world.server.requests == []
    assert world.learn(record(1), record(2), run_id="first", resume=True, once=False) == [False, True]


def test_a_run_whose_failures_another_run_has_learned_is_finished(world: World) -> None:
    world.server.script = lambda request: "no JSON"
    world.learn(record(1), run_id="first")
    world.server.script = secrets_world.answer
    assert world.learn(record(1), run_id="second") == [False]
    world.server.clear()
    assert world.learn(record(1), run_id="first", resume=True) == [True]
    assert world.server.requests == []
    with Skillbook.open(world.path) as book:
        assert unfinished_runs(book) == []


def messages(*texts: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(texts)]


@pytest.mark.parametrize("shape", ["list", "dict", "text of JSON"])
def test_of_a_conversation_that_has_grown_only_the_new_turns_are_learned(world: World, shape: str) -> None:
    def trace(*texts: str) -> Any:
        said = messages(*texts)
        shaped = {"list": said, "dict": {"id": "c1", "messages": said}, "text of JSON": json.dumps(said)}[shape]
        return RecordedTrace(shaped, "chat.json")

    short = ("Old question?", "Old answer.")
    assert world.learn(trace(*short)) == [False]
    assert world.learn(trace(*short)) == [True]
    world.reflected()
    longer = (*short, "New question?", "New answer.")
    assert world.learn(trace(*longer)) == [False]
    [prompt] = world.reflected()
    assert "New question?" in prompt and "New answer." in prompt
    assert "Old question?" not in prompt and "Old answer." not in prompt
    assert "The first 2 of 4 steps were learned from before" in prompt
    assert world.learn(trace(*longer)) == [True]
    longest = (*longer, "Last question?")
    assert world.learn(trace(*longest)) == [False]
    [prompt] = world.reflected()
    assert "Last question?" in prompt and "New question?" not in prompt
    # A conversation that goes another way is another conversation.
    assert world.learn(trace("Old question?", "Another answer.", "New question?")) == [False]
    [prompt] = world.reflected()
    assert "Old question?" in prompt


def test_conversations_that_begin_alike_are_told_apart_by_their_names(world: World) -> None:
    said = messages("Hello?", "How can I help?")
    assert world.learn({"session_id": "first", "messages": said}) == [False]
    world.reflected()
    longer = [*said, *messages("Where is my parcel?")]
    assert world.learn({"session_id": "second", "messages": longer}) == [False]
    [prompt] = world.reflected()
    assert "Hello?" in prompt and "were learned from before" not in prompt


def test_new_feedback_on_the_same_messages_is_learned_with_all_of_them(world: World) -> None:
    said = messages("Question?", "Answer.")
    assert world.learn({"messages": said}) == [False]
    world.reflected()
    assert world.learn({"messages": said, "feedback": "That was wrong."}) == [False]
    [prompt] = world.reflected()
    assert "Question?" in prompt and "That was wrong." in prompt


def test_of_a_text_that_has_grown_only_the_new_lines_are_learned(world: World) -> None:
    log = "10:00 started\n10:01 failed\n"
    assert world.learn(RecordedTrace(log, "app.log")) == [False]
    world.reflected()
    assert world.learn(RecordedTrace(f"{log}10:02 fixed by hand\n", "app.log")) == [False]
    [prompt] = world.reflected()
    assert "10:02 fixed by hand" in prompt and "10:01 failed" not in prompt
    assert world.learn("Do job 1") == world.learn("Do job 12") == [False], "a line is new as a whole"
    assert "Do job 12" in world.reflected()[1]


def test_samples_are_known_by_question_and_answer(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:

        def run(*samples: Sample) -> list[bool]:
            runner = ACE.from_client(
                client_for(server), environment=SimpleEnvironment(), skillbook_path=tmp_path / "s.db"
            )
            return already(runner.run(list(samples), max_in_flight=1, once=True))

        question = "What is the secret of thing1?"
        assert run(Sample(question, ground_truth="value-of-thing1", id="a")) == [False]
        asked = len(server.requests)
        assert run(Sample(question, ground_truth="value-of-thing1", id="b")) == [True]
        assert len(server.requests) == asked
        assert run(Sample(f"{question} Tell me.", ground_truth="value-of-thing1")) == [False]


def test_a_json_book_does_not_remember(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        runner = TraceAnalyser.from_client(client_for(server), skillbook_path=tmp_path / "s.json")
        with pytest.raises(ValueError, match=r"once=True requires a skillbook in a store.*\.db"):
            runner.run([record(1)], once=True)
        assert server.requests == []


def test_a_resumed_run_that_grows_learns_only_what_is_new(world: World) -> None:
    """One run over a folder that grows, as a nightly job has it."""
    said = messages("Old question?", "Old answer.")
    chat = RecordedTrace(said, "chat.json")
    assert world.learn(chat, run_id="daily") == [False]
    world.reflected()
    grown = RecordedTrace([*said, *messages("New question?", "New answer.")], "chat.json")
    assert world.learn(grown, run_id="daily", resume=True) == [False]
    [prompt] = world.reflected()
    assert "New answer." in prompt and not re.search("Old (question|answer)", prompt)


def test_auto_continues_the_unfinished_run_over_the_same_inputs_or_starts_one(world: World) -> None:
    """The idiom of a job that is started every night, and may have been stopped the night before."""
    first, second = [record(1), record(2)], [record(3), record(4)]
    broken = [True]

    def script(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        if broken[0] and re.search("thing(2|4)[?]", request.text):
            return "no JSON"
        return secrets_world.answer(request)

    def auto(*traces: Any, **options: Any) -> list[bool]:
        return world.learn(*traces, **{"resume": "auto", "once": False, **options})

    world.server.script = script
    assert auto(*first) == [False, False]
    assert auto(*second) == [False, False], "a run over other inputs is another run"
    assert auto(*first) == [True, False]
    with Skillbook.open(world.path) as book:
        assert [(run.learned, run.failed) for run in unfinished_runs(book)] == [(1, 1), (1, 1)]
    broken[0] = False
    assert auto(*first) == [True, False]
    assert auto(*second) == [True, False]
    with Skillbook.open(world.path) as book:
        assert unfinished_runs(book) == []
    assert auto(*first) == [False, False], "a finished run is not continued"
    assert auto(*first, run_id="daily") == [False, False]
    assert auto(*first, run_id="daily") == [True, True]
    with pytest.raises(ValueError, match="resume must be True, False or"):
        auto(*first, resume="always")

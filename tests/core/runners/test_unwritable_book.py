"""A skillbook that cannot be written stops the run at once: nothing more is paid for that could not be kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ace.environments import SimpleEnvironment
from ace.protocols.observers import Event, RunEnded, observing
from ace.runners import ACE, SkillbookNotWrittenError, TraceAnalyser
from ace.skillbook import Skillbook, SkillbookStoreError
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedRequest, ScriptedServer
from tests.support.small_disk import on_small_disk


def traces(count: int) -> list[dict[str, str]]:
    return [
        {"question": f"What is the secret of thing{n}?", "ground_truth": f"value-of-thing{n}"} for n in range(count)
    ]


class LosesTheStore:
    """A model in front of which somebody moves the store away while it manages skills for the third time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.away = path.with_name("moved.db")
        self.asked = 0

    def __call__(self, request: ScriptedRequest) -> dict[str, Any]:
        if request.role == "skill_manager":
            self.asked += 1
            if self.asked == 3:
                for suffix in ("", "-wal", "-shm"):
                    Path(f"{self.path}{suffix}").rename(f"{self.away}{suffix}")
        return secrets_world.answer(request)

    def bring_back(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            moved = Path(f"{self.away}{suffix}")
            if moved.exists():
                moved.rename(f"{self.path}{suffix}")


def test_a_store_that_takes_nothing_stops_the_run_which_can_be_resumed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    model = LosesTheStore(path)
    seen: list[Event] = []
    with ScriptedServer(model) as server, observing(seen.append):
        runner = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=path)
        with pytest.raises(SkillbookNotWrittenError, match=r"s\.db was deleted") as raised:
            runner.run(traces(20), max_in_flight=2, run_id="r")
        error = raised.value
        assert (error.run_id, error.learned, error.is_resumable) == ("r", 2, True)
        assert isinstance(error.__cause__, SkillbookStoreError)
        assert str(error).endswith(
            "What 2 samples taught is kept; when the problem is fixed, resume with run(..., run_id='r', resume=True)"
        )
        [end] = [event for event in seen if isinstance(event, RunEnded)]
        assert (end.learned, end.stopped_by) == (2, "skillbook_not_written")
        assert len(server.requests) <= 2 * 5, "the rest was paid for, and could not be kept"

        runner.skillbook.close()
        model.bring_back()
        again = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=path)
        assert [result.error for result in again.run(traces(20), run_id="r", resume=True)] == [None] * 20
    assert [skill.content for skill in again.skillbook] == [
        f"The secret of thing{n} is value-of-thing{n}." for n in range(20)
    ]


def test_a_run_in_the_background_tells_it_when_it_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with ScriptedServer(LosesTheStore(path)) as server:
        runner = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=path)
        runner.run(traces(3), wait=False)
        with pytest.raises(SkillbookNotWrittenError, match=r"s\.db was deleted"):
            runner.wait_for_background()


def test_a_json_file_that_cannot_be_saved_stops_the_run_and_the_book_stays_in_memory(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    with ScriptedServer(secrets_world.answer) as server:
        runner = ACE.from_client(
            client_for(server),
            prove=False,
            environment=SimpleEnvironment(),
            skillbook_path=folder / "skills.json",
        )
        folder.write_text("a file where the folder should be", encoding="utf-8")
        with pytest.raises(
            SkillbookNotWrittenError, match=r"skills\.json cannot be saved: .*Not a directory"
        ) as raised:
            runner.run(secrets_world.samples(20), max_in_flight=1)
        assert len(server.by_role("agent")) == 1
    assert not raised.value.is_resumable
    assert str(raised.value).endswith("What was learned is in memory; save it to another path with save(path)")
    runner.save(tmp_path / "elsewhere.json")
    assert len(Skillbook.load_from_file(tmp_path / "elsewhere.json")) == 1


def test_a_file_that_became_something_else_is_left_alone_and_stops_the_run(tmp_path: Path) -> None:
    path = tmp_path / "skills.json"

    def script(request: ScriptedRequest) -> dict[str, Any]:
        path.write_text("my notes", encoding="utf-8")
        return secrets_world.answer(request)

    with ScriptedServer(script) as server:
        runner = TraceAnalyser.from_client(client_for(server), prove=False, skillbook_path=path)
        with pytest.raises(SkillbookNotWrittenError, match="not valid JSON"):
            runner.run(traces(9), max_in_flight=1)
        assert len(server.requests) == 2
    assert path.read_text(encoding="utf-8") == "my notes"


FILLED = """
from ace.runners import SkillbookNotWrittenError, TraceAnalyser
from tests.support.clients import KEY
from ace.providers import LiteLLMClient

api_base = {api_base!r}
traces = [
    {{"question": f"What is the secret of thing{{n}}?", "ground_truth": f"value-of-thing{{n}}"}} for n in range(30)
]

def learn(**options):
    client = LiteLLMClient("openai/scripted", api_base=api_base, api_key=KEY)
    runner = TraceAnalyser.from_client(client, prove=False, skillbook_path=folder / "skills.db")
    done = []

    def fill_after_five(result):
        done.append(result)
        if len(done) == 5 and not options.get("resume"):
            fill()

    runner.run(traces, max_in_flight=1, run_id="r", on_sample_done=fill_after_five, **options)
    return [skill.content for skill in runner.skillbook]

try:
    learn()
    told = ("nothing",)
except SkillbookNotWrittenError as error:
    told = (error.learned, error.is_resumable, str(error))
kept = [skill.content for skill in Skillbook.open(folder / "skills.db")]
(folder / "filler").unlink()
print(json.dumps({{"told": told, "kept": kept, "learned": learn(resume=True)}}))
"""


def test_a_disk_that_fills_up_stops_the_run_which_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        result = on_small_disk(tmp_path / "disk", FILLED.format(api_base=server.api_base))
        requests = [json.dumps(request.body, sort_keys=True) for request in server.requests]
    learned, is_resumable, text = result["told"]
    assert 4 <= learned < 30 and is_resumable
    assert "could not write the change" in text and "full" in text
    secrets = [f"The secret of thing{n} is value-of-thing{n}." for n in range(30)]
    assert result["kept"] == secrets[:learned]
    assert result["learned"] == secrets
    assert len(requests) <= 60 + 2, "what was answered and kept was paid for twice"

"""`--group N`: several traces are explored together, and each skill names the traces that taught it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ace.skillbook import Skillbook
from tests.core.rr.test_batch import CAUSES, SUBMIT, SURVEY, traces
from tests.support.command_line import Done, Run
from tests.support.reflection_script import REFLECTION, Explorer, is_turn, python
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

pytest.importorskip("pydantic_monty")

GROUP = ["--reflector", "recursive", "--group", "40"]


def script(request: ScriptedRequest) -> Any:
    """A model that surveys all traces by code, and makes one skill of each learning."""
    if is_turn(request):
        return Explorer([SURVEY, SUBMIT])(request)
    if request.role == "skill_manager":
        learnings = re.findall(r'"learning": "(Avoid [^"]+)"', request.text)
        skills = [{"type": "ADD", "section": "causes", "content": learning} for learning in dict.fromkeys(learnings)]
        return {"reasoning": "One skill for each cause.", "operations": skills}
    return "ready"


def learn(here: Run, server: ScriptedServer, *more: str) -> Done:
    options = ["--model", "openai/scripted", "--api-base", server.api_base, "--no-prove", "--max-tokens", "500"]
    return here("learn", "runs", *options, *GROUP, *more)


def lay_out(folder: Path) -> dict[str, object]:
    (folder / "runs").mkdir()
    found = traces()
    for name, trace in found.items():
        (folder / "runs" / f"{name}.json").write_text(json.dumps(trace), encoding="utf-8")
    return found


def sources(folder: Path) -> dict[str, list[str]]:
    """Return the places of the traces that taught each skill."""
    with Skillbook.open(folder / "skills.db") as book:
        return {
            skill.content: [source.trace_id.partition("@")[2] for source in skill.sources] for skill in book.skills()
        }


def test_each_skill_names_the_traces_that_show_it(tmp_path: Path, here: Run) -> None:
    lay_out(tmp_path)
    with ScriptedServer(script) as server:
        done = learn(here, server)
        assert sum(is_turn(request) for request in server.requests) == 2
        again = learn(here, server)
        assert sum(is_turn(request) for request in server.requests) == 2
    assert done.code == 0, done.err
    assert "learning from 1 group" in done.err and "3 new skills" in done.err
    assert again.code == 0 and "nothing to do: the group had been learned before" in again.err
    found = sources(tmp_path)
    assert sorted(found) == sorted(f"Avoid {cause}" for cause in CAUSES)
    for place, cause in enumerate(CAUSES):
        expected = [f"runs/run-{number:02d}.json" for number in range(40) if number % 3 == place]
        assert found[f"Avoid {cause}"] == expected
    (skill,) = [skill for skill in found if skill.endswith("node-7")]
    with Skillbook.open(tmp_path / "skills.db") as book:
        (node,) = [candidate for candidate in book.skills() if candidate.content == skill]
        assert [source.id for source in book.source_filter(trace_id=node.sources[5].trace_id)] == [node.id]
    shown = here("skillbook", "show", node.id)
    blame = here("skillbook", "blame", node.id)
    for done in (shown, blame):
        assert done.code == 0 and "runs/run-39.json" in done.out and "runs/run-38.json" not in done.out


def test_a_log_that_is_deleted_while_it_is_learned_from_is_learned_nevertheless(tmp_path: Path, here: Run) -> None:
    lay_out(tmp_path)
    deleted = tmp_path / "runs" / "run-03.json"

    def delete(request: ScriptedRequest) -> Any:
        deleted.unlink(missing_ok=True)  # after the inputs were listed, and before they are reflected on
        return script(request)

    with ScriptedServer(delete) as server:
        assert learn(here, server).code == 0
    assert "runs/run-03.json" in sources(tmp_path)["Avoid node-7"]


def test_a_trace_on_which_reflections_fail_is_reported_and_explored_again(tmp_path: Path, here: Run) -> None:
    (tmp_path / "runs").mkdir()
    for number in range(4):
        trace = {"question": "poison" if number == 2 else f"Job {number}", "answer": "done"}
        (tmp_path / "runs" / f"{number}.json").write_text(json.dumps(trace), encoding="utf-8")
    finish = python(
        "assert 'poison' not in [item['question'] for item in batch_items.values()]\n"
        f"FINAL({{**{dict(REFLECTION)!r}, 'extracted_learnings': [{{'learning': 'Wait.', 'evidence': item_ids[0]}}]}})"
    )
    explorer = Explorer([python("print(item_ids)"), finish])

    def batch(request: ScriptedRequest) -> Any:
        if is_turn(request) and "The iterations are used up" in request.text:
            return "I found nothing."
        return explorer(request) if is_turn(request) or request.role else "ready"

    with ScriptedServer(batch) as server:
        done = learn(here, server, "--max-iterations", "2", "--json")
        turns = sum(is_turn(request) for request in server.requests)
        again = learn(here, server, "--max-iterations", "2", "--json")
        assert sum(is_turn(request) for request in server.requests) == 2 * turns
    for run in (done, again):
        assert run.code == 1, run.err
        (failure,) = json.loads(run.out)["failures"]
        assert failure["place"] == "runs/2.json" and "no reflection after 2 turns" in failure["reason"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--group", "5"], "--group requires --reflector recursive"),
        (["--reflector", "recursive", "--group", "0"], "--group must be a whole number of at least 1, got 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(flags: list[str], message: str, tmp_path: Path, here: Run) -> None:
    lay_out(tmp_path)
    done = here("learn", "runs", "--model", "openai/scripted", "--api-base", "http://127.0.0.1:9/v1", *flags)
    assert done.code == 2
    assert message in done.err

"""Lessons are tried with real coding agents, which follow a script: what counts is what they do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.sleep.conftest import Machine
from tests.sleep.test_night import LESSON
from tests.sleep.test_replay import is_running
from tests.support.agent_sessions import (
    CHECK,
    DIRECTLY,
    MISTAKE,
    RIGHT,
    Act,
    Answered,
    Rejected,
    Replace,
    Said,
    Shell,
    new_repo,
)
from tests.support.coding_agents import AGENTS, NODE, CodingAgent
from tests.support.command_line import ACE, command_environment
from tests.support.scripted_agents_model import Action, Turn
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

CLAUDE, CODEX = (agent for agent in AGENTS if agent.name in ("claude", "codex"))
TITLES = {"claude": "Claude Code", "codex": "Codex CLI"}
Behaviour = Callable[[Turn], Sequence[Action]]


def obedient(turn: Turn) -> list[str]:
    """What an agent does that makes the mistake unless it knows the lesson."""
    return [RIGHT] if LESSON in turn.prompt else [DIRECTLY, RIGHT]


@contextmanager
def tried_with(machine: Machine, agent: CodingAgent, behaviour: Behaviour) -> Iterator[list[Turn]]:
    """Let the agent of the machine run the commands and call the tools of a behaviour, and yield its turns."""
    turns: list[Turn] = []

    def script(turn: Turn) -> Action:
        turns.append(turn)
        acts = behaviour(turn)
        if turn.results == len(acts):
            return "All tests pass now."
        act = acts[turn.results]
        return agent.shell(act) if isinstance(act, str) else act

    with agent.model(script) as model:
        name, text = agent.settings
        if name:
            (machine.home / name).parent.mkdir(parents=True, exist_ok=True)
            (machine.home / name).write_text(text.replace("MODEL_URL", model.url), encoding="utf-8")
        variables = {name: value.replace("MODEL_URL", model.url) for name, value in agent.environment.items()}
        programs = machine.home.parent / "programs"
        programs.mkdir(exist_ok=True)
        link = programs / agent.name
        if not link.exists():
            link.symlink_to(agent.find())
        machine.environ = {**variables, "PATH": f"{programs}:{NODE}:{os.environ['PATH']}"}
        yield turns


@pytest.mark.parametrize("agent", [CLAUDE, CODEX], ids=lambda agent: agent.name)
def test_a_lesson_is_proven_by_the_agent_if_it_makes_the_mistake_only_without(
    machine: Machine, agent: CodingAgent
) -> None:
    machine.codex(*MISTAKE)
    kept = machine.repo.bytes()
    with tried_with(machine, agent, obedient) as turns:
        before = files_in(machine.home)
        found = machine.sleep("--prove-with", agent.name, "--yes")
        after = files_in(machine.home)
        again = machine.sleep("--prove-with", agent.name, "--yes")
    [lesson] = found["lessons"]
    title = TITLES[agent.name]
    assert lesson["evidence"][0].startswith(f"PROVEN by running (grade A) and by {title} (grade C), seen in 1 session")
    tried = f'{title} on "Make the tests green": success in 0 of 3 runs without the lesson, 3 of 3 with it'
    assert tried in lesson["evidence"]
    assert (found["agent_runs"], found["calls"]) == (6, 0)
    assert len(turns) == 3 * 3 + 3 * 2
    assert {path for path in after - before if ".local/state/ace/sleep" not in path} == set()
    assert (again["sessions"], again["agent_runs"]) == (0, 0)
    assert machine.repo.bytes() == kept


def test_what_the_agent_says_does_not_count(machine: Machine) -> None:
    machine.codex(*MISTAKE)
    with tried_with(machine, CLAUDE, lambda turn: ["true"] if LESSON in turn.prompt else [DIRECTLY]):
        [lesson] = machine.sleep("--prove-with", "claude", "--yes")["lessons"]
    assert lesson["evidence"][0].startswith("PROVEN by running (grade A), seen in")
    assert "success in 0 of 3 runs without the lesson, 0 of 3 with it" in lesson["evidence"][-1]


def test_a_lesson_that_the_agent_does_not_need_is_not_proven_by_it(machine: Machine) -> None:
    machine.codex(*MISTAKE)
    with tried_with(machine, CLAUDE, lambda turn: [RIGHT]):
        [lesson] = machine.sleep("--prove-with", "claude", "--yes")["lessons"]
    assert "by Claude Code" not in lesson["evidence"][0]
    assert "success in 3 of 3 runs without the lesson, 3 of 3 with it" in lesson["evidence"][-1]


def test_a_lesson_that_makes_the_agent_worse_is_not_proposed(machine: Machine) -> None:
    machine.codex(*MISTAKE)
    with tried_with(machine, CLAUDE, lambda turn: [DIRECTLY, RIGHT] if LESSON in turn.prompt else [RIGHT]):
        found = machine.sleep("--prove-with", "claude", "--yes")
    assert (found["lessons"], found["reasons"]) == ([], {"worse": 1})


def test_a_run_that_breaks_the_check_is_no_success(machine: Machine) -> None:
    machine.codex(*MISTAKE)
    with tried_with(machine, CLAUDE, lambda turn: [RIGHT, "echo 'check:; false' > Makefile"]):
        [lesson] = machine.sleep("--prove-with", "claude", "--yes")["lessons"]
    assert "success in 0 of 3 runs without the lesson, 0 of 3 with it" in lesson["evidence"][-1]


def test_of_a_lesson_about_an_edit_the_changed_files_and_the_check_count(machine: Machine) -> None:
    files = {"run_tests.py": CHECK.replace('"SRC_ROOT" not in os.environ', "open('shop.py').read() != 'price = 3\\n'")}
    machine.repo = new_repo(machine.home.parent / "other", {**files, "shop.py": "price = 4\n"})
    repair = "sed -i s/4/3/ shop.py"
    wrong = Shell(DIRECTLY, "RuntimeError: SRC_ROOT is not set", 1)
    machine.codex(wrong, Replace("shop.py", "price = 4", "price = 3"), Shell(DIRECTLY, "1 passed"))
    cheat = "sed -i s/sys.exit/print/ run_tests.py"
    with tried_with(machine, CLAUDE, lambda turn: [repair] if "change `shop.py`" in turn.prompt else [cheat]):
        [lesson] = machine.sleep("--prove-with", "claude", "--yes")["lessons"]
    assert lesson["evidence"][0].startswith("PROVEN by running (grade B) and by Claude Code (grade C)")


SAID = f"No, always finish with `{RIGHT}`."
WISH = f"Finish with `{RIGHT}`."


def asked_too(machine: Machine, agent: CodingAgent, behaviour: Behaviour, said: str = SAID) -> dict[str, Any]:
    """Run a night with a model that finds and words one correction, and with an agent."""

    def script(request: ScriptedRequest) -> Any:
        if "what people said to coding agents" in request.text:
            return {"lessons": [{"remarks": [1], "lesson": WISH, "always": "always"}]}
        number = next(line for line in request.text.split("[") if said in line).partition("]")[0]
        named = {"message": number, "quote": said, "wrong": "I looked at it.", "right": "", "withdraws": False}
        return {"judgements": [named]}

    with tried_with(machine, agent, behaviour), ScriptedServer(script) as server:
        model = {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": server.api_base, "OPENAI_API_KEY": "k"}
        machine.environ = {**machine.environ, **model}
        done = machine.ace("sleep", "--yes", "--json", "--prove-with", agent.name)
    assert done.code == 0, done.err
    return done.data


def corrected(machine: Machine, *acts: Act, said: str = SAID) -> None:
    machine.codex(Shell("python3 shop.py"), Answered("I looked at it."), Said(said), *acts)


@pytest.mark.parametrize("agent", [CLAUDE, CODEX], ids=lambda agent: agent.name)
def test_a_correction_is_proven_by_the_agent_if_it_does_what_was_asked_only_with_the_lesson(
    machine: Machine, agent: CodingAgent
) -> None:
    corrected(machine, Shell(RIGHT, "1 passed"))
    kept = machine.repo.bytes()
    found = asked_too(machine, agent, lambda turn: [RIGHT] if WISH in turn.prompt else ["python3 shop.py"])
    [lesson] = found["lessons"]
    title = TITLES[agent.name]
    assert lesson["evidence"] == [
        f"PROVEN by {title} (grade C): people said it in 1 session (Codex CLI 1)",
        f'  2026-11-20, Codex CLI: "{SAID}"',
        '  said once, with "always"',
        f"What counts: it runs `{RIGHT}`, which works",
        f'{title} on "Make the tests green": success in 0 of 3 runs without the lesson, 3 of 3 with it',
    ]
    assert (found["agent_runs"], found["proven"], found["unproven"]) == (6, 0, 1)
    assert machine.repo.bytes() == kept


@pytest.mark.parametrize(
    ("act", "result"),
    [("true", "0 of 3 runs without the lesson, 0 of 3 with it"), (RIGHT, "3 of 3 runs without the lesson, 3 of 3")],
    ids=["it only says so", "it does so anyway"],
)
def test_a_correction_that_changes_nothing_stays_not_proven(machine: Machine, act: str, result: str) -> None:
    corrected(machine, Shell(RIGHT, "1 passed"))
    [lesson] = asked_too(machine, CLAUDE, lambda turn: [act])["lessons"]
    assert lesson["evidence"][0].startswith("NOT PROVEN (grade E): people said it in 1 session")
    assert result in lesson["evidence"][-1]


def test_a_correction_that_makes_the_agent_worse_is_not_proposed(machine: Machine) -> None:
    corrected(machine, Shell(RIGHT, "1 passed"))
    found = asked_too(machine, CLAUDE, lambda turn: ["true"] if WISH in turn.prompt else [RIGHT])
    assert (found["lessons"], found["reasons"]) == ([], {"worse": 1})


def test_of_a_correction_about_a_file_the_changed_files_count(machine: Machine) -> None:
    said = "No, always change `shop.py` instead."
    corrected(machine, Replace("shop.py", "price = 3", "price = 4"), said=said)
    repair = "sed -i s/3/4/ shop.py"
    found = asked_too(machine, CLAUDE, lambda turn: [repair if WISH in turn.prompt else "touch other.py"], said)
    [lesson] = found["lessons"]
    assert lesson["evidence"][0].startswith("PROVEN by Claude Code (grade C)")
    assert "What counts: it changes `shop.py`" in lesson["evidence"]


@pytest.mark.parametrize("command", ["python3 run_tests.py", "git push origin main"])
def test_a_run_that_makes_the_call_that_a_person_rejected_is_no_success(machine: Machine, command: str) -> None:
    machine.codex(Rejected(Shell(command), SAID), Shell(RIGHT, "1 passed"))
    found = asked_too(machine, CLAUDE, lambda turn: [command, RIGHT])
    [lesson] = found["lessons"]
    assert f"What counts: it runs `{RIGHT}`, which works; it does not run `{command}`" in lesson["evidence"]
    assert "0 of 3 runs without the lesson, 0 of 3 with it" in lesson["evidence"][-1]


@pytest.mark.parametrize(
    ("acts", "said", "reason"),
    [
        ((), SAID, "nothing that was named in it was run or changed afterwards"),
        ((Shell(RIGHT, "1 passed"),), "No, always use tabs.", "nothing that was named in it was run or changed"),
        ((Shell("git push", "ok"),), "No, always run `git push`.", "it would do harm: `git push`"),
    ],
    ids=["nothing was done", "no command is named", "the command does harm"],
)
def test_a_correction_without_a_checkable_result_is_not_tried(
    machine: Machine, acts: Sequence[Act], said: str, reason: str
) -> None:
    corrected(machine, *acts, said=said)
    found = asked_too(machine, CLAUDE, lambda turn: [RIGHT], said)
    [lesson] = found["lessons"]
    assert lesson["evidence"][0].startswith("NOT PROVEN (grade E)")
    assert lesson["evidence"][-1].startswith(f"Not tried with Claude Code: {reason}")
    assert found["agent_runs"] == 0


def test_an_agent_whose_model_cannot_be_reached_is_a_failure_and_the_sessions_stay_to_be_done(
    machine: Machine,
) -> None:
    machine.codex(*MISTAKE)
    with tried_with(machine, CLAUDE, obedient):
        pass
    done = machine.ace("sleep", "--no-model", "--prove-with", "claude", "--yes")
    assert done.code == 1
    assert "Claude Code did not work: " in done.err
    assert "the sessions are looked at again next time" in done.err
    assert len(machine.sleep()["lessons"]) == 1


@pytest.mark.parametrize(
    ("option", "reason"),
    [(("--calls", "5"), "the budget of 5 calls is spent"), (("--budget", "0"), "the budget of $0 is spent")],
)
def test_a_lesson_is_proposed_without_the_agent_when_the_budget_does_not_suffice(
    machine: Machine, option: tuple[str, str], reason: str
) -> None:
    machine.codex(*MISTAKE)
    with tried_with(machine, CLAUDE, obedient) as turns:
        [lesson] = machine.sleep("--prove-with", "claude", "--yes", *option)["lessons"]
    assert lesson["evidence"][-1] == f"Not tried with Claude Code: {reason}"
    assert turns == []


def test_the_budget_in_money_is_checked_before_each_run(machine: Machine) -> None:
    machine.codex(*MISTAKE)
    with tried_with(machine, CLAUDE, obedient):
        found = machine.sleep("--prove-with", "claude", "--yes", "--budget", "0.003")
    assert 0.003 < found["cost"] < 0.006
    assert found["agent_runs"] < 6
    assert "the budget of $0.003 is spent" in found["lessons"][0]["evidence"][-1]


def test_the_user_is_asked_once_before_an_agent_is_given_sessions(machine: Machine) -> None:
    machine.codex(*MISTAKE)
    with tried_with(machine, CLAUDE, obedient) as turns:
        done = machine.ace("sleep", "--no-model", "--prove-with", "claude")
        assert (done.code, turns) == (2, [])
        assert "1 session of Codex CLI, in shop" in done.err
        assert "their first prompts are given to Claude Code, in at most 30 runs" in done.err
        assert "the price is not known" in done.err


def costly_session(machine: Machine) -> None:
    """Write a session that says that it cost 0.25 US dollars."""
    path = machine.claude(*MISTAKE)
    cost = {"type": "cost-state", "sessionId": path.stem, "totalCostUSD": 0.25}
    path.write_text(f"{path.read_text('utf-8')}{json.dumps(cost)}\n", encoding="utf-8")


def test_no_run_begins_if_the_money_would_not_suffice_for_all(machine: Machine) -> None:
    costly_session(machine)
    with tried_with(machine, CLAUDE, obedient) as turns:
        [lesson] = machine.sleep("--prove-with", "claude", "--yes")["lessons"]
    reason = "6 runs may cost $1.50, which is more than is left of the budget of $0.5"
    assert (lesson["evidence"][-1], turns) == (f"Not tried with Claude Code: {reason}", [])


def test_the_estimated_price_follows_from_what_the_sessions_cost(machine: Machine) -> None:
    costly_session(machine)
    with tried_with(machine, CLAUDE, obedient):
        machine.environ = {**machine.environ, "ACE_MODEL": "openai/gpt-4o-mini", "OPENAI_API_KEY": "k"}
        done = machine.ace("sleep", "--prove-with", "claude")
    assert done.code == 2
    assert "for each of at most 5 lessons a night (less than $0.01)" in done.err
    assert "in at most 30 runs on copies of the repositories (about $7.50 at most)" in done.err


def test_an_agent_is_given_no_secret_and_only_its_own_variables(machine: Machine) -> None:
    secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB"
    path = machine.claude(*MISTAKE)
    path.write_text(
        path.read_text("utf-8").replace("Make the tests", f"With {secret} make the tests"), encoding="utf-8"
    )
    (machine.home / ".claude" / "settings.json").write_text('{"hooks": {}, "env": {"OTHER": "of settings"}}', "utf-8")
    with tried_with(machine, CLAUDE, lambda turn: ["env"]) as turns:
        machine.environ = {**machine.environ, "OTHER_KEY": "of the environment"}
        machine.sleep("--prove-with", "claude", "--yes")
    assert len(turns) == 12
    assert "ANTHROPIC_BASE_URL" in turns[-1].prompt
    for text in (secret, "of settings", "of the environment"):
        assert not any(text in turn.prompt for turn in turns)


def test_an_agent_that_is_not_installed_is_a_usage_error(machine: Machine, tmp_path: Path) -> None:
    machine.environ = {"PATH": "/usr/bin:/bin"}
    done = machine.ace("sleep", "--no-model", "--prove-with", "codex")
    assert (done.code, done.err) == (2, "ace: --prove-with: the program codex is not on PATH\n")


def test_nothing_is_left_of_an_agent_after_a_kill(machine: Machine) -> None:
    """Killed while the agent runs a command: both end too, and the next start removes the copy of its credentials."""
    machine.codex(*MISTAKE)
    credentials = {"claudeAiOauth": {"accessToken": "secret of the user", "expiresAt": 4102444800000}}
    path = machine.home / ".claude" / ".credentials.json"
    path.parent.mkdir()
    path.write_text(json.dumps(credentials), encoding="utf-8")
    kept = machine.repo.bytes()
    waiting = "python3 -c 'import time; time.sleep(98765)' 98765.1234"
    with tried_with(machine, CLAUDE, lambda turn: [waiting]):
        process = subprocess.Popen(
            [ACE, "sleep", "--no-model", "--prove-with", "claude", "--yes"],
            cwd=machine.repo.root,
            env={**command_environment(machine.home, machine.environ), "HOME": str(machine.home)},
        )
        while not is_running(b"98765.1234"):
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
        process.wait()
        while is_running(b"98765.1234"):
            time.sleep(0.05)
    assert any(name.endswith(".credentials.json") for name in files_in(machine.state))
    shutil.rmtree(machine.home / ".codex")
    machine.sleep()
    assert not any(name.endswith(".credentials.json") for name in files_in(machine.state))
    assert machine.repo.bytes() == kept


def files_in(folder: Path) -> set[str]:
    """Return the names of all files in a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}

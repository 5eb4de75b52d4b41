"""Sessions that real coding agents write are read right: fresh ones, interrupted ones and resumed ones."""

from __future__ import annotations

import itertools
import json
import operator
from collections.abc import Iterator
from pathlib import Path

import pytest

from ace.logs import Run, Step, Tokens, read_runs
from tests.support.coding_agents import AGENTS, AgentHome, CodingAgent
from tests.support.scripted_agents_model import INPUT_TOKENS, OUTPUT_TOKENS, Action, Turn

TASK = "Make the tests green"
INTERRUPTED = "Now hold on"
LAST = "Sum up, please"

BEGUN = [
    ("person message", TASK),
    ("agent call", "echo oh no; exit 3"),
    ("tool result failed", "oh no"),
    ("agent call", "echo fine"),
    ("tool result", "fine"),
    ("agent message", "All done."),
]
RESUMED = [("person message", LAST), ("agent message", "That was all.")]

WAITING = ("agent call", "until [ -e")
RECORDED_OF_AN_INTERRUPTED_CALL: dict[str, list[tuple[str, str]]] = {
    "claude": [WAITING, ("tool result", "The user interrupted the call.")],
    "codex": [WAITING, ("tool result", "aborted by user")],
    "gemini": [],
    "opencode": [WAITING],
    "qwen": [WAITING, ("tool result failed", "cancelled")],
}
ADDED_WHEN_RESUMED_WITHOUT_THE_RESULT = {"claude": [("tool result", "[Tool call interrupted")]}
WITHOUT_TOKENS_OF_AN_INTERRUPTED_CALL = ("opencode",)


@pytest.fixture(params=AGENTS, ids=lambda agent: agent.name)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentHome]:
    """The home of an agent. A command that it runs waits until the test is over, whatever happens to the agent."""
    agent: CodingAgent = request.param
    agent.find()
    folder = tmp_path / "home"
    wait = "touch running; until [ -e over ]; do sleep 0.05; done"

    def script(turn: Turn) -> Action:
        if LAST in turn.question:
            return "That was all."
        if INTERRUPTED in turn.question:
            return agent.shell(wait)
        actions: list[Action] = [agent.shell("echo oh no; exit 3"), agent.shell("echo fine"), "All done."]
        return actions[turn.results]

    with agent.model(script) as model:
        home = AgentHome(agent, folder, model.url)
        home.lay_out()
        yield home
        (home.project / "over").touch()


def test_a_session_is_read_right_when_new_when_interrupted_and_when_resumed(home: AgentHome) -> None:
    name = home.agent.name
    home.begin(TASK)
    begun = the_run(home)
    assert task_of(begun) == TASK
    assert said_and_done(begun, BEGUN) == BEGUN
    assert (begun.answer, begun.is_interrupted) == ("All done.", False)
    assert begun.tokens == tokens(answers=3)
    assert begun.started and begun.ended and begun.started < begun.ended

    home.interrupt(INTERRUPTED, home.project / "running")
    interrupted = the_run(home)
    calls = RECORDED_OF_AN_INTERRUPTED_CALL[name]
    complete = [*BEGUN, ("person message", INTERRUPTED), *calls]
    # An agent may be gone before it has written the result.
    before = complete[:-1] if len(calls) > 1 else complete
    assert said_and_done(interrupted, complete) in (before, complete)
    assert interrupted.is_interrupted
    answers = 3 if name in WITHOUT_TOKENS_OF_AN_INTERRUPTED_CALL else 4
    assert interrupted.tokens == tokens(answers)

    home.resume(LAST)
    resumed = the_run(home)
    added = ADDED_WHEN_RESUMED_WITHOUT_THE_RESULT.get(name, [])
    expected = [[*before, *added, *RESUMED], [*complete, *RESUMED]]
    found = [said_and_done(resumed, steps) for steps in expected]
    assert any(map(operator.eq, found, expected)), found
    assert (task_of(resumed), resumed.answer) == (TASK, "That was all.")
    assert not resumed.is_interrupted
    assert resumed.tokens == tokens(answers + 1)
    assert (resumed.id, resumed.started) == (begun.id, begun.started)
    assert resumed.ended and resumed.ended > begun.ended


def the_run(home: AgentHome) -> Run:
    """Return the only run in the folder in which the agent keeps its sessions, among all that it keeps beside them."""
    [run] = read_runs(home.logs)
    assert isinstance(run, Run), run
    return run


def task_of(run: Run) -> str:
    """Return the task without the quotes in which OpenCode puts arguments that hold spaces."""
    return run.task.strip('"')


def said_and_done(run: Run, expected: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return speaker, kind and content of the steps, but only the expected part of a content, if it has this part."""
    steps = [step for step in run.steps if step.speaker != "harness"]
    parts = itertools.chain((part for _, part in expected), itertools.repeat(None))
    pairs = zip(steps, parts, strict=False)
    return [(what(step), part if part and part in content_of(step) else step.content) for step, part in pairs]


def what(step: Step) -> str:
    return f"{step.speaker} {step.kind}{' failed' * step.is_error}"


def content_of(step: Step) -> str:
    """Return the content; of a call, the values of its arguments."""
    return "\n".join(map(str, json.loads(step.content).values())) if step.kind == "call" else step.content


def tokens(answers: int) -> Tokens:
    return Tokens(input=answers * INPUT_TOKENS, output=answers * OUTPUT_TOKENS)


def test_a_session_names_the_folder_that_the_agent_worked_in(home: AgentHome) -> None:
    home.begin(TASK)
    assert Path(the_run(home).cwd) == home.project

"""A wrong argument is named before anything runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ace.environments import Sample
from ace.outputs import AgentOutput
from ace.roles import Agent
from ace.runners import ACE, ACERunner, TraceAnalyser
from ace.steps import CheckpointStep


class NeverAsked:
    """Roles that nobody comes to ask."""

    def generate(self, *args: Any, **kwargs: Any) -> AgentOutput:
        raise AssertionError("the run has begun")

    reflect = update_skills = generate


def runners() -> list[tuple[ACERunner, list[Any]]]:
    roles: Any = NeverAsked()
    return [
        (ACE.from_roles(agent=roles, reflector=roles, skill_manager=roles), [Sample("q")]),
        (TraceAnalyser.from_roles(reflector=roles, skill_manager=roles), [{"question": "q"}]),
    ]


NUMBERS = [("epochs", "at least 1"), ("workers", "at least 1"), ("max_in_flight", "at least 1 samples")]


@pytest.mark.parametrize(("name", "least"), NUMBERS)
@pytest.mark.parametrize("value", ["2", 1.5, -1, True, []], ids=str)
def test_a_number_of_a_run(name: str, least: str, value: object) -> None:
    wanted = least if value == -1 else "a whole number.*"
    for runner, inputs in runners():
        run: Any = runner.run
        with pytest.raises(ValueError, match=f"{name} must be {wanted}, got {re.escape(repr(value))}"):
            run(inputs, **{name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("max_cost", "1", "max_cost must be a number of US dollars, got '1'"),
        ("max_cost", True, "max_cost must be a number of US dollars, got True"),
        ("max_cost", 0, "max_cost must be more than 0 US dollars, got 0"),
        ("max_cost", float("nan"), "max_cost must be more than 0 US dollars"),
        ("run_id", 5, "run_id must be a string that is not empty, got 5"),
        ("run_id", " ", "run_id must be a string that is not empty"),
        ("cancel_token", "stop", "cancel_token must be a CancellationToken, got 'stop'"),
        ("on_sample_done", 5, "on_sample_done must be a function that takes a result, got 5"),
    ],
)
def test_an_option_of_a_run(name: str, value: object, message: str) -> None:
    for runner, inputs in runners():
        run: Any = runner.run
        with pytest.raises((TypeError, ValueError), match=re.escape(message)):
            run(inputs, **{name: value})


def test_an_argument_that_cannot_even_be_shown() -> None:
    for runner, inputs in runners():
        run: Any = runner.run
        with pytest.raises(TypeError, match="got a int that cannot be shown"):
            run(inputs, cancel_token=10**5000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"skillbook": "skills.db"},
            "skillbook must be a Skillbook, got 'skills.db'; give the path of one",
        ),
        ({"dedup_interval": 0}, "dedup_interval must be at least 1 samples, got 0"),
        ({"checkpoint_interval": 1.5}, "checkpoint_interval must be a whole number of samples, got 1.5"),
        ({"environment": "exact"}, "environment must be an object with a method evaluate(), got 'exact'"),
        ({"retrieval": 5}, "retrieval must be an object with a method __call__(), got 5"),
        ({"agent": None}, "agent must be an object with a method generate(), got None"),
        ({"agent": NeverAsked}, "create an instance: NeverAsked(...)"),
        ({"reflector": "gpt-4o"}, "reflector must be an object with a method reflect(), got 'gpt-4o'"),
        ({"skill_manager": None}, "skill_manager must be an object with a method update_skills(), got None"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_runner_is_made_of(options: dict[str, Any], message: str) -> None:
    roles: Any = NeverAsked()
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        ACE.from_roles(**{"agent": roles, "reflector": roles, "skill_manager": roles, **options})


def test_a_client_and_not_the_name_of_a_model() -> None:
    with pytest.raises(TypeError, match=r"complete_structured\(\), got 'gpt-4o'; LiteLLMClient\('gpt-4o'\) is one"):
        ACE.from_client("gpt-4o")  # type: ignore[arg-type]  # the mistake that is tested
    with pytest.raises(ValueError, match="max_retries must be at least 0, got -1"):
        Agent(ScriptedClient(), max_retries=-1)  # type: ignore[arg-type]  # enough of a client


class ScriptedClient:
    """As much of a client as a role looks for."""

    def complete_structured(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("nobody asks")


def test_the_interval_of_a_step(tmp_path: Path) -> None:
    from ace.skillbook import Skillbook

    with pytest.raises(ValueError, match="interval must be a whole number of samples, got '3'"):
        CheckpointStep(tmp_path, Skillbook(), interval="3")  # type: ignore[arg-type]  # the mistake that is tested


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("skillbook_path", 5, "skillbook_path must be a path, got 5; give a Skillbook as skillbook"),
        ("checkpoint_dir", 5, "checkpoint_dir must be a path, got 5"),
        ("dedup_config", "lexical", "dedup_config must be a DeduplicationConfig, got 'lexical'"),
    ],
)
def test_an_option_of_learning(name: str, value: Any, message: str) -> None:
    roles: Any = NeverAsked()
    with pytest.raises(TypeError, match=re.escape(message)):
        TraceAnalyser.from_roles(reflector=roles, skill_manager=roles, **{name: value})


@pytest.mark.parametrize(("given", "meant"), [("worker", "workers"), ("on_sample_don", "on_sample_done")])
def test_a_misspelt_option_of_a_run(given: str, meant: str) -> None:
    for runner, inputs in runners():
        run: Any = runner.run
        name = f"{type(runner).__name__}.run()"
        message = f"{name} got an unexpected keyword argument {given!r}; did you mean {meant!r}?"
        with pytest.raises(TypeError, match=re.escape(message)):
            run(inputs, **{given: 1})

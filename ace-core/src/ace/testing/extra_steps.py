"""`ExtraStepsConformance`: the checks for steps that an argument of `ACELiteLLM.from_model` enables."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ace.plugins import ExtraStepsSpec
from ace.runners import TraceAnalyser
from ace.testing.scripted_model import ScriptedReflector, ScriptedSkillManager
from ace.testing.suite import Conformance, demand, resolved, spec_of

__all__ = ["ExtraStepsConformance"]


class ExtraStepsConformance(Conformance, is_suite=True):
    """Checks the steps of `ACELiteLLM.from_model(..., acme=True)`. Fixtures: `plugin_name`, `options`."""

    @pytest.fixture
    def options(self) -> Mapping[str, object]:
        """Values for options, by the name without the prefix; by default none, because each may be omitted."""
        return {}

    def test_options(self, plugin_name: str) -> None:
        """The target takes exactly the declared options, by name, and each has a default."""
        spec, create = _target(plugin_name)
        parameters = inspect.signature(create).parameters
        demand(
            {*parameters} == {*spec.options},
            f"its spec has the options {sorted(spec.options)}, its target takes {sorted(parameters)}",
        )
        required = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
        demand(not required, f"without {', '.join(required)} it cannot be called; give each option a default")
        positional = [name for name, parameter in parameters.items() if parameter.kind is parameter.POSITIONAL_ONLY]
        demand(not positional, f"{', '.join(positional)} cannot be given by name")

    def test_steps(self, plugin_name: str, options: Mapping[str, object]) -> None:
        """It returns a list of steps, each with `requires` and `provides`."""
        steps = _created(plugin_name, options)
        demand(isinstance(steps, Sequence), f"it returns a {type(steps).__name__}, not a list of steps")
        for step in steps:
            name = type(step).__name__
            demand(callable(step), f"it returns a {name}, which is not a step: it cannot be called")
            for attribute in ("requires", "provides"):
                found = getattr(step, attribute, None)
                demand(isinstance(found, frozenset), f"{name}.{attribute} must be a frozenset, got {found!r}")

    def test_whole_run(self, plugin_name: str, options: Mapping[str, object]) -> None:
        """A run with the steps succeeds, although recorded traces have no answer of an agent."""
        failed = _failed(_steps(plugin_name, options))
        demand(not failed, f"a run with the steps failed: {failed[:1]}")

    def test_prints_nothing(self, plugin_name: str, options: Mapping[str, object]) -> None:
        """Neither creating nor calling the steps prints to standard output, which is the result of a command."""
        without = _printed(list)  # by observers, which may be installed too
        printed = _printed(lambda: _steps(plugin_name, options))
        demand(printed == without, f"it prints {printed!r} to standard output")


def _target(plugin_name: str) -> tuple[ExtraStepsSpec, Callable[..., Any]]:
    spec = spec_of(plugin_name, ExtraStepsSpec)
    target = resolved(plugin_name, spec.target, spec.requires)
    demand(callable(target), f"{spec.target!r} cannot be called")
    assert callable(target)
    return spec, target


def _created(plugin_name: str, options: Mapping[str, object]) -> Any:
    _, create = _target(plugin_name)
    try:
        return create(**options)
    except TypeError as error:
        pytest.skip(f"cannot be checked before test_options holds: {error}")


def _steps(plugin_name: str, options: Mapping[str, object]) -> Sequence[Any]:
    steps = _created(plugin_name, options)
    if not isinstance(steps, Sequence) or not all(
        isinstance(getattr(step, name, None), frozenset) for step in steps for name in ("requires", "provides")
    ):
        pytest.skip("cannot be checked before test_steps holds")
    return steps


def _printed(create: Callable[[], Sequence[Any]]) -> str:
    """Return what creating the steps and a run with them print."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        _failed(create())
    return printed.getvalue()


def _failed(steps: Sequence[Any]) -> list[BaseException]:
    """Run the steps after those that learn, and return the errors of the samples."""
    runner = TraceAnalyser.from_roles(
        reflector=ScriptedReflector(), skill_manager=ScriptedSkillManager(), extra_steps=list(steps)
    )
    results = runner.run([f"Repeat the code word kit{number:04d}code." for number in range(1, 5)])
    return [result.error for result in results if result.error is not None]

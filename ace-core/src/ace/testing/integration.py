"""`IntegrationConformance`: the checks for names and options that all integrations have in common."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from ace.context import ACEStepContext
from ace.pipeline import StepProtocol
from ace.plugins import ExecuteStepSpec, LogReaderSpec, TraceConverterSpec
from ace.skillbook import Skillbook
from ace.testing.execute_step import MakeTask, call_step, context, task_with
from ace.testing.scripted_model import ScriptedModel, code_word
from ace.testing.suite import Conformance, demand, loaded_plugin, must_be_given, resolved, spec_of
from ace.testing.trace_converter import convert

__all__ = ["IntegrationConformance", "MakeStepWithOptions"]

MakeStepWithOptions = Callable[..., StepProtocol[ACEStepContext]]
RESULT_FIELDS = ("task", "success", "output", "error", "skill_ids")
ABOUT_TASKS = f"When you are asked to say {code_word(1)}, think of"
SHORT = f"{ABOUT_TASKS} heliotrope."
LONG = f"{ABOUT_TASKS} gamboge. " * 100
BUDGET = 300


class IntegrationConformance(Conformance, is_suite=True):
    """Checks that an integration uses the common names for its parts, options, results and traces.

    Fixtures: `plugin_name`, `make_step`, `make_task`, `successful_result`, `has_timeout`. An integration that only
    reads records of agents does not need `make_step`.
    """

    @pytest.fixture
    def make_step(self, plugin_name: str) -> MakeStepWithOptions:
        """A function that takes a `ScriptedModel` and options, and returns a new step with these options."""
        _options_of_step(plugin_name)  # skips integrations that do not run agents
        made: MakeStepWithOptions = must_be_given(self, "make_step")
        return made

    @pytest.fixture
    def make_task(self) -> MakeTask:
        """A function that takes a code word and returns a task that contains it, such as a text."""
        return task_with

    @pytest.fixture
    def successful_result(self) -> object:
        """The result of a successful run on `ctx.trace`; for an integration without runs, a record of one."""
        return must_be_given(self, "successful_result")

    @pytest.fixture
    def has_timeout(self) -> bool:
        """Whether a run of the framework can have a timeout."""
        return True

    def test_names_of_parts(self, plugin_name: str) -> None:
        """The parts are named `XExecuteStep`, `XResult` and `XToTrace`, and the log reader `XLogs`."""
        converter = spec_of(plugin_name, TraceConverterSpec)
        name = _name_in(converter.target)
        stem = name.removesuffix("ToTrace")
        demand(stem and stem != name, f"the converter is called {name}; call it XToTrace")
        for step in loaded_plugin(plugin_name).specs_of(ExecuteStepSpec):
            found = [_name_in(step.target), _name_in(step.produces or "")]
            wanted = [f"{stem}ExecuteStep", f"{stem}Result"]
            demand(found == wanted, f"beside {name}, the parts are called {found}; call them {wanted}")
        for reader in loaded_plugin(plugin_name).specs_of(LogReaderSpec):
            called = _name_in(reader.target)
            demand(called == f"{stem}Logs", f"beside {name}, the log reader is called {called}; call it {stem}Logs")

    def test_options_of_the_step(self, plugin_name: str, has_timeout: bool) -> None:
        """The step has the options `skill_budget_tokens` and, if a run can have a timeout, `timeout`."""
        options = _options_of_step(plugin_name)
        wanted = ["skill_budget_tokens", *(["timeout"] if has_timeout else [])]
        missing = [name for name in wanted if name not in options]
        demand(not missing, f"the step has no option {' and '.join(missing)}; its options are {', '.join(options)}")

    def test_skill_budget(self, plugin_name: str, make_step: MakeStepWithOptions, make_task: MakeTask) -> None:
        """With `skill_budget_tokens`, the prompt contains the skills that fit into it, and no others.

        The skills name the code word of the task, since an integration may omit skills that do not fit the task.
        """
        if "skill_budget_tokens" not in _options_of_step(plugin_name):
            pytest.skip("cannot be checked before test_options_of_the_step holds")
        book, model = Skillbook(), ScriptedModel()
        book.add_skill("kit", LONG)
        book.add_skill("kit", SHORT)
        call_step(make_step(model, skill_budget_tokens=BUDGET), context(make_task(code_word(1)), book))
        what = f"of two skills, one of which is longer than skill_budget_tokens={BUDGET},"
        demand(not any("gamboge" in prompt for prompt in model.prompts), f"{what} the model was shown the long one")
        demand(any(SHORT in prompt for prompt in model.prompts), f"{what} the model was not shown the short one")

    def test_result(self, plugin_name: str, successful_result: object) -> None:
        """A result has `task`, `success`, `output`, `error`, and the ids of the cited skills as `skill_ids`."""
        _options_of_step(plugin_name)  # skips integrations that do not run agents
        missing = [name for name in RESULT_FIELDS if not hasattr(successful_result, name)]
        demand(not missing, f"a {type(successful_result).__name__} has no {', '.join(missing)}")
        ids: Any = getattr(successful_result, "skill_ids", None)
        demand(isinstance(ids, tuple | list), f"skill_ids of the result must be a tuple of ids, and is {ids!r}")

    def test_trace(self, plugin_name: str, successful_result: object) -> None:
        """The metadata of a trace name the integration, and its `skill_ids` are those of the result."""
        trace = convert(plugin_name, successful_result)
        metadata = trace.get("metadata")
        named = metadata.get("integration") if isinstance(metadata, dict) else None
        demand(
            named == plugin_name,
            f"the metadata of the trace name the integration {named!r}, not {plugin_name!r}: "
            'give the trace "metadata": {"integration": ...}',
        )
        ids = getattr(successful_result, "skill_ids", None)
        if isinstance(ids, tuple | list):
            demand(
                list(ids) == list(trace["skill_ids"]), f"the result cites {list(ids)}, the trace {trace['skill_ids']}"
            )


def _name_in(target: str) -> str:
    return re.split(r"[:.]", target)[-1]


def _options_of_step(plugin_name: str) -> list[str]:
    """Return the names of the step's parameters; skip the check if the plugin does not run agents."""
    specs = loaded_plugin(plugin_name).specs_of(ExecuteStepSpec)
    if not specs:
        pytest.skip("the plugin runs no agents")
    step: Any = resolved(plugin_name, specs[0].target, specs[0].requires)
    return list(inspect.signature(step).parameters)

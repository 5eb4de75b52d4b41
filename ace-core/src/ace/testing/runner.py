"""`RunnerConformance`: the checks for the runner of a plugin, its own or a composed one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ace.plugins import PluginError, get_runner
from ace.runners import ACERunner
from ace.skillbook import Skillbook
from ace.steps import learning_tail
from ace.testing.execute_step import MakeTask, task_with
from ace.testing.scripted_model import ScriptedModel, ScriptedReflector, ScriptedSkillManager, code_word, lesson_of
from ace.testing.suite import Conformance, demand, loaded_plugin, must_be_given

__all__ = ["MakeRunner", "RunnerConformance"]

MakeRunner = Callable[..., ACERunner]


class RunnerConformance(Conformance, is_suite=True):
    """Checks the runner. Fixtures: `plugin_name`, `make_runner`, `runner_class`, `make_task`."""

    @pytest.fixture
    def make_runner(self) -> MakeRunner:
        """A function that takes a `ScriptedModel` and the keyword arguments of `from_roles`, and returns a runner."""
        made: MakeRunner = must_be_given(self, "make_runner")
        return made

    @pytest.fixture
    def runner_class(self, plugin_name: str) -> type[ACERunner]:
        """The runner class that users import; by default the composed runner of plugins without their own."""
        return _runner_of(plugin_name)

    @pytest.fixture
    def make_task(self) -> MakeTask:
        """A function that takes a code word and returns a task that contains it, such as a text."""
        return task_with

    def test_same_class(self, plugin_name: str, runner_class: type[ACERunner]) -> None:
        """`get_runner` always returns the class that users import."""
        for _ in range(2):
            found = _runner_of(plugin_name)
            demand(
                found is runner_class, f"get_runner({plugin_name!r}) returns {found}, and users import {runner_class}"
            )

    def test_learning_tail(self, make_runner: MakeRunner) -> None:
        """Its pipeline ends with the steps of `learning_tail` in their order, after steps that provide their fields."""
        runner = _made(make_runner, ScriptedModel())
        tail = learning_tail(ScriptedReflector(), ScriptedSkillManager(), Skillbook())
        wanted = [type(step).__name__ for step in tail]
        names = [type(step).__name__ for step in runner.pipeline.steps]
        demand(
            [name for name in names if name in wanted] == wanted,
            f"the steps are {', '.join(names)}; those of learning_tail are {', '.join(wanted)}",
        )
        needed = runner.pipeline.requires - {"sample", "skillbook"}
        demand(not needed, f"nothing provides {', '.join(sorted(needed))} before it is read")

    def test_run_and_learn(self, make_runner: MakeRunner, make_task: MakeTask) -> None:
        """A run learns into the given skillbook, and the prompts of the next run contain what was learned."""
        book, model = Skillbook(), ScriptedModel()
        runner = _made(make_runner, model, skillbook=book)
        _run(runner, make_task(code_word(1)))
        lesson = lesson_of(code_word(1))
        demand(lesson in _contents(book), f"the skillbook has {_contents(book)} after a run that teaches {lesson!r}")
        for skill in book.pending_skills():  # no one judges the runs of the kit
            book.accept_skill(skill.id)
        _run(runner, make_task(code_word(2)))
        shown = [prompt for prompt in model.prompts if code_word(2) in prompt and lesson in prompt]
        demand(shown, "the second run was not shown what the first one learned")

    def test_save_and_load(self, make_runner: MakeRunner, make_task: MakeTask, tmp_path: Path) -> None:
        """A runner can load the skillbook that another one saved, use it and add to it."""
        first = _made(make_runner, ScriptedModel())
        first.skillbook.add_skill("kit", lesson_of(code_word(3)))
        first.save(tmp_path / "skills.json")
        model = ScriptedModel()
        second = _made(make_runner, model)
        second.load(tmp_path / "skills.json")
        demand(_contents(second.skillbook) == [lesson_of(code_word(3))], "load does not give back what save has kept")
        _run(second, make_task(code_word(4)))
        demand(lesson_of(code_word(3)) in model.prompts[-1], "a run after load is not shown the loaded skills")
        demand(
            lesson_of(code_word(4)) in _contents(second.skillbook),
            "a run after load learns into another book",
        )


def _runner_of(name: str) -> type[ACERunner]:
    loaded_plugin(name)
    with _for_plugin_conformance_to_tell():
        found: type[ACERunner] = get_runner(name)
    return found


def _made(make_runner: MakeRunner, model: ScriptedModel, **options: Any) -> Any:
    with _for_plugin_conformance_to_tell():
        return make_runner(model, reflector=ScriptedReflector(), skill_manager=ScriptedSkillManager(), **options)


@contextmanager
def _for_plugin_conformance_to_tell() -> Iterator[None]:
    try:
        yield
    except PluginError as error:
        pytest.skip(f"cannot be checked before PluginConformance holds: {error}")


def _run(runner: Any, task: object) -> None:
    [result] = runner.run([task])
    demand(result.error is None, f"the task failed in {result.failed_at}: {result.error!r}")


def _contents(book: Skillbook) -> list[str]:
    return [skill.content for skill in book.skills(include_invalid=True)]

"""A runner of a third party: two methods, and everything else is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.pipeline import Pipeline, SampleResult
from ace.roles import Reflector, SkillManager
from ace.runners import ACERunner
from ace.skillbook import Skillbook
from ace.steps import learning_tail
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedServer


class AskTheSea:
    requires = frozenset({"sample"})
    provides = frozenset({"trace"})

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        return ctx.replace(trace={"question": f"What is the secret of {ctx.sample}?", "ground_truth": ctx.sample})


class SeaRunner(ACERunner):
    """Takes names; the trace is found out by its own step."""

    def run(self, names: Iterable[str], epochs: int = 1, *, wait: bool = True) -> list[SampleResult[ACEStepContext]]:
        return self._run(names, epochs=epochs, wait=wait, prefix="the ")

    def _build_context(self, item: str, **kwargs: Any) -> ACEStepContext:
        self.kwargs = getattr(self, "kwargs", [])
        self.kwargs.append(kwargs)
        return ACEStepContext(
            sample=item.removeprefix(kwargs["prefix"]),
            skillbook=SkillbookView(self.skillbook),
            epoch=kwargs["epoch"],
            global_sample_index=kwargs["global_sample_index"],
        )


def sea_runner(server: ScriptedServer, *steps: Any) -> SeaRunner:
    client, book = client_for(server), Skillbook()
    tail = learning_tail(Reflector(client), SkillManager(client), book)
    return SeaRunner(Pipeline[ACEStepContext]([*steps, *tail]), book)


def test_two_methods_are_enough() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        runner = sea_runner(server, AskTheSea())
        results = runner.run(["the value-of-boat", "sail"], epochs=2)
    assert [result.error for result in results] == [None] * 4
    assert [(kw["epoch"], kw["index"], kw["total"], kw["global_sample_index"]) for kw in runner.kwargs] == [
        *((1, 1, 2, 1), (1, 2, 2, 2), (2, 1, 2, 3), (2, 2, 2, 4)),
    ]
    assert {kw["total_epochs"] for kw in runner.kwargs} == {2}


def test_of_a_stream_the_total_is_unknown() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        runner = sea_runner(server, AskTheSea())
        runner.run(iter(["boat", "sail"]))
    assert [(kw["total"], kw["global_sample_index"]) for kw in runner.kwargs] == [(None, 1), (None, 2)]


def test_a_context_that_lacks_what_the_first_step_needs_is_refused() -> None:
    with ScriptedServer(secrets_world.answer) as server:
        runner = sea_runner(server)  # nothing provides a trace
        with pytest.raises(ValueError, match=r"input 1: the steps of SeaRunner need .* 'trace', which is None"):
            runner.run(["boat"])
        assert server.requests == []


def test_the_lifecycle_names_are_the_same_functions() -> None:
    assert ACERunner.save_skillbook is ACERunner.save
    assert ACERunner.load_skillbook is ACERunner.load
    assert ACERunner.wait_for_learning is ACERunner.wait_for_background


def test_an_input_that_raises_ends_the_run_and_keeps_what_was_learned() -> None:
    def names() -> Iterable[str]:
        yield "boat"
        raise OSError("the list is torn")

    with ScriptedServer(secrets_world.answer) as server:
        runner = sea_runner(server, AskTheSea())
        with pytest.raises(OSError, match="torn"):
            runner.run(names())
        assert len(server.by_role("skill_manager")) == 1
    assert runner.learning_stats == {"active": 0, "queued": 0, "completed": 1, "failed": 0}

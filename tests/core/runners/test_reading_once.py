"""A trace is read once for all steps of its sample, and again only where a step or a wrapper may have changed it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.outputs import ReflectorOutput
from ace.pipeline import Pipeline
from ace.protocols import TraceConverter, register_trace_converter, unregister_trace_converter
from ace.roles import Reflector, SkillManager
from ace.runners import TraceAnalyser
from ace.skillbook import Skillbook
from ace.steps import ApplyStep, ReflectStep, UpdateStep
from tests.support.clients import client_for
from tests.support.role_inputs import REFLECTION
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

ANSWER = "Round half to even and give two decimals"
SECRET = "the code of the safe is 4711"


@pytest.fixture
def looked_at() -> Iterator[list[object]]:
    """The traces that the converters of plugins were asked about."""
    traces: list[object] = []

    def recognises(trace: object) -> float:
        traces.append(trace)
        return 0.0

    register_trace_converter(TraceConverter(name="counting", recognises=recognises, convert=lambda trace: {}))
    yield traces
    unregister_trace_converter("counting")


def script(request: ScriptedRequest) -> Mapping[str, Any]:
    if request.role == "reflector":
        return REFLECTION
    return {"reasoning": "", "operations": [{"type": "ADD", "section": "rounding", "content": f"Always: {ANSWER}."}]}


def test_a_trace_is_read_once_for_all_steps(looked_at: list[object]) -> None:
    traces = [{"question": f"How do we round {number}?", "ground_truth": ANSWER} for number in range(3)]
    book = Skillbook()
    with ScriptedServer(script) as server:
        results = TraceAnalyser.from_client(client_for(server), skillbook=book).run(traces)
    assert [result.error for result in results] == [None] * 3
    assert len(looked_at) == 3, "each once"
    kept = [repr(result.output.metadata) for result in results if result.output is not None]
    assert len(kept) == 3
    assert "'steps'" not in "".join(kept), "results keep the facts, not a second copy of the trace"
    assert len(book) == 0, "the guard, which has not read the trace itself, knows its right answer"


def test_the_guard_reads_a_trace_that_a_step_has_replaced() -> None:
    class Replace:
        requires = frozenset({"reflection"})
        provides: frozenset[str] = frozenset()

        def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
            return ctx.replace(trace={"question": "How do we round?", "ground_truth": ANSWER})

    book = Skillbook()
    with ScriptedServer(script) as server:
        client = client_for(server)
        pipeline: Pipeline[ACEStepContext] = Pipeline(
            [ReflectStep(Reflector(client)), Replace(), UpdateStep(SkillManager(client)), ApplyStep(book)]
        )
        [result] = pipeline.run([ACEStepContext(trace={"question": "How do we round?"}, skillbook=SkillbookView(book))])
        pipeline.wait_for_background()
    assert result.error is None
    assert len(book) == 0


def test_a_wrapper_that_changes_the_trace_decides_what_is_sent() -> None:
    @functools.wraps(Reflector.reflect)
    def careful(self: Reflector, **kwargs: Any) -> ReflectorOutput:
        return Reflector.reflect(self, **{**kwargs, "trace": {"question": "How do we round?"}})

    wrapped: Any = type("Careful", (Reflector,), {"reflect": careful})
    with ScriptedServer(script) as server:
        client = client_for(server)
        runner = TraceAnalyser.from_roles(reflector=wrapped(client), skill_manager=SkillManager(client))
        [result] = runner.run([{"question": "How do we round?", "memo": SECRET}])
        assert result.error is None
        [prompt] = [request.text for request in server.requests if request.role == "reflector"]
    assert SECRET not in prompt

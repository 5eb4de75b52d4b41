"""`KnownStep`: the cases of a trace, and what is looked up before a reflection is paid for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext, SkillbookView
from ace.environments import Sample, SimpleEnvironment
from ace.pipeline import CancellationToken, Pipeline, PipelineCancelled
from ace.proof import CaseProver
from ace.roles import Agent
from ace.runners import ACE
from ace.skill import SkillCase
from ace.skillbook import Skillbook
from ace.steps import KnownStep
from tests.support.clients import client_for
from tests.support.corrected_chats import CODE, TIDE, corrected, correcting_script
from tests.support.role_inputs import REFLECTION
from tests.support.scripted_server import ScriptedRequest, ScriptedServer

RECORD = {
    "question": CODE.question,
    "answer": CODE.wrong,
    "ground_truth": CODE.right,
    "feedback": "Wrong: a broken crate gets the label K7-RED, not a word.",
}


@pytest.mark.parametrize(
    ("judgement", "is_correction"),
    [
        ({}, True),
        ({"metrics": {"correct": 0.0}}, False),
        ({"check": {"kind": "contains", "value": "K7-RED"}}, False),
    ],
    ids=["a person", "an environment, with metrics", "an environment, with its check"],
)
def test_feedback_of_an_environment_on_one_answer_is_not_a_correction(
    judgement: Mapping[str, Any], is_correction: bool
) -> None:
    with ScriptedServer(correcting_script(CODE)) as server:
        step = KnownStep(CaseProver(Agent(client_for(server))))
        ctx = step(ACEStepContext(skillbook=SkillbookView(Skillbook()), trace={**RECORD, **judgement}))
    cases: tuple[SkillCase, ...] = ctx.metadata["cases"]
    assert [(case.expected, case.correction) for case in cases] == [
        (CODE.right, RECORD["feedback"] if is_correction else "")
    ]


class Cancels:
    """A step that cancels the run while its sample is in the foreground."""

    requires = frozenset({"trace"})
    provides = frozenset({"trace"})

    def __init__(self, token: CancellationToken) -> None:
        self.token = token

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        """Cancel the run."""
        self.token.cancel()
        return ctx


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_sample_that_waits_in_the_background_of_a_cancelled_run_asks_nothing(is_cancelled: bool) -> None:
    book = Skillbook()
    book.add_skill("house", TIDE.rule)  # it holds the value, so the question is asked
    token, other = CancellationToken(), CancellationToken()
    with ScriptedServer(correcting_script(TIDE)) as server:
        known = KnownStep(CaseProver(Agent(client_for(server))))
        pipeline = Pipeline[ACEStepContext]([Cancels(token if is_cancelled else other), known])
        trace = corrected(TIDE.question, TIDE.wrong, TIDE.correction, TIDE.right)
        ctx = ACEStepContext(skillbook=SkillbookView(book), trace=trace)
        [result] = pipeline.run([ctx], cancel_token=token)
        pipeline.wait_for_background()
        assert len(server.requests) == (0 if is_cancelled else 1)
    assert isinstance(result.error, PipelineCancelled) is is_cancelled


def test_a_sample_sees_what_another_process_has_learned_before_it(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"

    def script(request: ScriptedRequest) -> Any:
        if request.role == "reflector":
            return REFLECTION
        if request.role == "skill_manager":
            return {"reasoning": "", "operations": []}
        return {"reasoning": "", "final_answer": TIDE.right if TIDE.needs in request.text else TIDE.wrong}

    def samples() -> Iterator[Sample]:
        yield Sample(TIDE.question, ground_truth=TIDE.right, id="before")
        with Skillbook.open(path) as theirs:
            theirs.add_skill("house", TIDE.rule)
        yield Sample(TIDE.question, ground_truth=TIDE.right, id="after")

    with ScriptedServer(script) as server:
        runner = ACE.from_client(client_for(server), environment=SimpleEnvironment(), skillbook_path=path)
        results = runner.run(samples(), max_in_flight=1)
        runner.skillbook.close()
    outputs = [result.output.agent_output for result in results if result.output is not None]
    assert [output.final_answer for output in outputs if output is not None] == [TIDE.wrong, TIDE.right]

"""`ACE`: what one epoch teaches the next one knows, and how far an agent may run ahead."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext
from ace.environments import Sample, SimpleEnvironment
from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
from ace.pipeline import CancellationToken, PipelineCancelled, SampleResult
from ace.protocols import SkillbookReader
from ace.retrieval import TopSkills
from ace.runners import ACE
from ace.skillbook import Skillbook
from ace.steps import AgentStep, EvaluateStep, ObservabilityStep, ReflectStep
from ace.updates import UpdateBatch, UpdateOperation
from tests.support import secrets_world
from tests.support.clients import client_for
from tests.support.scripted_server import HttpError, Reply, ScriptedRequest, ScriptedServer


def correct(results: Sequence[SampleResult[ACEStepContext]]) -> list[float]:
    found = []
    for result in results:
        assert result.output is not None, result.error
        assert isinstance(result.output.trace, dict)
        found.append(result.output.trace["metrics"]["correct"])
    return found


@pytest.mark.parametrize("workers", [1, 3])
def test_the_second_epoch_knows_what_the_first_one_taught(workers: int) -> None:
    with ScriptedServer(secrets_world.answer) as server:
        client = client_for(server)
        runner = ACE.from_client(client, environment=SimpleEnvironment())
        results = runner.run(secrets_world.samples(4), epochs=3, workers=workers)
        assert correct(results) == [0.0] * 4 + [1.0] * 8
        assert [result.sample.id for result in results] == [f"thing{n}" for n in range(4)] * 3
        contents = [skill.content for skill in runner.skillbook.skills()]
        assert contents == [f"The secret of thing{n} is value-of-thing{n}." for n in range(4)]
        # Each was proven when it was added, and answered its question in the two epochs that followed.
        assert [(skill.proof, skill.helpful) for skill in runner.skillbook.skills()] == [("proven", 3)] * 4
        assert client.usage.calls == len(server.requests) < 36
        assert (client.usage.input_tokens, client.usage.output_tokens) == (server.input_tokens, server.output_tokens)
    [source] = runner.skillbook.skills()[2].sources
    assert (source.trace_id, source.epoch, source.step, source.integration) == ("thing2", 1, 3, "ace")
    assert source.sample_question == "What is the secret of thing2?"
    assert source.error_identification == "The agent did not know."
    assert source.learning_text == "The secret of thing2 is value-of-thing2."
    assert runner.learning_stats == {"active": 0, "queued": 0, "completed": 12, "failed": 0}
    assert "value-of-thing3" in runner.get_strategies()


class CountingRoles:
    """All three roles; each sample teaches one skill. Notes how many skills an agent saw when it began."""

    def __init__(self, reflect: threading.Event | None = None) -> None:
        self.seen: list[int] = []
        self.answered = 0
        self.may_reflect = reflect

    def generate(
        self,
        question: str,
        context: str,
        skillbook: SkillbookReader,
        reflection: str | None = None,
        **kwargs: object,
    ) -> AgentOutput:
        self.seen.append(len(skillbook.skills()))
        self.answered += 1
        return AgentOutput(reasoning="", final_answer=question)

    def reflect(
        self,
        question: str,
        agent_output: AgentOutput,
        skillbook: SkillbookReader,
        ground_truth: str | None = None,
        feedback: str | None = None,
        **kwargs: object,
    ) -> ReflectorOutput:
        if self.may_reflect is not None:
            assert self.may_reflect.wait(60)
        return ReflectorOutput(
            reasoning=question,
            error_identification="",
            root_cause_analysis="",
            correct_approach="",
            key_insight=question,
        )

    def update_skills(
        self,
        reflection: ReflectorOutput,
        skillbook: SkillbookReader,
        question_context: str = "",
        progress: str = "",
        **kwargs: object,
    ) -> SkillManagerOutput:
        operation = UpdateOperation("ADD", section="s", content=reflection.key_insight)
        return SkillManagerOutput(update=UpdateBatch("", [operation]))


def counting(roles: CountingRoles, **options: Any) -> ACE:
    kept = {"unproven": "keep", "learn_without_truth": True, **options}  # nothing judges the answers
    return ACE.from_roles(agent=roles, reflector=roles, skill_manager=roles, **kept)


def questions(count: int) -> list[Sample]:
    return [Sample(f"question {number}") for number in range(count)]


@pytest.mark.parametrize("workers", [1, 4])
def test_one_sample_in_flight_is_strictly_online(workers: int) -> None:
    roles = CountingRoles()
    counting(roles).run(questions(12), epochs=2, max_in_flight=1, workers=workers)
    assert roles.seen == list(range(24))


@pytest.mark.parametrize(("workers", "lag"), [(1, 1), (1, 3), (3, 2), (3, 5)])
def test_an_agent_misses_at_most_what_is_in_flight(workers: int, lag: int) -> None:
    roles = CountingRoles()
    counting(roles).run(questions(20), max_in_flight=lag + 1, workers=workers)
    assert all(seen >= index - lag - (workers - 1) for index, seen in enumerate(roles.seen))
    assert min(sorted(roles.seen)[index] - index for index in range(20)) >= -lag


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_by_default_agents_stop_until_the_background_has_caught_up(workers: int) -> None:
    may_reflect = threading.Event()
    roles = CountingRoles(may_reflect)
    runner = counting(roles)
    reached: list[int] = []

    def look_and_go_on() -> None:
        reached.append(roles.answered)
        may_reflect.set()

    def done(result: SampleResult[ACEStepContext]) -> None:
        if roles.answered == workers + 4:
            # Nothing can be learned before this, so no further agent may have begun.
            threading.Timer(0.3, look_and_go_on).start()

    runner.run(questions(15), on_sample_done=done, workers=workers)
    assert reached[0] == workers + 4
    assert len(roles.seen) == len(runner.skillbook) == 15


def test_a_failed_agent_does_not_stop_the_others() -> None:
    class Failing(CountingRoles):
        def generate(self, question: str, *args: Any, **kwargs: Any) -> AgentOutput:
            if question.endswith(("1", "3")):
                raise RuntimeError("no answer")
            return super().generate(question, *args, **kwargs)

    roles = Failing()
    runner = counting(roles)
    results = runner.run(questions(6), max_in_flight=1)
    assert [result.failed_at for result in results] == [None, "AgentStep", None, "AgentStep", None, None]
    assert roles.seen == [0, 1, 2, 3]
    assert [(failed.index, failed.step, failed.error) for failed in runner.failures] == [
        (2, "AgentStep", "no answer"),
        (4, "AgentStep", "no answer"),
    ]


def test_a_cancelled_run_waits_for_nobody() -> None:
    may_reflect = threading.Event()
    token = CancellationToken()
    runner = counting(CountingRoles(may_reflect))

    def done(result: SampleResult[ACEStepContext]) -> None:
        token.cancel()

    results = runner.run(questions(5), max_in_flight=1, on_sample_done=done, cancel_token=token, wait=False)
    may_reflect.set()
    runner.wait_for_background(30)
    # The first one has answered, and waits for its reflection: that is not begun any more.
    assert [type(result.error) for result in results] == [PipelineCancelled] * 5
    assert [result.failed_at for result in results] == ["ReflectStep", *["AgentStep"] * 4]
    assert runner.failures == []
    assert len(runner.skillbook) == 0


def test_wait_false_skips_the_last_drain_only() -> None:
    may_reflect = threading.Event()
    runner = counting(CountingRoles(may_reflect))
    runner.run(questions(3), wait=False)
    assert len(runner.skillbook) == 0
    with pytest.raises(TimeoutError, match="3 samples are still in the background"):
        runner.wait_for_background(0.01)
    may_reflect.set()
    runner.wait_for_background(30)
    assert len(runner.skillbook) == 3
    second = CountingRoles()
    counting(second).run(questions(3), epochs=2, wait=False)
    assert min(second.seen[3:]) >= 3


def test_a_server_that_refuses_one_sample() -> None:
    def script(request: ScriptedRequest) -> Reply | dict[str, object]:
        if request.role == "reflector" and "thing1" in request.text:
            return HttpError(400, f"bad request with {request.headers['authorization']}")
        return secrets_world.answer(request)

    with ScriptedServer(script) as server:
        runner = ACE.from_client(client_for(server), environment=SimpleEnvironment())
        results = runner.run(secrets_world.samples(3))
    assert [result.failed_at for result in results] == [None, "ReflectStep", None]
    assert len(runner.skillbook) == 2
    assert "sk-scripted" not in repr(runner.failures)


def test_epochs_need_inputs_that_can_be_replayed() -> None:
    runner = counting(CountingRoles())
    with pytest.raises(ValueError, match="pass a list"):
        runner.run(iter(questions(2)), epochs=2)
    assert len(runner.run(iter(questions(2)))) == 2


def test_wrong_arguments_are_refused_before_anything_runs() -> None:
    roles = CountingRoles()
    runner = counting(roles)
    with pytest.raises(ValueError, match="epochs must be at least 1, got 0"):
        runner.run(questions(1), epochs=0)
    with pytest.raises(ValueError, match="max_in_flight must be at least 1 samples, got 0"):
        runner.run(questions(1), max_in_flight=0)
    with pytest.raises(TypeError, match="put it into a list"):
        runner.run("question")  # type: ignore[arg-type]  # the mistake that is tested
    with pytest.raises(ValueError, match="inputs 2 of 2 are None"):
        runner.run([Sample("q"), None])  # type: ignore[list-item]  # the mistake that is tested
    with pytest.raises(ValueError, match="skillbook or skillbook_path"):
        counting(roles, skillbook=Skillbook(), skillbook_path="x.json")
    assert roles.seen == []


def test_the_order_of_the_steps_and_the_extra_ones_last() -> None:
    roles = CountingRoles()
    extra = ObservabilityStep()
    steps = ACE.build_steps(
        agent=roles, reflector=roles, skill_manager=roles, skillbook=Skillbook(), extra_steps=[extra]
    )
    assert [type(step) for step in steps[:3]] == [AgentStep, EvaluateStep, ReflectStep]
    assert steps[-1] is extra
    assert [type(step).__name__ for step in counting(roles).pipeline.steps] == [
        *("AgentStep", "EvaluateStep", "ReflectStep", "TagStep", "UpdateStep", "ApplyStep"),
    ]


def test_what_is_no_sample_is_told_by_its_place() -> None:
    with pytest.raises(TypeError, match="input 2 is a str without question, context, ground_truth"):
        counting(CountingRoles()).run([Sample("q"), "q"])  # type: ignore[list-item]  # the mistake that is tested


def test_ctrl_c_keeps_what_was_learned(tmp_path: Path) -> None:
    class Interrupted(CountingRoles):
        def generate(self, question: str, *args: Any, **kwargs: Any) -> AgentOutput:
            if question.endswith("2"):
                raise KeyboardInterrupt
            return super().generate(question, *args, **kwargs)

    runner = counting(Interrupted(), skillbook_path=tmp_path / "skills.json")
    with pytest.raises(KeyboardInterrupt):
        runner.run(questions(5))
    assert len(Skillbook.load_from_file(tmp_path / "skills.json")) == len(runner.skillbook) == 2


def test_retrieval_shows_the_agent_what_it_chose() -> None:
    book = Skillbook()
    wanted = book.add_skill("a", "A question about 0 is easy.")
    book.add_skill("a", "Kites lean on the wind, that is no question.")
    runner = counting(CountingRoles(), skillbook=book, retrieval=TopSkills(1))
    [result] = runner.run(questions(1))
    assert result.output is not None
    assert result.output.metadata["shown_skill_ids"] == (wanted.id,)

"""Evaluation over HTTP: what is counted, what a failure is worth, and how it goes on after a break."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ace.environments import EnvironmentResult, Sample, SimpleEnvironment, TaskEnvironment
from ace.evaluation import Evaluator, UnfinishedEvaluationError
from ace.outputs import AgentOutput
from ace.pipeline import CancellationToken
from ace.retrieval import TopSkills
from ace.roles import Agent
from tests.core.evaluation.world import book_of, by_kind, evaluator_for, samples, served
from tests.support.clients import client_for
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer

UP = "Round every price up to whole euros."


@pytest.mark.parametrize("workers", [1, 4])
def test_skills_change_the_answers_and_every_token_is_counted_for_its_sample(workers: int) -> None:
    prices = by_kind("price")
    with served() as server:
        evaluator = evaluator_for(server, workers=workers)
        baseline = evaluator.evaluate(prices, name="baseline")
        learned = evaluator.evaluate(prices, book_of(UP, "Never cited."))
        assert (baseline.accuracy, learned.accuracy) == (0.0, 1.0)
        assert sum(answer.input_tokens for answer in (*baseline.answers, *learned.answers)) == server.input_tokens
        assert sum(answer.output_tokens for answer in (*baseline.answers, *learned.answers)) == server.output_tokens
        by_question = {request.text: request.input_tokens for request in server.requests[len(prices) :]}
    for sample, answer in zip(prices, learned.answers, strict=True):
        assert (answer.sample_id, answer.answer, answer.calls) == (sample.id, sample.ground_truth, 1)
        [tokens] = [count for text, count in by_question.items() if sample.question in text]
        assert answer.input_tokens == tokens
        assert answer.cost is None
        assert answer.cited == ("conventions-00001",)
        assert answer.shown == ("conventions-00001", "conventions-00002")
        assert answer.seconds > 0


def test_repeats_are_answered_one_by_one() -> None:
    def flips(request: Any) -> Any:
        return {"reasoning": "", "final_answer": "13"} if request.number % 2 else None

    with served(flips) as server:
        evaluation = evaluator_for(server).evaluate([by_kind("price")[0]], repeats=4)
        assert len(server.requests) == 4
    assert [answer.correct for answer in evaluation.answers] == [1.0, 0.0, 1.0, 0.0]
    assert [answer.repeat for answer in evaluation.answers] == [1, 2, 3, 4]
    assert evaluation.repeats == 4


def test_a_failed_sample_is_wrong_and_never_dropped() -> None:
    def fails(request: Any) -> Any:
        return HttpError(400, "no") if "7.10" in request.text else None

    prices = by_kind("price")
    with served(fails) as server:
        evaluation = evaluator_for(server, workers=2).evaluate(prices, book_of(UP))
    assert len(evaluation.answers) == len(prices)
    assert evaluation.accuracy == pytest.approx(9 / 10)
    [failed] = evaluation.failed
    assert failed.sample_id == "price 7.10"
    assert failed.error is not None
    assert "AgentStep" in failed.error


def test_a_sample_that_cannot_be_judged_is_wrong_and_says_why() -> None:
    with served() as server:
        evaluation = evaluator_for(server).evaluate([Sample(by_kind("price")[0].question)])
    [answer] = evaluation.failed
    assert answer.error is not None
    assert "no metric 'correct'" in answer.error
    assert answer.answer == "12.30"


def test_what_retrieval_showed_is_noted() -> None:
    with served() as server:
        evaluator = evaluator_for(server, retrieval=TopSkills(1))
        evaluation = evaluator.evaluate(by_kind("price")[:1], book_of("Send iron by freight.", UP))
    assert evaluation.answers[0].shown == ("conventions-00002",)


def test_an_evaluation_that_was_broken_off_goes_on_and_asks_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    prices = by_kind("price")
    with served() as server:
        token = CancellationToken()
        seen: list[str] = []

        def stop(answer: Any) -> None:
            seen.append(answer.sample_id)
            if len(seen) == 4:
                token.cancel()

        first = evaluator_for(server, answers_path=path).evaluate(prices, on_answer=stop, cancel_token=token)
        assert (len(first.answers), first.stopped_by) == (4, "cancelled")
        with pytest.raises(UnfinishedEvaluationError, match="has 4 of 10 answers"):
            _ = first.accuracy
        path.write_text(path.read_text(encoding="utf-8") + '{"key": "cut of', encoding="utf-8")
        second = evaluator_for(server, answers_path=path).evaluate(prices)
        assert second.is_complete
        assert len(server.requests) == 10
        evaluator_for(server, answers_path=path).evaluate(prices, book_of(UP))
        assert len(server.requests) == 20  # other skills, other answers
        evaluator_for(server, answers_path=path, label="another model").evaluate(prices)
        assert len(server.requests) == 30


def test_answers_are_kept_for_the_skills_that_retrieval_chose(tmp_path: Path) -> None:
    path, prices, book = tmp_path / "answers.jsonl", by_kind("price")[:3], book_of("Send iron by freight.", UP)
    with served() as server:
        assert evaluator_for(server, answers_path=path, retrieval=lambda *_: []).evaluate(prices, book).accuracy == 0
        few = evaluator_for(server, answers_path=path, retrieval=TopSkills(1))
        assert few.evaluate(prices, book).accuracy == 1
        assert len(server.requests) == 6
        book.update_skill("conventions-00001", content="Send iron by rail.")  # no question is shown this one
        assert few.evaluate(prices, book).accuracy == 1
        assert len(server.requests) == 6


def test_a_retrieval_that_fails_fails_its_samples(tmp_path: Path) -> None:
    def broken(question: str, skillbook: object) -> Any:
        raise LookupError("the index is gone")

    with served() as server:
        evaluator = evaluator_for(server, answers_path=tmp_path / "answers.jsonl", retrieval=broken)
        evaluation = evaluator.evaluate(by_kind("price")[:2], book_of(UP))
    assert [answer.error for answer in evaluation.answers] == ["LookupError in AgentStep: the index is gone"] * 2


def test_failed_answers_are_asked_for_again(tmp_path: Path) -> None:
    broken = [True]

    def fails(request: Any) -> Any:
        return HttpError(400, "no") if broken[0] else None

    with served(fails) as server:
        evaluator = evaluator_for(server, answers_path=tmp_path / "answers.jsonl")
        assert evaluator.evaluate(by_kind("price"), book_of(UP)).accuracy == 0
        broken[0] = False
        assert evaluator.evaluate(by_kind("price"), book_of(UP)).accuracy == 1


@pytest.mark.parametrize("content", [b'{"question": "what?"}\n', b"a note", b"\xff\xfe\n", b'{"key": "k"}', b"[]"])
def test_another_file_is_refused_with_its_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(content)
    with served() as server, pytest.raises(ValueError, match=r"notes\.jsonl, line 1: this is not a judged answer"):
        evaluator_for(server, answers_path=path)


def test_a_line_that_was_cut_anywhere_costs_one_answer(tmp_path: Path) -> None:
    path, prices = tmp_path / "answers.jsonl", by_kind("price")[:2]
    with served() as server:
        evaluator_for(server, answers_path=path).evaluate(prices)
        first, second = path.read_text(encoding="utf-8").splitlines()
        for length in (1, 6, 40, len(first) - 1):
            path.write_text(f"{first[:length]}\n{second}\n", encoding="utf-8")
            server.clear()
            assert evaluator_for(server, answers_path=path).evaluate(prices).is_complete
            assert len(server.requests) == 1


class Impossible(TaskEnvironment):
    def evaluate(self, sample: Sample, agent_output: AgentOutput) -> EnvironmentResult:
        return EnvironmentResult("", metrics={"correct": 10**400})


def test_an_impossible_metric_is_told_with_its_sample() -> None:
    with served() as server:
        [answer] = Evaluator(Agent(client_for(server)), Impossible()).evaluate(by_kind("price")[:1]).answers
    assert answer.error is not None
    assert "invalid metric" in answer.error


class Expensive(TaskEnvironment):
    def evaluate(self, sample: Sample, agent_output: AgentOutput) -> EnvironmentResult:
        return EnvironmentResult("", metrics={"correct": 0.5})


def test_a_limit_of_cost_stops_it_and_shares_count() -> None:
    with served() as server:
        client = client_for(server, model="openai/gpt-4o-mini")  # litellm knows its price
        evaluator = Evaluator(Agent(client), Expensive())
        evaluation = evaluator.evaluate(samples(), max_cost=0.00005)
        assert evaluation.stopped_by == "max_cost"
        assert 0 < len(evaluation.answers) == len(server.requests) < len(samples())
        whole = evaluator.evaluate(samples()[:3])
        assert whole.accuracy == 0.5
        assert whole.cost is not None
        assert whole.cost == pytest.approx(client.usage.cost * 3 / client.usage.calls, rel=0.3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"samples": []}, "samples is empty"), ({"repeats": 0}, "repeats"), ({"max_cost": 0}, "max_cost")],
)
def test_wrong_arguments_are_errors(arguments: dict[str, Any], words: str) -> None:
    with served() as server, pytest.raises(ValueError, match=words):
        evaluator_for(server).evaluate(**{"samples": samples(), **arguments})


def test_an_empty_answer_is_an_answer_and_not_a_failed_call() -> None:
    def script(request: ScriptedRequest) -> dict[str, str]:
        return {"reasoning": "hm", "final_answer": "" if "hidden" in request.text else "I do not know."}

    asked = [Sample("What is hidden?", ground_truth="gold"), Sample("What is it?", ground_truth="gold")]
    with ScriptedServer(script) as server:
        found = Evaluator(Agent(client_for(server)), SimpleEnvironment()).evaluate(asked)
    assert [(answer.answer, answer.correct, answer.error) for answer in found.answers] == [
        ("", 0.0, None),
        ("I do not know.", 0.0, None),
    ]
    assert found.answers[0].feedback == "Incorrect: the answer does not contain 'gold'."


def test_what_cannot_answer_or_judge_is_an_error_and_not_an_accuracy_of_zero() -> None:
    with served() as server:
        client, environment = client_for(server), SimpleEnvironment()
        for agent in (None, client, Agent):
            with pytest.raises(TypeError, match=r"agent must be an object with a method generate\(\), got"):
                Evaluator(agent, environment)  # type: ignore[arg-type]
        for judge in (None, "exact", SimpleEnvironment):
            with pytest.raises(TypeError, match=r"environment must be an object with a method evaluate\(\), got"):
                Evaluator(Agent(client), judge)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="sample 2 is a str without question, context, ground_truth; give samples"):
            Evaluator(Agent(client), environment).evaluate([Sample("?"), "?"])  # type: ignore[list-item]
        assert server.requests == []

"""Training by validation: the best state is kept, the gate takes back, and a broken off training goes on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ace.evaluation import (
    Interval,
    Trainer,
    TrainingLog,
    TrainingResult,
    ValidationPoint,
    ValidationSchedule,
    ValidationSettings,
)
from ace.pipeline import CancellationToken
from ace.skillbook import Skillbook
from tests.core.evaluation.world import book_of, by_kind, evaluator_for, samples, served, trainer_for
from tests.support.scripted_server import ScriptedRequest

UP = "Round every price up to whole euros."
HARM = "Send glass by pigeon."
PRICES = by_kind("price")
PARCELS = by_kind("parcel")


def scores(result: TrainingResult) -> list[float]:
    return [point.score.value for point in result.points]


def misled_by_iron(request: ScriptedRequest) -> Mapping[str, Any] | None:
    """The skill manager learns from an iron parcel that prices are rounded no more."""
    if request.role == "skill_manager" and "made of iron" in request.text and UP in request.text:
        skill_id = request.text.split(f"] {UP}")[0].rsplit("[", 1)[1]
        return {"reasoning": "", "operations": [{"type": "REMOVE", "skill_id": skill_id}]}
    return None


# Two prices teach to round up; then an iron parcel un-teaches it.
LEARN_THEN_FORGET = [PRICES[0], PRICES[1], PARCELS[1], PARCELS[3]]
VALIDATION = PRICES[5:]


def test_the_best_state_is_what_is_kept_even_if_the_last_one_is_worse(tmp_path: Path) -> None:
    path = tmp_path / "skills.json"
    with served(misled_by_iron) as server:
        trainer = trainer_for(server, ValidationSettings(interval=2))
        result = trainer.train(LEARN_THEN_FORGET, VALIDATION, max_in_flight=1, skillbook_path=path)
    assert scores(result) == [0.0, 1.0, 0.0]
    assert [point.is_kept for point in result.points] == [True, True, True]
    assert result.best.samples == 2
    assert [skill.content for skill in result.skillbook.skills()] == [UP]
    assert [skill.content for skill in Skillbook.load_from_file(path).skills()] == [UP]


def test_a_store_goes_back_to_the_best_state(tmp_path: Path) -> None:
    with served(misled_by_iron) as server, Skillbook.open(tmp_path / "skills.db") as book:
        trainer = trainer_for(server, ValidationSettings(interval=2))
        result = trainer.train(LEARN_THEN_FORGET, VALIDATION, max_in_flight=1, skillbook=book)
        assert result.skillbook is book
        assert [skill.content for skill in book.skills()] == [UP]
        assert book.history()[-1].author == "best by validation: 1.0000 after 2 samples"


def test_the_gate_takes_back_what_made_the_score_fall_with_both_scores_in_the_history(tmp_path: Path) -> None:
    samples_after = [*LEARN_THEN_FORGET, PRICES[2], PARCELS[0]]
    with served(misled_by_iron) as server, Skillbook.open(tmp_path / "skills.db") as book:
        trainer = trainer_for(server, ValidationSettings(interval=2, gate=True))
        result = trainer.train(samples_after, VALIDATION, max_in_flight=1, skillbook=book)
        assert scores(result) == [0.0, 1.0, 0.0, 1.0]
        assert [point.is_kept for point in result.points] == [True, True, False, True]
        assert [point.score_before for point in result.points] == [None, 0.0, 1.0, 1.0]
        authors = [entry.author for entry in book.history()]
        assert "gate: validation fell from 1.0000 to 0.0000" in authors
        assert {skill.content for skill in book.skills()} == {UP, "Send glass by courier."}
        refused = result.points[2]
        assert UP not in refused.skills.values()
        assert "Send iron by freight." not in {skill.content for skill in book.skills()}


def test_what_the_gate_had_refused_when_the_process_was_killed_is_taken_back_later(tmp_path: Path) -> None:
    settings = ValidationSettings(gate=True)
    with served() as server, Skillbook.open(tmp_path / "skills.db") as book:
        log = TrainingLog(tmp_path / "log.jsonl")
        book.add_skill("conventions", UP)
        log.keep("run", point_of(book, 2, 1.0))
        book.add_skill("conventions", HARM)
        log.keep("run", point_of(book, 4, 0.5, is_kept=False))  # then the process was killed
        schedule = ValidationSchedule(evaluator_for(server), VALIDATION, book, settings, run_id="run", log=log)
        schedule.start()
        assert [skill.content for skill in book.skills()] == [UP]
        assert book.history()[-1].author == "gate: validation fell from 1.0000 to 0.5000"
        ValidationSchedule(evaluator_for(server), VALIDATION, book, settings, run_id="run", log=log).start()
        assert len(book.history()) == 3
        assert server.requests == []


def point_of(book: Skillbook, samples: int, score: float, *, is_kept: bool = True) -> ValidationPoint:
    return ValidationPoint(
        samples=samples,
        score=Interval(score, score, score),
        score_before=None,
        is_kept=is_kept,
        version=book.version,
        skills={skill.id: skill.content for skill in book.skills()},
    )


def test_a_gate_without_history_is_a_clear_error(tmp_path: Path) -> None:
    with served() as server:
        trainer = trainer_for(server, ValidationSettings(gate=True))
        for options in ({}, {"skillbook_path": tmp_path / "skills.json"}):
            with pytest.raises(ValueError, match=r"needs a skillbook with history; open one .* \.db"):
                trainer.train(PRICES[:2], VALIDATION, **options)  # type: ignore[arg-type]  # mypy sees dict[str, object]
        assert server.requests == []


def test_fewer_samples_than_an_interval_are_validated_at_the_end() -> None:
    with served() as server:
        result = trainer_for(server, ValidationSettings(interval=100)).train(PRICES[:3], VALIDATION)
    assert [point.samples for point in result.points] == [0, 3]
    assert scores(result) == [0.0, 1.0]
    assert len(result.skillbook) == 1


def test_what_did_not_change_is_not_asked_again() -> None:
    with served() as server:
        trainer = trainer_for(server, ValidationSettings(interval=1))
        result = trainer.train(PRICES[:4], VALIDATION, max_in_flight=1, prove=False)
        agent_calls = len(server.by_role("agent"))
    assert [point.samples for point in result.points] == [0, 1, 2, 3, 4]
    assert agent_calls == 4 + 2 * len(VALIDATION)


def test_training_stops_early_when_nothing_gets_better() -> None:
    with served() as server:
        trainer = trainer_for(server, ValidationSettings(interval=1, patience=2))
        result = trainer.train([*PRICES[:5], *PARCELS], VALIDATION, max_in_flight=1)
    assert result.stopped_by == "early_stopping"
    assert [point.samples for point in result.points] == [0, 1, 2, 3]
    assert scores(result)[-1] == 1.0


def test_several_workers_learn_the_same_and_validation_stays_between_whole_samples() -> None:
    with served() as server:
        trainer = trainer_for(server, ValidationSettings(interval=5), evaluator=evaluator_for(server, workers=3))
        result = trainer.train(samples()[:20], samples()[20:], workers=3)
    assert [point.samples for point in result.points] == [0, 5, 10, 15, 20]
    assert result.points[-1].score.value == 1.0
    assert not [failed for failed in result.results if failed.error is not None]


def test_a_stopped_training_goes_on_with_its_scores_and_pays_nothing_twice(tmp_path: Path) -> None:
    with served(misled_by_iron) as server:
        whole_book = Skillbook.open(tmp_path / "whole.db")
        whole = trainer_for(server, ValidationSettings(interval=2, gate=True)).train(
            LEARN_THEN_FORGET, VALIDATION, max_in_flight=1, skillbook=whole_book
        )
        expected = len(server.requests)
        server.clear()

        def trainer_of_the_process() -> Trainer:
            evaluator = evaluator_for(server, answers_path=tmp_path / "answers.jsonl")
            settings = ValidationSettings(interval=2, gate=True)
            return trainer_for(server, settings, evaluator=evaluator, log_path=tmp_path / "log.jsonl")

        token = CancellationToken()
        with Skillbook.open(tmp_path / "skills.db") as book:
            trainer = trainer_of_the_process()
            first = trainer.train(
                LEARN_THEN_FORGET,
                VALIDATION,
                max_in_flight=1,
                skillbook=book,
                cancel_token=token,
                on_point=lambda point: token.cancel() if point.samples == 2 else None,
            )
        assert first.stopped_by == "cancelled"
        assert [point.samples for point in first.points] == [0, 2]
        with Skillbook.open(tmp_path / "skills.db") as book:
            trainer = trainer_of_the_process()
            second = trainer.train(LEARN_THEN_FORGET, VALIDATION, max_in_flight=1, skillbook=book, resume=True)
            assert second.stopped_by == ""
            assert [skill.content for skill in book.skills()] == [skill.content for skill in whole_book.skills()]
        assert scores(second) == scores(whole)
        assert [point.is_kept for point in second.points] == [point.is_kept for point in whole.points]
        assert len(server.requests) <= expected
        whole_book.close()


def test_a_limit_of_cost_counts_validation_too() -> None:
    from ace.environments import SimpleEnvironment
    from ace.evaluation import Evaluator
    from ace.roles import Agent, Reflector, SkillManager
    from tests.support.clients import client_for

    with served() as server:
        client = client_for(server, model="openai/gpt-4o-mini")
        trainer = Trainer(
            Evaluator(Agent(client), SimpleEnvironment("exact")),
            reflector=Reflector(client),
            skill_manager=SkillManager(client),
            settings=ValidationSettings(interval=2),
        )
        result = trainer.train(samples()[:20], VALIDATION, max_in_flight=1, max_cost=0.002)
    assert result.stopped_by == "max_cost"
    assert result.points[0].cost
    assert client.usage.cost < 0.004
    assert len(server.requests) < 100


def test_validation_samples_must_not_be_learned_from() -> None:
    with served() as server, pytest.raises(ValueError, match="a validation sample is also a training sample"):
        trainer_for(server, ValidationSettings()).train(PRICES, PRICES[:1])


def test_a_book_given_without_a_store_stays_as_it_is_learned() -> None:
    book = book_of(HARM)
    with served() as server:
        result = trainer_for(server, ValidationSettings()).train(PRICES[:2], VALIDATION, skillbook=book)
    assert result.skillbook is not book
    assert [skill.content for skill in result.skillbook.skills()] == [HARM, UP]


def test_a_training_that_is_over_is_not_begun_again(tmp_path: Path) -> None:
    with served(misled_by_iron) as server, Skillbook.open(tmp_path / "skills.db") as book:
        trainer = trainer_for(server, ValidationSettings(interval=2), log_path=tmp_path / "log.jsonl")
        first = trainer.train(LEARN_THEN_FORGET, VALIDATION, max_in_flight=1, skillbook=book)
        server.clear()
        again = trainer.train(LEARN_THEN_FORGET, VALIDATION, max_in_flight=1, skillbook=book, resume=True)
        assert server.requests == []
        assert scores(again) == scores(first)
        assert [skill.content for skill in again.skillbook.skills()] == [UP]


def test_a_validated_run_leaves_the_runner_its_pipeline() -> None:
    from ace.environments import SimpleEnvironment
    from ace.evaluation import ValidationSchedule
    from ace.evaluation.trainer import run_validated
    from ace.runners import ACE
    from tests.support import secrets_world
    from tests.support.clients import client_for
    from tests.support.scripted_server import ScriptedServer

    with ScriptedServer(secrets_world.answer) as server:
        book = Skillbook()
        runner = ACE.from_client(client_for(server), environment=SimpleEnvironment(), skillbook=book)
        own = runner.pipeline
        for name in ("first", "second"):
            schedule = ValidationSchedule(evaluator_for(server), secrets_world.samples(2), book, run_id=name)
            run_validated(runner, schedule, secrets_world.samples(2), cancel_token=CancellationToken())
            assert runner.pipeline is own
            assert len(schedule.points) >= 2


def test_a_training_takes_the_options_of_every_run() -> None:
    done: list[int] = []
    with served() as server:
        trainer = trainer_for(server, ValidationSettings(interval=100))
        result = trainer.train(
            PRICES[:3], VALIDATION, shuffle=1, max_in_flight=1, on_sample_end=lambda ended: done.append(ended.index)
        )
    assert sorted(done) == [0, 1, 2] and len(result.results) == 3


def test_order_is_the_old_name_of_shuffle_and_the_caller_is_told() -> None:
    with served() as server:
        new = trainer_for(server, ValidationSettings(interval=100)).train(PRICES[:4], VALIDATION, shuffle=5)
        with pytest.warns(DeprecationWarning, match=r"^order is called shuffle now; .* until 0\.2$") as warned:
            old = trainer_for(server, ValidationSettings(interval=100)).train(PRICES[:4], VALIDATION, order=5)
    asked = [[result.sample.question for result in training.results if result.sample] for training in (new, old)]
    assert asked[0] == asked[1] != [sample.question for sample in PRICES[:4]]
    assert [warning.filename for warning in warned] == [__file__]


def test_a_training_always_waits_for_what_it_learns() -> None:
    with served() as server, pytest.raises(ValueError, match="wait must be True for a training"):
        trainer_for(server, ValidationSettings()).train(PRICES[:2], VALIDATION, wait=False)

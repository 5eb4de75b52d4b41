"""Runs of one runner overlap; only the writing of the book is serial. What bounds a run, and what is told of it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext
from ace.environments import Sample
from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
from ace.pipeline import CancellationToken, Pipeline, PipelineCancelled, SampleResult
from ace.runners import ACE, ACERunner, TraceAnalyser
from ace.skillbook import Skillbook
from ace.steps import learning_tail
from ace.updates import UpdateBatch, UpdateOperation

Result = SampleResult[ACEStepContext]


class Roles:
    """All three roles. Each trace teaches one skill; the writer notes whether anybody else writes meanwhile."""

    def __init__(self) -> None:
        self.may_reflect = threading.Event()
        self.may_reflect.set()
        self.answered: list[int] = []
        self.writing = 0
        self.overlaps = 0

    def generate(self, *, question: str, skillbook: Any, **kwargs: Any) -> AgentOutput:
        self.answered.append(len(skillbook.skills()))
        return AgentOutput(reasoning="r", final_answer=question)

    def reflect(self, *, question: str, **kwargs: Any) -> ReflectorOutput:
        assert self.may_reflect.wait(60)
        return ReflectorOutput(reasoning=question, correct_approach="", key_insight=question)

    def update_skills(self, *, reflection: ReflectorOutput, **kwargs: Any) -> SkillManagerOutput:
        self.writing += 1
        self.overlaps += self.writing > 1
        content = reflection.key_insight
        self.writing -= 1
        return SkillManagerOutput(update=UpdateBatch("", [UpdateOperation("ADD", section="s", content=content)]))


def analyser(roles: Roles, **options: Any) -> TraceAnalyser:
    return TraceAnalyser.from_roles(reflector=roles, skill_manager=roles, **options, unproven="keep")


def ace(roles: Roles, **options: Any) -> ACE:
    return ACE.from_roles(
        agent=roles, reflector=roles, skill_manager=roles, **options, unproven="keep", learn_without_truth=True
    )


def traces(name: str, count: int) -> list[dict[str, str]]:
    return [{"question": f"{name} {number}", "answer": "a"} for number in range(count)]


def test_three_threads_run_one_runner_at_once() -> None:
    class Meeting(Roles):
        """Each reflection waits until one of every run is here: runs one after the other would never meet."""

        def __init__(self) -> None:
            super().__init__()
            self.all_runs = threading.Barrier(3)

        def reflect(self, *, question: str, **kwargs: Any) -> ReflectorOutput:
            if question.endswith(" 0"):
                self.all_runs.wait(60)
            return super().reflect(question=question, **kwargs)

    roles = Meeting()
    runner = analyser(roles)
    with ThreadPoolExecutor(3) as threads:
        runs = list(threads.map(lambda name: runner.run(traces(name, 6)), ["a", "b", "c"]))
    assert [[result.error for result in run] for run in runs] == [[None] * 6] * 3
    assert [[result.sample["question"] for result in run] for run in runs] == [
        [f"{name} {number}" for number in range(6)] for name in "abc"
    ]
    contents = [skill.content for skill in runner.skillbook.skills()]
    assert sorted(contents) == sorted(f"{name} {number}" for name in "abc" for number in range(6))
    for name in "abc":  # each run is learned in its own order
        assert [text for text in contents if text.startswith(name)] == [f"{name} {number}" for number in range(6)]
    assert roles.overlaps == 0
    assert runner.learning_stats["completed"] == 18


@pytest.mark.parametrize("options", [{"workers": 1}, {"workers": 1, "wait": False}])
def test_workers_is_the_limit_of_each_run(options: dict[str, Any]) -> None:
    class Meeting(Roles):
        """Each reflection waits for one of the other run, and notes how many of its own run are here."""

        def __init__(self) -> None:
            super().__init__()
            self.both_runs = threading.Barrier(2)
            self.here = {"a": 0, "b": 0}
            self.most = 0

        def reflect(self, *, question: str, **kwargs: Any) -> ReflectorOutput:
            self.here[question[0]] += 1
            self.most = max(self.most, *self.here.values())
            self.both_runs.wait(60)
            self.here[question[0]] -= 1
            return super().reflect(question=question, **kwargs)

    roles = Meeting()
    runner = analyser(roles)
    for _ in range(3):
        with ThreadPoolExecutor(2) as threads:
            runs = list(threads.map(lambda name: runner.run(traces(name, 4), **options), "ab"))
        runner.wait_for_background(60)
        assert [[result.error for result in run] for run in runs] == [[None] * 4] * 2
    assert roles.most == 1
    assert runner.learning_stats["completed"] == 24


def test_overlapping_runs_into_a_store_keep_their_own_records(tmp_path: Path) -> None:
    runner = analyser(Roles(), skillbook_path=tmp_path / "book.db")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda name: runner.run(traces(name, 5), run_id=name), "abcd"))
    runner.skillbook.close()
    with Skillbook.open(tmp_path / "book.db") as again:
        assert len(again) == 20
    for name in "abcd":
        runner = analyser(Roles(), skillbook_path=tmp_path / "book.db")
        results = runner.run(traces(name, 5), run_id=name, resume=True)
        assert [result.output and result.output.metadata["already_learned"] for result in results] == [True] * 5
        runner.skillbook.close()


def test_a_run_does_not_wait_for_the_samples_of_another_one() -> None:
    class Selective(Roles):
        def reflect(self, *, question: str, **kwargs: Any) -> ReflectorOutput:
            if question.startswith("slow"):
                assert self.may_reflect.wait(60)
            return ReflectorOutput(reasoning=question, correct_approach="", key_insight=question)

    roles = Selective()
    roles.may_reflect.clear()
    runner = ace(roles)
    with ThreadPoolExecutor(1) as other:
        reached = threading.Event()
        slow = other.submit(runner.run, [Sample("slow")], on_sample_done=lambda result: reached.set())
        assert reached.wait(60)
        [quick] = analyser_of(runner, roles).run(traces("quick", 1))
        assert quick.error is None and not slow.done()
        roles.may_reflect.set()
        assert slow.result()[0].error is None


def analyser_of(runner: ACE, roles: Roles) -> TraceAnalyser:
    return analyser(roles, skillbook=Skillbook())


def test_load_waits_for_the_runs_and_is_refused_inside_one(tmp_path: Path) -> None:
    other = Skillbook()
    other.add_skill("s", "From the other book.")
    other.save_to_file(tmp_path / "other.json")
    roles = Roles()
    roles.may_reflect.clear()
    runner = analyser(roles)
    old = runner.skillbook
    with ThreadPoolExecutor(2) as threads:
        drawn = threading.Event()
        run = threads.submit(runner.run, traces("a", 3), on_sample_done=lambda result: drawn.set())
        assert drawn.wait(60)
        load = threads.submit(runner.load, tmp_path / "other.json")
        assert not load.done()
        roles.may_reflect.set()
        run.result()
        load.result()
    assert len(old) == 3 and len(runner.skillbook) == 1
    refused: list[str] = []

    def load_inside(result: Result) -> None:
        try:
            runner.load(tmp_path / "other.json")
        except RuntimeError as error:
            refused.append(str(error))

    runner.run(traces("b", 1), on_sample_done=load_inside)
    assert refused == ["load() waits for the runs of this runner, so it cannot be called inside one of them"]


def test_load_waits_for_a_run_that_has_nothing_in_the_background_yet(tmp_path: Path) -> None:
    class Answering(Roles):
        def __init__(self) -> None:
            super().__init__()
            self.is_answering, self.may_answer = threading.Event(), threading.Event()

        def generate(self, **kwargs: Any) -> AgentOutput:
            self.is_answering.set()
            assert self.may_answer.wait(60)
            return super().generate(**kwargs)

    roles = Answering()
    runner = ace(roles)
    old = runner.skillbook
    runner.save(tmp_path / "other.json")
    with ThreadPoolExecutor(2) as threads:
        run = threads.submit(runner.run, [Sample("q")])
        assert roles.is_answering.wait(60)
        load = threads.submit(runner.load, tmp_path / "other.json")
        wait([load], timeout=0.3)
        assert not load.done()
        roles.may_answer.set()
        run.result()
        load.result()
    assert len(old) == 1 and len(runner.skillbook) == 0


@pytest.mark.parametrize("workers", [1, 4])
def test_one_sample_in_flight_is_strictly_online(workers: int) -> None:
    roles = Roles()
    ace(roles).run([Sample(f"q{number}") for number in range(10)], workers=workers, max_in_flight=1)
    assert roles.answered == list(range(10))


def answers_before_the_first_lesson(**options: Any) -> int:
    """How many agents answer while nothing can be learned."""
    roles = Roles()
    roles.may_reflect.clear()
    runner = ace(roles)
    run = threading.Thread(target=lambda: runner.run([Sample(f"q{number}") for number in range(30)], **options))
    reached: list[int] = []

    def let_go() -> None:
        reached.append(len(roles.answered))
        roles.may_reflect.set()

    run.start()
    timer = threading.Timer(0.7, let_go)  # long after the last agent that may start, and it only delays the test
    timer.start()
    run.join()
    runner.wait_for_background(60)
    assert len(roles.answered) == 30
    return reached[0]


def test_the_defaults_of_max_in_flight() -> None:
    assert answers_before_the_first_lesson() == 1 + 4
    assert answers_before_the_first_lesson(workers=2) == 2 + 4
    assert answers_before_the_first_lesson(wait=False) == 1 + 4
    assert answers_before_the_first_lesson(max_in_flight=3, workers=2) == 3


def test_fire_and_forget_returns_after_the_last_answer() -> None:
    roles = Roles()
    roles.may_reflect.clear()
    runner = ace(roles)
    results = runner.run([Sample(f"q{number}") for number in range(30)], wait=False, max_in_flight=None)
    assert len(results) == len(roles.answered) == 30 and len(runner.skillbook) == 0
    roles.may_reflect.set()
    runner.wait_for_background(60)
    assert len(runner.skillbook) == 30


def test_nothing_runs_with_no_sample_in_flight() -> None:
    with pytest.raises(ValueError, match="max_in_flight must be at least 1 samples, got 0"):
        ace(Roles()).run([], max_in_flight=0)


def test_the_end_of_each_sample_is_told_when_it_is_learned() -> None:
    class Failing(Roles):
        def reflect(self, *, question: str, **kwargs: Any) -> ReflectorOutput:
            if question == "t 2":
                raise RuntimeError("no reflection")
            return super().reflect(question=question, **kwargs)

    runner = analyser(Failing())
    ends: list[tuple[int, bool, int]] = []
    runner.run(
        traces("t", 5),
        on_sample_end=lambda result: ends.append((result.index, result.error is None, len(runner.skillbook))),
    )
    assert sorted((index, good) for index, good, _ in ends) == [(0, True), (1, True), (2, False), (3, True), (4, True)]
    assert [learned for _, good, learned in ends if good] == [1, 2, 3, 4]


def test_the_end_of_a_cancelled_sample_is_told_too() -> None:
    token = CancellationToken()
    ends: list[Result] = []
    runner = ace(Roles())
    runner.run(
        [Sample(f"q{number}") for number in range(6)],
        cancel_token=token,
        max_in_flight=1,
        on_sample_done=lambda result: token.cancel() if result.index == 2 else None,
        on_sample_end=ends.append,
    )
    assert sorted(result.index for result in ends) == [0, 1, 2, *range(3, len(ends))]
    assert all(isinstance(result.error, PipelineCancelled) for result in ends if result.index > 2)


def test_the_index_counts_inputs_that_were_skipped(tmp_path: Path) -> None:
    path = tmp_path / "book.db"
    runner = analyser(Roles(), skillbook_path=path)
    runner.run(traces("t", 4)[1:2], once=True)
    seen: dict[str, list[int]] = {"done": [], "end": []}
    results = runner.run(
        traces("t", 4),
        once=True,
        on_sample_done=lambda result: seen["done"].append(result.index),
        on_sample_end=lambda result: seen["end"].append(result.index),
    )
    runner.skillbook.close()
    assert [result.index for result in results] == [0, 1, 2, 3]
    assert sorted(seen["done"]) == sorted(seen["end"]) == [0, 1, 2, 3]


def test_a_runner_over_own_steps_needs_no_subclass() -> None:
    class Listen:
        requires, provides = frozenset({"sample"}), frozenset({"trace"})

        def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
            return ctx.replace(trace={"question": ctx.sample, "answer": ""})

    roles, book = Roles(), Skillbook()
    runner = ACERunner(Pipeline[ACEStepContext]([Listen(), *learning_tail(roles, roles, book, unproven="keep")]), book)
    results = runner.run(["one", "two"], 2, max_in_flight=1)
    assert [result.error for result in results] == [None] * 4
    assert [skill.content for skill in book.skills()][:2] == ["one", "two"]
    with pytest.raises(TypeError, match="'worker'; did you mean 'workers'"):
        runner.run(["one"], worker=3)

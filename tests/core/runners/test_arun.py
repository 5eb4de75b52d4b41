"""`arun`: every runner can be awaited, without a thread for each sample."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext
from ace.environments import EnvironmentResult, Sample
from ace.outputs import AgentOutput, ReflectorOutput, SkillManagerOutput
from ace.pipeline import Pipeline, SampleResult
from ace.protocols.observers import Event, RunEnded, RunStarted, observing
from ace.runners import ACE, ACELiteLLM, ACERunner, IntegrationRunner, TraceAnalyser
from ace.skillbook import Skillbook
from ace.steps import learning_tail
from ace.updates import UpdateBatch, UpdateOperation


class AsyncRoles:
    """All roles and the environment, asynchronous. They note on which loop and with how many threads they ran."""

    def __init__(self, expected: int = 1) -> None:
        self.expected = expected
        self.loops: set[asyncio.AbstractEventLoop] = set()
        self.waiting = 0
        self.threads = 0
        self.everybody: asyncio.Event | None = None

    async def generate(self, *, question: str, **kwargs: Any) -> AgentOutput:
        self.loops.add(asyncio.get_running_loop())
        self.everybody = self.everybody or asyncio.Event()
        self.waiting += 1
        if self.waiting == self.expected:
            self.threads = threading.active_count()
            self.everybody.set()
        await self.everybody.wait()
        return AgentOutput(reasoning="r", final_answer=question)

    async def evaluate(self, sample: Any, agent_output: AgentOutput) -> EnvironmentResult:
        self.loops.add(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return EnvironmentResult(f"judged {sample.question}")

    async def reflect(self, *, question: str, **kwargs: Any) -> ReflectorOutput:
        await asyncio.sleep(0)
        return ReflectorOutput(reasoning=question, correct_approach="", key_insight=question)

    async def update_skills(self, *, reflection: ReflectorOutput, **kwargs: Any) -> SkillManagerOutput:
        await asyncio.sleep(0)
        operation = UpdateOperation("ADD", section="s", content=reflection.key_insight)
        return SkillManagerOutput(update=UpdateBatch("", [operation]))


def ace(roles: Any, **options: Any) -> ACE:
    return ACE.from_roles(
        agent=roles,
        reflector=roles,
        skill_manager=roles,
        environment=roles,
        **options,
        unproven="keep",
        learn_without_truth=True,
    )


def samples(count: int) -> list[Sample]:
    return [Sample(f"question {number}") for number in range(count)]


def learned(runner: Any) -> list[str]:
    return [skill.content for skill in runner.skillbook.skills()]


async def told() -> None:
    """Give the loop time to tell a task that it is cancelled, and those that it waits for."""
    for _ in range(50):
        await asyncio.sleep(0)


def test_asynchronous_roles_answer_on_the_loop_of_the_caller() -> None:
    roles = AsyncRoles()
    runner = ace(roles)

    async def main() -> list[SampleResult[ACEStepContext]]:
        results = await runner.arun(samples(5), 2)
        assert roles.loops == {asyncio.get_running_loop()}
        return results

    results = asyncio.run(main())
    assert [result.error for result in results] == [None] * 10
    assert learned(runner)[:5] == [f"question {number}" for number in range(5)]
    [first, *_] = results
    trace: Any = first.output and first.output.trace
    assert trace["feedback"] == "judged question 0"


def test_hundreds_of_samples_wait_on_the_loop_and_not_in_threads() -> None:
    def threads_of(count: int) -> int:
        roles = AsyncRoles(count)
        asyncio.run(ace(roles).arun(samples(count), workers=count))
        return roles.threads

    few, many = threads_of(3), threads_of(300)
    assert many < few + 100  # a loop has up to 32 threads for everything, which begin as needed


def test_every_runner_has_one() -> None:
    roles: Any = AsyncRoles()

    class Shout:
        requires, provides = frozenset({"sample", "skillbook"}), frozenset({"trace"})

        async def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
            await asyncio.sleep(0)
            return ctx.replace(trace={"question": ctx.sample.upper(), "answer": ""})

    class Same:
        requires = provides = frozenset({"trace"})

        def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
            return ctx

    class Shouter(IntegrationRunner):
        execute_step = Shout
        to_trace = Same

    looking_back: dict[str, Any] = {"reflector": roles, "skill_manager": roles}
    book = Skillbook()
    own = ACERunner(Pipeline[ACEStepContext]([Shout(), *learning_tail(roles, roles, book, unproven="keep")]), book)
    shouter = Shouter.from_roles(**looking_back, unproven="keep")
    analyser = TraceAnalyser.from_roles(**looking_back, unproven="keep")

    async def main() -> None:
        await shouter.arun(["a", "b"])
        await analyser.arun([{"question": "t"}], workers=2)
        await own.arun(["x"], epochs=2)

    asyncio.run(main())
    assert learned(shouter) == ["A", "B"] and learned(analyser) == ["t"] and learned(own)[0] == "X"


def test_a_subclass_with_a_run_of_its_own_is_awaited_with_it() -> None:
    class Numbers(ACERunner):
        def run(  # type: ignore[override]  # other inputs
            self, first: int, last: int
        ) -> list[SampleResult[ACEStepContext]]:
            return self._run([f"number {number}" for number in range(first, last)], epochs=1)

        def _build_context(self, item: Any, **kwargs: Any) -> ACEStepContext:
            return super()._build_context(item, **kwargs).replace(trace={"question": item, "answer": ""})

    roles: Any = AsyncRoles()
    book = Skillbook()
    runner: Any = Numbers(Pipeline[ACEStepContext](learning_tail(roles, roles, book, unproven="keep")), book)
    results = asyncio.run(runner.arun(3, last=5))
    assert [result.sample for result in results] == ["number 3", "number 4"]
    assert learned(runner) == ["number 3", "number 4"]


def test_callbacks_are_called_on_the_loop() -> None:
    roles = AsyncRoles()
    runner = ace(roles)
    threads: set[int] = set()

    async def main() -> list[str]:
        events: asyncio.Queue[str] = asyncio.Queue()

        def tell(what: str, result: SampleResult[ACEStepContext]) -> None:
            threads.add(threading.get_ident())
            events.put_nowait(f"{what} {result.index}")

        await runner.arun(
            samples(4),
            max_in_flight=1,
            on_sample_done=lambda result: tell("done", result),
            on_sample_end=lambda result: tell("end", result),
        )
        return [events.get_nowait() for _ in range(events.qsize())]

    events = asyncio.run(main(), debug=True)
    assert sorted(events) == sorted(f"{what} {index}" for what in ("done", "end") for index in range(4))
    assert all(events.index(f"done {index}") < events.index(f"end {index}") for index in range(4))
    assert threads == {threading.get_ident()}


def test_a_cancelled_task_stops_the_run_and_keeps_what_was_learned() -> None:
    class Slow(AsyncRoles):
        def __init__(self) -> None:
            super().__init__()
            self.reflecting = threading.Event()
            self.is_cancelled = threading.Event()

        def two_are_written(self) -> None:
            while len(learned(runner)) < 2:
                time.sleep(0.01)

        async def reflect(self, *, question: str, **kwargs: Any) -> ReflectorOutput:
            if question == "t 2":
                # Several traces are reflected on at once: the first two may not be written yet.
                await asyncio.to_thread(self.two_are_written)
                self.reflecting.set()
                await asyncio.to_thread(self.is_cancelled.wait)
            return await super().reflect(question=question, **kwargs)

    roles: Any = Slow()
    runner = TraceAnalyser.from_roles(reflector=roles, skill_manager=roles, unproven="keep")

    async def main() -> None:
        task = asyncio.create_task(runner.arun([{"question": f"t {number}"} for number in range(50)], workers=1))
        await asyncio.to_thread(roles.reflecting.wait)
        task.cancel()
        await told()  # otherwise, another thread could learn from all the rest before that
        roles.is_cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert learned(runner)[:2] == ["t 0", "t 1"] and len(learned(runner)) < 50
    assert runner.learning_stats["active"] == runner.learning_stats["queued"] == 0


def test_a_cancelled_task_stops_the_run_of_a_subclass_in_its_thread() -> None:
    class Plain(TraceAnalyser):
        def run(self, traces: Iterable[Any], *args: Any, **options: Any) -> list[SampleResult[ACEStepContext]]:
            return super().run(traces, *args, **options)

    roles: Any = AsyncRoles()
    runner = Plain.from_roles(reflector=roles, skill_manager=roles, unproven="keep")

    async def main() -> None:
        seen = asyncio.Event()
        is_cancelled = threading.Event()
        loop = asyncio.get_running_loop()

        def many() -> Iterable[dict[str, str]]:
            for number in range(100):
                if number == 20:
                    loop.call_soon_threadsafe(seen.set)
                    is_cancelled.wait()
                yield {"question": f"t {number}"}

        task = asyncio.create_task(runner.arun(many(), max_in_flight=2))
        await seen.wait()
        task.cancel()
        await told()
        is_cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert "t 1" in learned(runner) and len(learned(runner)) < 100


def test_runs_overlap_on_one_loop() -> None:
    roles = AsyncRoles(expected=6)  # nobody goes on before six agents of three runs are here
    runner = ace(roles)

    async def main() -> None:
        await asyncio.gather(*(runner.arun(samples(2), workers=2) for _ in range(3)))

    asyncio.run(main())
    assert len(learned(runner)) >= 2


def test_the_facade_learns_from_asynchronous_code() -> None:
    roles: Any = AsyncRoles()
    facade = ACELiteLLM(
        Client(),  # type: ignore[arg-type]  # never asked
        agent=roles,
        reflector=roles,
        skill_manager=roles,
        environment=roles,
        unproven="keep",
        learn_without_truth=True,
    )

    async def main() -> list[str]:
        ends: list[int] = []
        await facade.alearn(samples(3), on_sample_end=lambda result: ends.append(result.index), workers=2)
        await facade.alearn_from_traces([{"question": "t"}], max_in_flight=1)
        answer = await facade.aask("asked")
        assert await facade.alearn_from_feedback("good", answer=answer)
        assert sorted(ends) == [0, 1, 2]
        return learned(facade)

    assert sorted(asyncio.run(main())) == ["asked", "question 0", "question 1", "question 2", "t"]


class Client:
    """As much of a client as a role looks for."""

    def complete_structured(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no role asks it")


def test_plain_runs_work_inside_a_running_loop() -> None:
    roles: Any = AsyncRoles()
    runner = ace(roles)

    async def handler() -> list[SampleResult[ACEStepContext]]:
        return runner.run(samples(3), workers=2)

    assert [result.error for result in asyncio.run(handler())] == [None] * 3
    assert len(learned(runner)) == 3


def test_wait_false_returns_before_everything_is_learned() -> None:
    roles: Any = AsyncRoles()
    runner = ace(roles)

    async def main() -> None:
        results = await runner.arun(samples(3), wait=False, max_in_flight=None)
        assert len(results) == 3

    asyncio.run(main())
    runner.wait_for_background(60)
    assert len(learned(runner)) == 3


def test_the_ends_of_samples_are_told_although_the_loop_has_ended() -> None:
    class Slow(AsyncRoles):
        def __init__(self) -> None:
            super().__init__()
            self.loop_has_ended = threading.Event()

        async def reflect(self, *, question: str, **kwargs: Any) -> ReflectorOutput:
            await asyncio.to_thread(self.loop_has_ended.wait)
            return await super().reflect(question=question, **kwargs)

    roles = Slow()
    runner = ace(roles)
    ends: list[int] = []
    asyncio.run(
        runner.arun(samples(3), wait=False, max_in_flight=None, on_sample_end=lambda result: ends.append(result.index))
    )
    roles.loop_has_ended.set()
    runner.wait_for_background(60)
    assert sorted(ends) == [0, 1, 2]


def test_a_task_that_is_cancelled_while_a_book_is_loaded_leaves_no_run_open(tmp_path: Path) -> None:
    class Slow(AsyncRoles):
        def __init__(self) -> None:
            super().__init__()
            self.may_end = threading.Event()

        async def reflect(self, *, question: str, **kwargs: Any) -> ReflectorOutput:
            await asyncio.to_thread(self.may_end.wait)
            return await super().reflect(question=question, **kwargs)

    def load() -> threading.Thread:
        thread = threading.Thread(target=runner.load, args=(tmp_path / "other.json",), daemon=True)
        thread.start()
        return thread

    roles: Any = Slow()
    runner = TraceAnalyser.from_roles(reflector=roles, skill_manager=roles, unproven="keep")
    runner.save(tmp_path / "other.json")
    runner.run([{"question": "t"}], wait=False)
    loading = load()
    time.sleep(0.1)  # until it waits for the background; before that, a run may start, and nothing is tested

    async def main() -> None:
        task = asyncio.create_task(runner.arun([{"question": "t"}]))
        await asyncio.sleep(0.05)
        task.cancel()
        # If the run started before the book waited, it ends only with its reflection.
        asyncio.get_running_loop().call_later(5, roles.may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        roles.may_end.set()

    asyncio.run(main())
    loading.join(60)
    loading = load()
    loading.join(60)
    assert not loading.is_alive()


def test_a_task_that_is_cancelled_while_its_run_waits_for_another_one_ends_its_run(tmp_path: Path) -> None:
    class Slow(AsyncRoles):
        def __init__(self) -> None:
            super().__init__()
            self.is_reflecting, self.may_end = threading.Event(), threading.Event()

        async def reflect(self, *, question: str, **kwargs: Any) -> ReflectorOutput:
            self.is_reflecting.set()
            await asyncio.to_thread(self.may_end.wait)
            return await super().reflect(question=question, **kwargs)

    roles: Any = Slow()
    runner = TraceAnalyser.from_roles(
        reflector=roles, skill_manager=roles, skillbook_path=tmp_path / "s.db", unproven="keep"
    )
    events: list[Event] = []

    async def main() -> None:
        # With several idle threads, the second run may begin on the thread on which the first one began.
        await asyncio.gather(*(asyncio.to_thread(time.sleep, 0.05) for _ in range(3)))
        first = asyncio.create_task(runner.arun([{"question": "a"}], run_id="monday"))
        await asyncio.to_thread(roles.is_reflecting.wait)
        second = asyncio.create_task(runner.arun([{"question": "b"}], run_id="monday", resume=True))
        await asyncio.sleep(0.05)  # until it waits; before that, it has no run to end
        second.cancel()
        try:
            with pytest.raises(asyncio.CancelledError):
                await second
        finally:
            roles.may_end.set()
        await first

    with observing(events.append):
        asyncio.run(main())  # it waits for the threads of the loop, so for the second run too
    started = [event for event in events if isinstance(event, RunStarted)]
    ended = [event.stopped_by for event in events if isinstance(event, RunEnded)]
    assert sorted(ended) == ["", "interrupted"][: len(started)]
    runner.run([{"question": "b"}], run_id="monday", resume=True)
    assert sorted(learned(runner)) == ["a", "b"]


def test_a_forked_child_leaves_the_runs_to_its_parent() -> None:
    code = """
        import multiprocessing, threading
        from ace.outputs import ReflectorOutput, SkillManagerOutput
        from ace.runners import TraceAnalyser

        class Roles:
            def reflect(self, **kwargs):
                may_reflect.wait()
                return ReflectorOutput(reasoning="", correct_approach="", key_insight="")

            def update_skills(self, **kwargs):
                return SkillManagerOutput(update={"reasoning": "", "operations": []})

        def work():
            runner.wait_for_background()
            print("the child waits for nothing", flush=True)

        may_reflect = threading.Event()
        runner = TraceAnalyser.from_roles(reflector=Roles(), skill_manager=Roles())
        runner.run([{"question": "slow"}], wait=False)
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join(60)
        print("ended:", child.exitcode)
        child.kill()
        may_reflect.set()
        runner.wait_for_background()
        print(runner.learning_stats["completed"])
    """
    # Newer versions of Python warn of any fork beside threads; here those of the engine are what is tested.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code)]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert (run.stdout, run.stderr) == ("the child waits for nothing\nended: 0\n1\n", "")

"""Measures how long learning takes if every model call takes 60 ms, with 1, 3, 16 and 48 workers.

48 recorded traces teach either different lessons or, again and again, the same few rules. The model is a function in
this process that sleeps, so the figures are wall time. With different lessons, every update that was requested ahead is
used. With repeated rules, many have to be requested again, because another trace has taught the rule in the meantime.

In "proven lessons", the traces have right answers that nothing but the lesson gives, and each lesson is proven: the
baseline is the same run without proofs.

Exits 1 if something else was learned than with one worker, or if there were too many calls, never because of time.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from ace.protocols import LLMResponse
from ace.protocols.llm import StructuredAnswer
from ace.runners import TraceAnalyser
from ace.skillbook import Skillbook
from benchmarks.options import add_markdown, add_quick, parser_of
from benchmarks.ratios import Ratio, show
from benchmarks.wrong_result import WrongResult, require

TRACES = 48
WORKERS = (1, 3, 16, 48)
SECONDS = 0.06
RULES = 4
GOAL = 600
"""Milliseconds, for different lessons and 16 workers."""
MOST_OF_PROOFS = 2.5
"""The goal for a run with proofs: its largest time, as a multiple of the time without them."""


def different_lesson(number: int) -> str:
    """Return a lesson that has no word in common with another one."""
    return f"Alpha{number} beta{number} gamma{number} delta{number}."


def right_answer(lesson: str) -> str:
    """Return the answer that a lesson gives."""
    return lesson.split()[1]


def repeated_rule(number: int) -> str:
    """Return one of a few rules."""
    return different_lesson(number % RULES)


class SlowModel:
    """A model that takes its time. It adds the lesson of a trace unless the skillbook in the prompt has it.

    Args:
        lesson: The lesson that each trace teaches.
    """

    def __init__(self, lesson: Callable[[int], str]) -> None:
        self._lesson = lesson
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        raise WrongResult("only structured answers are asked for")

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        found = re.findall(r"case (\d+)\?", prompt)
        require(bool(found), "a prompt does not contain its trace")
        lesson, role = self._lesson(int(found[-1])), response_model.__name__
        with self._lock:
            self.calls[role] += 1
        time.sleep(SECONDS)
        return response_model.model_validate_json(json.dumps(_answer(role, lesson, prompt)))


def _answer(role: str, lesson: str, prompt: str) -> dict[str, object]:
    if role == "ReflectorOutput":
        texts = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach")
        return {**dict.fromkeys(texts, "Read."), "key_insight": lesson}
    if role == "AgentOutput":
        return {"reasoning": "", "final_answer": right_answer(lesson) if lesson in prompt else "Nothing."}
    operation: dict[str, object] = {"type": "ADD", "section": "cases", "content": lesson}
    known = re.findall(rf"\[([\w-]+)\] {re.escape(lesson)}", prompt)
    if known:
        operation = {"type": "TAG", "skill_id": known[-1], "metadata": {"helpful": 1}}
    return {"reasoning": "Taught.", "operations": [operation]}


def learned(
    lesson: Callable[[int], str], workers: int, *, has_truth: bool = False, **options: Any
) -> tuple[Skillbook, Counter[str], float]:
    """Learn from all traces. Returns the skillbook, the calls of each role, and the wall time in milliseconds."""
    model, book = SlowModel(lesson), Skillbook(clock=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    traces: list[dict[str, str]] = []
    for number in range(TRACES):
        truth = {"ground_truth": right_answer(lesson(number))} if has_truth else {}
        traces.append({"question": f"What of case {number}?", "answer": "Nothing.", **truth})
    runner = TraceAnalyser.from_client(model, skillbook=book, **options)
    started = time.perf_counter()
    results = runner.run(traces, workers=workers)
    milliseconds = (time.perf_counter() - started) * 1e3
    failed = [result.error for result in results if result.error is not None]
    require(not failed, f"{len(failed)} traces failed: {failed[:1]}")
    return book, model.calls, milliseconds


def proven(workers: int) -> Ratio:
    """Return the time of a run in which each lesson is proven, beside that of the same run without proofs.

    Raises:
        WrongResult: A lesson is not proven, or there were too many calls.
    """
    _, _, alone = learned(different_lesson, workers, has_truth=True, prove=False)
    book, calls, wall = learned(different_lesson, workers, has_truth=True)
    require([skill.proof for skill in book.skills()] == ["proven"] * TRACES, "not every lesson is proven")
    require(calls["AgentOutput"] == TRACES, f"proven lessons: {calls}")
    what = f"proven lessons, {workers} workers, {calls['AgentOutput']} proofs"
    return Ratio(what, wall, "without proofs", alone, most=MOST_OF_PROOFS if workers == WORKERS[2] else None)


def measured(*, quick: bool) -> list[Ratio]:
    """Return the figures.

    Raises:
        WrongResult: What was learned depends on the number of workers, or there were too many calls.
    """
    rows: list[Ratio] = []
    learned(different_lesson, 48)  # what the first run imports is not measured
    for name, lesson in (("different lessons", different_lesson), ("repeated rules", repeated_rule)):
        serial, _, alone = learned(lesson, 1)
        for workers in WORKERS[1:] if not quick else WORKERS[2:3]:
            book, calls, wall = learned(lesson, workers)
            require(book.dumps() == serial.dumps(), f"{name}: {workers} workers have learned something else")
            again = calls["SkillManagerOutput"] - TRACES
            require(calls["ReflectorOutput"] == TRACES, f"{name}: {calls}")
            require(0 <= again <= (TRACES if lesson is repeated_rule else 0), f"{name}: {again} updates asked again")
            goal = GOAL if workers == 16 and lesson is different_lesson else None
            what = f"{name}, {workers} workers, {again} asked again"
            rows.append(Ratio(what, wall, "one worker", alone, most_measured=goal))
    return [*rows, *(proven(workers) for workers in (WORKERS[1:] if not quick else WORKERS[2:3]))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures, and return the exit status."""
    parser = parser_of("learning_workers", __doc__)
    add_quick(parser, "only 16 workers")
    add_markdown(parser)
    options = parser.parse_args(arguments)
    try:
        rows = measured(quick=options.quick)
    except WrongResult as wrong:
        print(f"WRONG: {wrong}")
        return 1
    show(rows, markdown=options.markdown)
    return 0


if __name__ == "__main__":
    sys.exit(main())

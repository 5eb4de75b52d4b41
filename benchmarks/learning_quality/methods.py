"""The methods that are compared: learning with and without proofs, and what needs no learning at all."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ace.cases import missing_values
from ace.evaluation import Evaluator, JudgedAnswer, SkillTests
from ace.protocols.deduplication import DeduplicationConfig
from ace.protocols.llm import Usage
from ace.protocols.observers import Event, ModelCalled, SkillProven, observing
from ace.protocols.roles import AgentLike, ShowsSkills
from ace.retrieval import LexicalRanker, TopSkills
from ace.roles import SkillManager, agent_for, reflector_for
from ace.runners import LearningOptions, RecordedTrace, RunOptions, TraceAnalyser
from ace.skill import Skill
from ace.skillbook import Skillbook
from benchmarks.learning_quality.cached_client import BenchmarkClient
from benchmarks.learning_quality.outcomes import Learned, Outcome, usage_of
from benchmarks.learning_quality.sets import HeldOutQuestions, LearningSet, corrected_examples

__all__ = ["METHODS", "UPDATE_METHODS", "Bench", "Method", "lost_skills"]

SHOWN_EXAMPLES = 3
"""How many corrected examples raw memory shows, as many as an agent for small models shows skills."""


@dataclass(frozen=True)
class Bench:
    """What all methods share: the model, and how many questions are asked at once."""

    client: BenchmarkClient
    workers: int = 4
    adapter_python: str = sys.executable
    """The Python that has the packages of other methods."""

    def answered(
        self, learning_set: LearningSet, book: Skillbook, agent: AgentLike, retrieval: TopSkills | None = None
    ) -> tuple[JudgedAnswer, ...]:
        """Have the questions of a set answered and judged strictly."""
        evaluator = Evaluator(agent, HeldOutQuestions(), retrieval=retrieval, workers=self.workers)
        return evaluator.evaluate(learning_set.questions, book).answers


RunsMethod = Callable[[Bench, LearningSet, Sequence[RecordedTrace], int], Outcome]


@dataclass(frozen=True)
class Method:
    """One method: its name on the command line, its title in tables, and whether the order of the traces matters."""

    name: str
    title: str
    run: RunsMethod
    depends_on_order: bool = True


def no_skills(bench: Bench, learning_set: LearningSet, traces: Sequence[RecordedTrace], order: int) -> Outcome:
    """Ask without any skill."""
    answers = bench.answered(learning_set, Skillbook(), agent_for(bench.client))
    return Outcome("no-skills", learning_set.name, order, answers, usage_of(answers))


def raw_memory(bench: Bench, learning_set: LearningSet, traces: Sequence[RecordedTrace], order: int) -> Outcome:
    """Show the corrected examples that are most similar to the question, by the ranker that also chooses skills."""
    agent = agent_for(bench.client)
    retrieval = None if isinstance(agent, ShowsSkills) else TopSkills(SHOWN_EXAMPLES, ranker=LexicalRanker())
    answers = bench.answered(learning_set, _book_of_examples(learning_set.traces), agent, retrieval)
    return Outcome("raw-memory", learning_set.name, order, answers, usage_of(answers))


def all_corrections(bench: Bench, learning_set: LearningSet, traces: Sequence[RecordedTrace], order: int) -> Outcome:
    """Show all corrected examples with every question."""
    book = Skillbook()
    # One entry: an agent that shows a few entries only shows it whole.
    book.add_skill("examples", "\n\n".join(example.text for example in corrected_examples(learning_set.traces)))
    answers = bench.answered(learning_set, book, agent_for(bench.client))
    return Outcome("all-corrections", learning_set.name, order, answers, usage_of(answers))


def proven(bench: Bench, learning_set: LearningSet, traces: Sequence[RecordedTrace], order: int) -> Outcome:
    """Learn as `ace learn` does, and answer as `ace eval` does."""
    return _learned(bench, learning_set, traces, order, "proven")


def unproven(bench: Bench, learning_set: LearningSet, traces: Sequence[RecordedTrace], order: int) -> Outcome:
    """Learn without proofs: `ace learn --no-prove`."""
    return _learned(bench, learning_set, traces, order, "unproven", prove=False)


def one_per_call(bench: Bench, learning_set: LearningSet, traces: Sequence[RecordedTrace], order: int) -> Outcome:
    """Learn without proofs, and ask the model for each update, with the standard skill manager."""
    return _learned(bench, learning_set, traces, order, "one-per-call", prove=False, reflections_per_call=1)


def eight_per_call(bench: Bench, learning_set: LearningSet, traces: Sequence[RecordedTrace], order: int) -> Outcome:
    """The same, but ask for the updates of up to eight reflections in one call."""
    return _learned(bench, learning_set, traces, order, "eight-per-call", prove=False, reflections_per_call=8)


METHODS = [
    Method("no-skills", "no skills", no_skills, depends_on_order=False),
    Method("raw-memory", "raw memory: the 3 most similar corrections", raw_memory, depends_on_order=False),
    Method("all-corrections", "all corrections in the prompt", all_corrections, depends_on_order=False),
    Method("unproven", "learning without proofs (`--no-prove`)", unproven),
    Method("proven", "proven skills (`ace learn`)", proven),
]

UPDATE_METHODS = [
    Method("one-per-call", "the standard skill manager, one reflection per call", one_per_call),
    Method("eight-per-call", "the standard skill manager, up to 8 reflections per call", eight_per_call),
]


def _book_of_examples(traces: Sequence[RecordedTrace]) -> Skillbook:
    book = Skillbook()
    for example in corrected_examples(traces):
        book.add_skill("examples", example.text)
    return book


def _learned(
    bench: Bench,
    learning_set: LearningSet,
    traces: Sequence[RecordedTrace],
    order: int,
    method: str,
    *,
    prove: Literal["auto"] | bool = "auto",
    reflections_per_call: int | None = None,
) -> Outcome:
    counts = _CallCounts()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "skills.db"
        with Skillbook.open(path) as book:
            options = LearningOptions(skillbook=book, dedup_config=DeduplicationConfig(enabled=True), prove=prove)
            if reflections_per_call is None:
                analyser = TraceAnalyser.from_client(bench.client, **options)
            else:  # the skill manager for small models makes no calls
                options["reflections_per_call"] = reflections_per_call
                analyser = TraceAnalyser.from_roles(
                    reflector=reflector_for(bench.client),
                    skill_manager=SkillManager(bench.client),
                    **options,
                )
            with observing(counts):
                # With one worker, each reflection sees all earlier updates, so the same answers give the same numbers.
                one_by_one = RunOptions(max_in_flight=1) if bench.workers == 1 else RunOptions()
                results = analyser.run(traces, **one_by_one)
            problems = [f"a trace failed: {result.error!r}" for result in results if result.error is not None]
            skills = book.skills()
            answers = bench.answered(learning_set, book, agent_for(bench.client))
            if book.skills() != skills:
                problems.append("the evaluation has changed the skillbook")
            passing, cases = _own_cases(bench, book)
        with Skillbook.open(path) as reopened:
            problems += lost_skills(skills, reopened.skills())
    learned = Learned(
        calls=counts.total.calls,
        input_tokens=counts.total.input_tokens,
        output_tokens=counts.total.output_tokens,
        traces=len(traces),
        calls_by_role=dict(counts.by_role),
        skills=len(skills),
        proven=sum(skill.proof == "proven" for skill in skills),
        cases=cases,
        cases_passing=passing,
        without_value=sum(any(missing_values(skill.content, case) for case in skill.cases) for skill in skills),
        rolled_back=counts.rolled_back,
        text="\n".join(f"[{skill.id}] {skill.content}" for skill in skills),
    )
    return Outcome(method, learning_set.name, order, answers, usage_of(answers), learned, tuple(problems))


def _own_cases(bench: Bench, book: Skillbook) -> tuple[int, int]:
    """Return how many of the book's own cases pass with the whole book, and how many there are."""
    report = SkillTests(book, agent_for(bench.client), workers=bench.workers).run(note=False)
    return len(report.passed), len(report.cases)


def lost_skills(before: Sequence[Skill], after: Sequence[Skill]) -> list[str]:
    """Return what is wrong with a book that was opened again.

    Args:
        before: Its skills before it was closed.
        after: Its skills when it is opened again.
    """
    found = {skill.id: skill for skill in after}
    lost = [skill.id for skill in before if skill.id not in found]
    changed = [skill.id for skill in before if skill.id in found and found[skill.id] != skill]
    return [
        *([f"the store has lost the skills {', '.join(lost)}"] if lost else []),
        *([f"the store has changed the skills {', '.join(changed)}"] if changed else []),
    ]


class _CallCounts:
    """An observer that adds up the model calls of learning, and the changes that were not kept.

    It may be called from several threads.
    """

    def __init__(self) -> None:
        self.total = Usage()
        self.by_role: Counter[str] = Counter()
        self.rolled_back = 0
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Count a model call."""
        if isinstance(event, ModelCalled):
            with self._lock:
                self.total += Usage(calls=1, input_tokens=event.input_tokens, output_tokens=event.output_tokens)
                self.by_role[event.role] += 1
        elif isinstance(event, SkillProven) and event.reason:
            with self._lock:
                self.rolled_back += 1

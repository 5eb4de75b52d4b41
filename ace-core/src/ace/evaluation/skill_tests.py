"""Tests of a skillbook: the questions of the cases of its skills are asked, and each skill gets a verdict."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, final

from ace._internal.arguments import checked_arguments, checked_class, whole_number
from ace.calls.calling import on_threads
from ace.calls.model_calls import call_scope, current_call_scope
from ace.cases import answer_passes, why_not
from ace.environments import Sample
from ace.evaluation.call_costs import EVALUATION_PREFIX, CallCosts, Spent
from ace.evaluation.evaluation import JudgedAnswer
from ace.evaluation.evaluator import AnswerFile, text_hash
from ace.evaluation.skill_test_report import CaseTest, SkillTestReport, SkillVerdict, Verdict
from ace.pipeline import CancellationToken
from ace.proof import CaseProver
from ace.protocols.errors import RoleError
from ace.protocols.observers import observing
from ace.retrieval import MeaningRanker
from ace.runners.spend import RunLimits
from ace.skill import ACTIVE, CaseResult, Skill, SkillCase
from ace.skillbook import Skillbook

if TYPE_CHECKING:
    from ace.environments import TaskEnvironment
    from ace.protocols.llm import AnyLLMClient
    from ace.protocols.roles import AgentLike, Retrieval

__all__ = ["SkillTestProgress", "SkillTests", "case_samples"]

T = TypeVar("T")
R = TypeVar("R")

_BESIDE: Final = 3
"""The maximum number of skills omitted, one at a time, to find the one that interferes; and, if the agent sees the
whole book, the number of skills on which a case is assumed to depend besides its own."""


class SkillTestProgress(NamedTuple):
    """The progress of a test."""

    answered: int
    """The number of questions answered."""
    planned: int
    """The number of questions known to be needed; it increases when a failing case is investigated."""
    kept: int
    """The number of answers that were in the file."""
    failed: int
    """The number of cases that have failed with the book so far."""


@dataclass(frozen=True, slots=True)
class _CaseAnswer:
    """An answer to the question of a case, or the reason why there is none."""

    answer: str = ""
    passed: bool | None = None
    shown: tuple[str, ...] = ()
    reason: str = ""
    is_error: bool = False
    is_kept: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A case, and the active skills that have it."""

    case: SkillCase
    skills: tuple[Skill, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(skill.id for skill in self.skills)

    @property
    def copies(self) -> list[SkillCase]:
        """The case as each of the skills has it; their recorded results may differ."""
        return [next(case for case in skill.cases if case.id == self.case.id) for skill in self.skills]


@checked_class
@final
class SkillTests:
    """Asks the questions of the cases of a skillbook, and gives a verdict on each skill.

    Each question is asked with the whole book, as in a run: the agent, or the retrieval, chooses the skills shown.

    Args:
        book: The skillbook whose cases are asked.
        agent: The agent that answers; its `generate` may be `async def`.
        retrieval: Chooses the skills that the agent sees, as for `AgentStep`.
        judge: A client that answers the checks of kind `judge`.
        environments: The environments for checks of kind `environment`, by name.
        workers: How many questions are asked at once.
        answers_path: A file that keeps every answer. A question that was asked before with the same skills and the
            same label is not asked again.
        label: What the answers in that file depend on besides cases and skills, such as the model and its settings.
        model: The name of the model, recorded with each result; by default that of the agent's client.
        clock: Returns the time that is recorded with each result; by default the system time.

    Raises:
        ValueError: `workers` is below 1, or the file contains something else.

    Example:
        >>> from ace.outputs import AgentOutput
        >>> from ace.skill import CaseCheck
        >>> class Parrot:
        ...     def generate(self, *, question, context, skillbook, **kwargs):
        ...         return AgentOutput(reasoning="", final_answer=skillbook.skills()[-1].content)
        >>> book = Skillbook()
        >>> skill = book.add_skill("tides", "It is 14h30.")
        >>> kept = book.put_cases(skill.id, [SkillCase.make("When is high water?", CaseCheck("contains", "14h30"))])
        >>> report = SkillTests(book, Parrot()).run()
        >>> [(skill.skill_id, skill.verdict) for skill in report.skills], report.share
        ([('tides-00001', 'proven')], 1.0)
    """

    def __init__(
        self,
        book: Skillbook,
        agent: AgentLike,
        *,
        retrieval: Retrieval | None = None,
        judge: AnyLLMClient | None = None,
        environments: Mapping[str, TaskEnvironment] | None = None,
        workers: int = 1,
        answers_path: str | Path | None = None,
        label: str = "",
        model: str | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        whole_number("workers", workers)
        self.book = book
        self.workers = workers
        self.label = label
        self.prover = CaseProver(agent, judge=judge, environments=environments, retrieval=retrieval)
        self.model = self.prover.model if model is None else model
        self._file = None if answers_path is None else AnswerFile(answers_path)
        self._ranker = MeaningRanker()
        self._clock = clock or (lambda: datetime.now(UTC))

    def cases(self, *, only: Collection[str] | None = None, changed: bool = False) -> list[SkillCase]:
        """Return the cases that a run with the same arguments tests, in the order of their skills. No model is asked.

        Args:
            only: See `run`.
            changed: See `run`.

        Raises:
            ValueError: An id of `only` is unknown.
        """
        return [choice.case for choice in self._chosen(only, changed=changed)]

    def unanswered(
        self,
        *,
        only: Collection[str] | None = None,
        changed: bool = False,
        alone: bool = False,
        without: bool = False,
    ) -> int:
        """Return how many questions a run with the same arguments has to ask, as far as that is known in advance.

        Questions that only a failing case makes necessary are not counted. No model is asked.

        Args:
            only: See `run`.
            changed: See `run`.
            alone: See `run`.
            without: See `run`.

        Raises:
            ValueError: An id of `only` is unknown.
        """
        run = _Run(self, CancellationToken(), None, None)
        chosen = self._chosen(only, changed=changed)
        planned = _planned(chosen, self.book.skills(), alone=alone, without=without)
        return len({run.key(case, skills) for case, skills in planned if run.is_open(case, skills)})

    def run(
        self,
        *,
        only: Collection[str] | None = None,
        changed: bool = False,
        alone: bool = False,
        without: bool = False,
        note: bool = True,
        author: str = "SkillTests",
        max_cost: float | None = None,
        cancel_token: CancellationToken | None = None,
        on_progress: Callable[[SkillTestProgress], None] | None = None,
    ) -> SkillTestReport:
        """Test the skillbook, and record the results in it.

        Args:
            only: The ids of the skills or of the cases to test; by default all active skills.
            changed: Whether to test only cases that did not pass last time, that were not asked with this model, or
                whose own skill, or one shown with it, has changed since. If the agent sees the whole book, the three
                skills that fit the question and the skill best count as shown.
            alone: Whether to ask each question also with only its own skill, which distinguishes a bad skill from one
                with which others interfere. In the latter case, up to three of the shown skills are omitted, one at a
                time, to find the one that interferes.
            without: Whether to ask each question also without any skill. The skills whose cases then all pass are
                omitted together, and all questions asked again; skills without which all pass are `unneeded`.
            note: Whether to write the results into the book: one version for the whole test, none if nothing changed.
            author: The author of that version, for the history.
            max_cost: Stop asking once the answers have cost this much (USD).
            cancel_token: Stops the test; questions that were asked are finished, and results are recorded and reported.
            on_progress: Called after each answer, on any thread, one call at a time.

        Raises:
            ValueError: An id of `only` is unknown, or `max_cost` is not above 0.
            RoleError: The agent takes other arguments, or returned something other than an `AgentOutput`.
        """
        if max_cost is not None and not max_cost > 0:
            raise ValueError(f"max_cost must be more than 0 US dollars, got {max_cost!r}")
        token = CancellationToken() if cancel_token is None else cancel_token
        run = _Run(self, token, max_cost, on_progress)
        # Results have the time of the beginning, so that changes by another process during the test are newer.
        at = self._clock().isoformat("T", "microseconds")
        chosen = self._chosen(only, changed=changed)
        skills = self.book.skills()
        run.plan(len(_planned(chosen, skills, alone=alone, without=without)))
        with run.counted():
            in_book = run.ask_all(chosen, skills, in_book=True)
            tests = {
                choice.case.id: _case_test(choice, answer)
                for choice, answer in zip(chosen, in_book, strict=True)
                if answer
            }
            cures = self._asked_alone(run, chosen, skills, tests) if alone else dict[str, tuple[str, ...]]()
            unneeded = self._unneeded(run, chosen, skills, tests) if without else frozenset[str]()
        is_whole = len(tests) == len(chosen) and not (alone or without)
        return SkillTestReport(
            cases=tuple(
                tests.get(choice.case.id) or _case_test(choice, _CaseAnswer(reason="the test was stopped before"))
                for choice in chosen
            ),
            skills=tuple(
                _verdict(skill, tests, cures.get(skill.id, ()), skill.id in unneeded)
                for skill in _reported(chosen, skills, only, changed=changed)
            ),
            model=self.model,
            spent=run.spent,
            stopped_by="" if is_whole else run.limits.stopped_by,
            is_noted=note and self._note(chosen, in_book, at, author),
        )

    def _chosen(self, only: Collection[str] | None, *, changed: bool) -> list[_Chosen]:
        """Return the cases to test, each once, with all active skills that have it."""
        carriers: dict[str, tuple[SkillCase, list[Skill]]] = {}
        skills = self.book.skills()
        for skill in skills:
            for case in skill.cases:
                carriers.setdefault(case.id, (case, []))[1].append(skill)
        chosen = [_Chosen(case, tuple(holders)) for case, holders in carriers.values()]
        if only is not None:
            known = {*carriers, *(skill.id for skill in skills)}
            for name in only:
                if name not in known:
                    raise ValueError(f"no active skill, and no case of one, has the id {name!r}")
            chosen = [choice for choice in chosen if choice.case.id in only or not set(only).isdisjoint(choice.ids)]
        return [choice for choice in chosen if self._is_changed(choice)] if changed else chosen

    def _is_changed(self, chosen: _Chosen) -> bool:
        """Whether a case has to be asked again, because of changes since it was asked last."""
        case = chosen.case
        if any((copy.last_result, copy.model) != ("passed", self.model) for copy in chosen.copies):
            return True
        everything = self.book.skills(include_invalid=True)
        since = min(_moment(copy.last_run_at) for copy in chosen.copies)
        changed = {skill.id for skill in everything if _moment(skill.updated_at) >= since}
        if not changed:
            return False
        # A skill that was removed since then may have been shown.
        then = [skill.replace(status=ACTIVE) for skill in everything if skill.is_active or skill.id in changed]
        beside = self._shown_beside(case.question, chosen.skills, then)
        return not changed.isdisjoint({*chosen.ids, *(skill.id for skill in beside)})

    def _shown_beside(self, question: str, own: Sequence[Skill], skills: Sequence[Skill]) -> list[Skill]:
        """Return the skills shown with a question besides its own; if all are shown, those most similar to them.

        A skill that contradicts another one is similar to it.
        """
        ids = {skill.id for skill in own}
        if self.prover.chooses:
            return [skill for skill in self.prover.shown(question, skills) if skill.id not in ids]
        texts = [question, *(skill.content for skill in own)]
        scores = [max(several) for several in zip(*(self._ranker(text, skills) for text in texts), strict=True)]
        order = sorted(range(len(skills)), key=lambda place: -scores[place])
        best = [skills[place] for place in order if scores[place] > 0 and skills[place].id not in ids]
        return best[:_BESIDE]

    def _suspects(self, case: SkillCase, own: Skill, skills: Sequence[Skill]) -> list[Skill]:
        """Return the skills that may interfere, the most suspect one first.

        Skills that were changed after the case had passed come first. Then come the most similar and the newest skills
        in turns: a contradiction is similar to what it contradicts, and a case that once passed was broken later.
        """
        shown = [skill for skill in self.prover.shown(case.question, skills) if skill.id != own.id]
        # If times are equal, as with a stopped clock, the later position decides.
        newest = sorted(shown, key=lambda skill: _moment(skill.updated_at))[::-1]
        copy = next((own_case for own_case in own.cases if own_case.id == case.id), case)
        later = [
            skill
            for skill in newest
            if copy.last_result == "passed" and _moment(skill.updated_at) >= _moment(copy.last_run_at)
        ]
        similar = self._shown_beside(case.question, [own], skills)
        turns = [skill for pair in zip_longest(similar, newest) for skill in pair if skill is not None]
        return list({skill.id: skill for skill in (*later[:_BESIDE], *turns)}.values())[:_BESIDE]

    def _asked_alone(
        self, run: _Run, chosen: Sequence[_Chosen], skills: Sequence[Skill], tests: dict[str, CaseTest]
    ) -> dict[str, tuple[str, ...]]:
        """Ask the cases with each of their skills alone; return what interferes, by the id of the affected skill."""
        pairs = [
            (choice.case, skill)
            for choice in chosen
            if choice.case.id in tests and tests[choice.case.id].result != "not_run"
            for skill in choice.skills
        ]
        for (case, skill), answer in zip(pairs, run.each(lambda pair: run.ask(pair[0], [pair[1]]), pairs), strict=True):
            if answer is not None:
                test = tests[case.id]
                tests[case.id] = replace(test, alone={**test.alone, skill.id: answer.passed})
        # Only the first failing case of a skill that passes alone is investigated: each costs up to three answers.
        victims: dict[str, tuple[SkillCase, Skill]] = {}
        for case, skill in pairs:
            if tests[case.id].result == "failed" and tests[case.id].alone.get(skill.id):
                victims.setdefault(skill.id, (case, skill))
        cures = run.each(lambda pair: self._cure(run, *pair, skills), list(victims.values()))
        return {id: (cure,) for id, cure in zip(victims, cures, strict=True) if cure}

    def _cure(self, run: _Run, case: SkillCase, skill: Skill, skills: Sequence[Skill]) -> str:
        """Return the id of the shown skill without which a case passes; empty if none is found."""
        for other in self._suspects(case, skill, skills):
            if run.token.is_cancelled:
                break
            run.plan(1)
            if run.ask(case, [shown for shown in skills if shown.id != other.id]).passed:
                return other.id
        return ""

    def _unneeded(
        self, run: _Run, chosen: Sequence[_Chosen], skills: Sequence[Skill], tests: dict[str, CaseTest]
    ) -> frozenset[str]:
        """Return the skills without which all of their cases pass, and all other cases that were asked.

        They are omitted together, because of two skills with the same rule one can be omitted, but not both. If a case
        fails without them, those that were shown with it are put back. The set only shrinks, so the loop ends.
        """
        asked = [choice for choice in chosen if choice.case.id in tests and tests[choice.case.id].result != "not_run"]
        for choice, answer in zip(asked, run.ask_all(asked, []), strict=True):
            if answer is not None:
                test = tests[choice.case.id]
                tests[choice.case.id] = replace(
                    test, without=answer.passed, answer_without=self.prover.hidden(answer.answer)
                )
        passed = [choice for choice in asked if tests[choice.case.id].result == "passed"]
        bare = {choice.case.id for choice in passed if tests[choice.case.id].without}
        found = {skill.id for skill in skills if skill.cases and all(case.id in bare for case in skill.cases)}
        while found and not run.token.is_cancelled:
            rest = [skill for skill in skills if skill.id not in found]
            run.plan(len(passed))
            answers = run.ask_all(passed, rest)
            broken = [
                choice for choice, answer in zip(passed, answers, strict=True) if answer is None or not answer.passed
            ]
            if not broken:
                return frozenset(found)
            back = {id for choice in broken for id in (*choice.ids, *tests[choice.case.id].shown)} & found
            found -= back or set(found)
        return frozenset()

    def _note(self, chosen: Sequence[_Chosen], answers: Sequence[_CaseAnswer | None], at: str, author: str) -> bool:
        """Write new results into the book. Returns whether there were any."""
        results: dict[str, list[SkillCase]] = {}
        contents = {skill.id: skill.content for choice in chosen for skill in choice.skills}
        for choice, answer in zip(chosen, answers, strict=True):
            if answer is None or answer.passed is None:
                continue
            result = _result_of(answer)
            for skill, case in zip(choice.skills, choice.copies, strict=True):
                if answer.is_kept and (case.last_result, case.model) == (result, self.model):
                    continue  # nothing was asked, so the book already has this result
                noted = self.prover.judged(case, answer.passed, answer.answer)
                results.setdefault(skill.id, []).append(replace(noted, last_run_at=at, model=self.model))
        if results:
            self.book.note_results(results, author=author, contents=contents)
        return bool(results)


@final
class _Run:
    """One run of a test.

    `each` calls the work on threads of its own, from which the work calls `ask` and `plan` concurrently. The lock
    protects the counters and what was spent, and is held while progress is reported, so that reports come in order. It
    is not held while a model is asked.
    """

    def __init__(
        self,
        tests: SkillTests,
        token: CancellationToken,
        max_cost: float | None,
        on_progress: Callable[[SkillTestProgress], None] | None,
    ) -> None:
        self._prover = tests.prover
        self._file = tests._file
        self._label = tests.label
        self._workers = tests.workers
        self._on_progress = on_progress
        self._prefix = f"{EVALUATION_PREFIX}{uuid.uuid4().hex}/"
        self._costs = CallCosts(self._prefix)
        self._lock = threading.Lock()
        self._run_id = current_call_scope().run_id or self._prefix
        self.token = token
        self.limits = RunLimits(self._run_id, token, max_cost, False)
        self._planned = 0
        self.spent = Spent()
        self._answered = self._kept = self._failed = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Sum up what the model calls of the block cost."""
        with observing(self._costs), observing(self.limits.observe):
            yield

    def plan(self, questions: int) -> None:
        """Count questions that are about to be asked."""
        with self._lock:
            self._planned += questions

    def each(self, work: Callable[[T], R], items: Sequence[T]) -> list[R | None]:
        """Do the work for each item, several at once; None for items that had not begun when the test was stopped.

        Raises:
            BaseException: The first error of the work; no further item begins.
        """

        def do(item: T) -> R | None:
            return None if self.token.is_cancelled else work(item)

        if self._workers == 1 or len(items) < 2:
            return [do(item) for item in items]
        return on_threads([partial(do, item) for item in items], self._workers)

    def ask_all(
        self, chosen: Sequence[_Chosen], skills: Sequence[Skill], *, in_book: bool = False
    ) -> list[_CaseAnswer | None]:
        """Ask the questions of several cases with the same skills."""
        return self.each(lambda choice: self.ask(choice.case, skills, in_book=in_book), chosen)

    def ask(self, case: SkillCase, skills: Sequence[Skill], *, in_book: bool = False) -> _CaseAnswer:
        """Ask the question of a case, unless the answer is known or cannot be judged.

        Raises:
            RoleError: The agent takes other arguments, or returned something other than an `AgentOutput`.
        """
        why = self._why_not(case)
        answer = _CaseAnswer(reason=why) if why else self._known(case, skills) or self._asked(case, skills)
        with self._lock:
            self._answered += 1
            self._kept += answer.is_kept
            self._failed += in_book and (answer.passed is False or answer.is_error)
            if self._on_progress is not None:
                self._on_progress(SkillTestProgress(self._answered, self._planned, self._kept, self._failed))
        return answer

    def is_open(self, case: SkillCase, skills: Sequence[Skill]) -> bool:
        """Whether a model has to be asked for an answer."""
        return not self._why_not(case) and self._known(case, skills) is None

    def key(self, case: SkillCase, skills: Sequence[Skill]) -> str:
        """Return a hash of what the answer to the question of a case depends on."""
        return text_hash(self._label, case.id, self._prover.fingerprint(case.question, skills))

    def _why_not(self, case: SkillCase) -> str:
        """Return why no answer to a case could be judged here; empty if one can be."""
        check = case.check
        if check.kind == "environment" and check.value not in self._prover.environments:
            return f"the environment {check.value!r} does not exist"
        return "no judge was given" if check.kind == "judge" and self._prover.judge is None else ""

    def _known(self, case: SkillCase, skills: Sequence[Skill]) -> _CaseAnswer | None:
        kept = None if self._file is None else self._file.find(self.key(case, skills))
        if kept is None:
            return None
        # Judged again if that costs nothing, because the checks may have become stricter.
        passed = answer_passes(case, kept.answer)
        if passed is None:
            passed = kept.is_right
        return _CaseAnswer(
            kept.answer, passed, kept.shown, "" if passed else _why_failed(case, kept.answer), is_kept=True
        )

    def _asked(self, case: SkillCase, skills: Sequence[Skill]) -> _CaseAnswer:
        trace_id = f"{self._prefix}{uuid.uuid4().hex}"
        # Inside a run, the calls count towards that run, but are not recorded for it.
        scope = replace(
            current_call_scope(), run_id=self._run_id, trace_id=trace_id, store=None, answers=None, sample=""
        )
        begun = time.monotonic()
        try:
            with call_scope(scope):
                outcome = self._prover.outcome(case, skills)
        except RoleError:
            raise  # the agent would fail with every case
        except Exception as error:
            self.limits.sample_failed(error)
            return _CaseAnswer(reason=f"{type(error).__name__}: {error}", is_error=True)
        finally:
            spent = self._costs.take(trace_id)
            with self._lock:
                self.spent = self.spent.plus(spent)
        self.limits.model_reached()
        seconds = time.monotonic() - begun
        if outcome.passed is None:
            return _CaseAnswer(outcome.answer, None, outcome.shown, "the answer could not be judged", seconds=seconds)
        if self._file is not None:
            self._file.keep(
                self.key(case, skills),
                JudgedAnswer(
                    sample_id=case.id,
                    question=case.question,
                    correct=float(outcome.passed),
                    answer=outcome.answer,
                    ground_truth=case.expected or None,
                    calls=spent.calls,
                    input_tokens=spent.input_tokens,
                    output_tokens=spent.output_tokens,
                    cached_input_tokens=spent.cached_input_tokens,
                    cache_write_tokens=spent.cache_write_tokens,
                    cost=spent.cost,
                    seconds=seconds,
                    shown=outcome.shown,
                ),
            )
        why_failed = "" if outcome.passed else _why_failed(case, outcome.answer)
        return _CaseAnswer(outcome.answer, outcome.passed, outcome.shown, why_failed, seconds=seconds)


@checked_arguments()
def case_samples(book: Skillbook) -> list[Sample]:
    """Return the cases of the active skills as samples, for evaluations and training; each case once.

    The ground truth is what the check looks for, if that is one text, else the correct answer; judge the answers with
    `SimpleEnvironment("strict")`. Cases with neither are omitted.

    Example:
        >>> from ace.skill import CaseCheck
        >>> book = Skillbook()
        >>> case = SkillCase.make("When is high water?", CaseCheck("contains", "14h30"))
        >>> skill = book.add_skill("tides", "Give times as 14h30.", cases=[case])
        >>> [(sample.question, sample.ground_truth) for sample in case_samples(book)]
        [('When is high water?', '14h30')]
    """
    samples: dict[str, Sample] = {}
    for skill in book.skills():
        for case in skill.cases:
            truth = _ground_truth(case)
            if truth:
                sample = samples.setdefault(
                    case.id, Sample(case.question, case.context, truth, {"skills": []}, id=case.id)
                )
                sample.metadata["skills"].append(skill.id)
    return list(samples.values())


def _ground_truth(case: SkillCase) -> str:
    lines = case.check.value.splitlines()
    is_text = case.check.kind in ("exact", "contains", "numeric", "any_of")
    return lines[0] if is_text and len(lines) == 1 else case.expected


def _reported(
    chosen: Sequence[_Chosen], skills: Sequence[Skill], only: Collection[str] | None, *, changed: bool
) -> list[Skill]:
    """Return the skills to give a verdict on: those of the cases, and requested ones without cases."""
    tested = {id for choice in chosen for id in choice.ids}
    meant = set[str]() if changed else {skill.id for skill in skills} if only is None else set(only)
    return [skill for skill in skills if skill.id in tested or (skill.id in meant and not skill.cases)]


def _planned(
    chosen: Sequence[_Chosen], skills: Sequence[Skill], *, alone: bool, without: bool
) -> list[tuple[SkillCase, Sequence[Skill]]]:
    """Return the questions that are asked in any case, each with its skills."""
    return [
        (choice.case, shown)
        for choice in chosen
        for shown in (skills, *([[skill] for skill in choice.skills] if alone else []), *([[]] if without else []))
    ]


def _result_of(answer: _CaseAnswer) -> CaseResult:
    return "not_run" if answer.passed is None else "passed" if answer.passed else "failed"


def _why_failed(case: SkillCase, answer: str) -> str:
    match case.check.kind:
        case "environment":
            return f"the environment {case.check.value!r} judged it to be wrong"
        case "judge":
            return "the judge rejected it"
        case _:
            said = why_not(case.check, answer, question=case.question, wrong=case.wrong, expected=case.expected)
            return said or "repeats the answer that was wrong"


def _case_test(chosen: _Chosen, answer: _CaseAnswer) -> CaseTest:
    return CaseTest(
        case=chosen.case,
        skill_ids=chosen.ids,
        result=_result_of(answer),
        answer=answer.answer,
        shown=answer.shown,
        reason=answer.reason,
        is_error=answer.is_error,
        is_kept=answer.is_kept,
        seconds=answer.seconds,
    )


def _verdict(
    skill: Skill, tests: Mapping[str, CaseTest], interfering: tuple[str, ...], is_unneeded: bool
) -> SkillVerdict:
    tested = [tests[case.id] for case in skill.cases if case.id in tests]
    # For a case that was not chosen, or not reached, the result in the book counts.
    results = [tests[case.id].result if case.id in tests else case.last_result for case in skill.cases]
    alone = [test.alone[skill.id] for test in tested if skill.id in test.alone]
    verdict, reason = _judged(results, tested, alone, skill.id, is_unneeded)
    if verdict == "interfered":
        others = ", ".join(interfering)
        reason = f"its cases pass without {others}" if others else "omitting one other skill does not help"
    return SkillVerdict(
        skill_id=skill.id,
        section=skill.section,
        content=skill.content,
        verdict=verdict,
        cases=tuple(case.id for case in skill.cases),
        interfering=interfering if verdict == "interfered" else (),
        reason=reason,
    )


def _judged(
    results: Sequence[CaseResult],
    tested: Sequence[CaseTest],
    alone: Sequence[bool | None],
    skill_id: str,
    is_unneeded: bool,
) -> tuple[Verdict, str]:
    """Return the verdict on a skill, and an explanation."""
    if not results:
        return "unproven", "it has no case"
    failed = [test for test in tested if test.result == "failed"]
    if "failed" in results:
        passes_alone = bool(failed) and all(test.alone.get(skill_id) for test in failed)
        is_interfered = passes_alone and len(failed) == results.count("failed")
        return ("interfered", "") if is_interfered else ("failing", "")
    if "not_run" in results:
        why = next((test.reason for test in tested if test.result == "not_run"), "a case was not run")
        return "unproven", why
    if False in alone:
        return "failing", "it passes only together with other skills"
    return ("unneeded", "its cases pass without it") if is_unneeded else ("proven", "")


@lru_cache(maxsize=100_000)  # the same times are compared for each case
def _moment(time: str) -> datetime:
    """Return a recorded time; the earliest possible one if it cannot be parsed, such as one of another framework."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)

"""The final test of a run: cases whose skills have got competition since they were asked are asked once more."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ace.calls.calling import BLOCKING, finished
from ace.calls.model_calls import current_call_scope
from ace.calls.sample_context import stop_if_cancelled
from ace.cases.values import competes, with_example
from ace.pipeline import PipelineCancelled
from ace.proof.prover import CaseOutcome, CaseProver
from ace.protocols.errors import LLMError
from ace.retrieval import MeaningRanker
from ace.skill import Skill, SkillCase, join_cases
from ace.skillbook.store import AlreadyCommittedError, SampleKey
from ace.updates import UpdateBatch, UpdateOperation

if TYPE_CHECKING:
    from ace.skillbook import Skillbook

__all__ = ["FinalTest", "asked_in", "older_cases"]

logger = logging.getLogger(__name__)

_ROUNDS: Final = 2

T = TypeVar("T")


class _Finding(NamedTuple):
    """What a round of the final test leads to for one skill."""

    skill: Skill
    """The skill as it was asked."""
    results: Sequence[SkillCase]
    """Its cases that were asked, with their results."""
    content: str | None = None
    """A new text with which the failed case passes."""


class FinalTest:
    """The last test of a run: what was learned late may break what was learned early.

    A skill whose case fails gets the worked example of that case if the case passes with it; otherwise only the result
    is recorded, and the text stays as it is. A second round asks what has changed by the first.

    Invariant: each round is one version of the book, committed under a key of its own, so that a resumed run continues
    the test at the right round.

    Args:
        prover: Asks the questions.
        book: The skillbook that the run has written.
        asked: The setting in which each case of the run was last asked, by id; empty if it was not asked.
        last_index: The `global_sample_index` of the last sample.
        workers: How many questions are asked at once.
    """

    def __init__(
        self, prover: CaseProver, book: Skillbook, asked: Mapping[str, str], last_index: int, workers: int
    ) -> None:
        self._prover = prover
        self._workers = workers
        self._last_index = last_index
        self._book = book
        self._asked = dict(asked)

    def run(self) -> None:
        """Ask the cases, and add the examples that help; then ask once more what that has changed."""
        for number in range(1, _ROUNDS + 1):
            # After a kill, rounds that are in the store are not repeated, and this one begins with the book they left.
            key = _round_key(number)
            store = self._book.store
            if key is not None and store is not None and store.committed_version(key):
                continue
            if not self._round(key, number):
                return

    def _round(self, key: SampleKey | None, number: int) -> bool:
        """Make one round. Returns whether a text has changed, so that another round is due."""
        skills = self._book.skills()
        outcomes = self._ask(skills)
        asked = [skill for skill in skills if any(case.id in outcomes for case in skill.cases)]
        findings = self._each([partial(self._finding, skill, skills, outcomes) for skill in asked])
        if not findings:
            return False
        # Asking takes minutes, and `end_run` holds no lane: others may have written meanwhile. Compared right before
        # writing.
        kept = self._without_edited(findings)
        changes = [
            UpdateOperation("UPDATE", skill_id=skill.id, content=content, cases=join_cases(skill.cases, results))
            for skill, results, content in kept
            if content is not None
        ]
        unchanged = [finding for finding in kept if finding.content is None]
        note = json.dumps({"final_test": number, "index": self._last_index + number, "cases": self._asked})
        try:
            # One transaction for the results, the new texts and the note that the round is done: a kill leaves all or
            # nothing.
            with self._book.deferred_commits(author="proof"):
                self._book.note_results(
                    {finding.skill.id: finding.results for finding in unchanged},
                    contents={finding.skill.id: finding.skill.content for finding in unchanged},
                )
                batch = UpdateBatch("The final test of the run.", changes)
                self._book.apply_update(batch, author="proof", key=key, progress=None if key is None else note)
        except AlreadyCommittedError as error:
            logger.info("The results of the final test are not written a second time: %s", error)
        return len(kept) < len(findings) or bool(changes)

    def _ask(self, skills: Sequence[Skill]) -> Mapping[str, CaseOutcome]:
        """Ask the cases of a round, except those that were asked in the same setting; two skills may share a case."""
        due: dict[str, tuple[SkillCase, str]] = {}
        for skill in skills:
            for case in skill.cases:
                before = self._asked.get(case.id)
                if before is None or case.id in due or not self._prover.can_judge(case):
                    continue
                seen = self._prover.setting(case, skills)
                if before != seen:
                    due[case.id] = case, seen
        # If a question is cancelled, nothing of the round is recorded, because the loop below does not begin.
        found = self._each([partial(self._outcome, case, skills) for case, _ in due.values()])
        outcomes = {id: outcome for id, outcome in zip(due, found, strict=True) if outcome is not None}
        self._asked |= {id: due[id][1] for id in outcomes}
        return outcomes

    def _finding(self, skill: Skill, skills: Sequence[Skill], outcomes: Mapping[str, CaseOutcome]) -> _Finding:
        """Return the results of the cases of a skill, and a text that helps if one of them has failed."""
        asked = [outcomes[case.id] for case in skill.cases if case.id in outcomes]
        results = [self._prover.judged(outcome.case, outcome.passed, outcome.answer) for outcome in asked]
        failed = next((outcome.case for outcome in asked if outcome.passed is False), None)
        text = skill.content if failed is None else with_example(skill.content, failed)
        if failed is None or text == skill.content or skill.pinned:
            return _Finding(skill, results)
        changed = [skill.replace(content=text) if other.id == skill.id else other for other in skills]
        outcome = self._outcome(failed, changed)
        if outcome is None or not outcome.passed:
            return _Finding(skill, results)
        passed = self._prover.judged(failed, True, outcome.answer)
        self._asked |= {case.id: "" for case in skill.cases if case.id in self._asked and case.id != failed.id}
        self._asked[failed.id] = self._prover.setting(failed, changed)
        return _Finding(skill, [passed], text)

    def _without_edited(self, findings: Sequence[_Finding]) -> list[_Finding]:
        """Remove what concerns skills that a person or another process has changed while the cases were asked.

        The answers say nothing about their new texts, which must not be overwritten; the next round asks with them.
        """
        self._book.refresh()
        kept: list[_Finding] = []
        for finding in findings:
            if _is_unedited(finding.skill, self._book.get_skill(finding.skill.id)):
                kept.append(finding)
                continue
            logger.info("Skill %s was edited during the final test, so its results are ignored", finding.skill.id)
            self._asked |= {case.id: "" for case in finding.skill.cases if case.id in self._asked}
        return kept

    def _outcome(self, case: SkillCase, skills: Sequence[Skill]) -> CaseOutcome | None:
        """Return the outcome of a case now; None if the agent or an environment failed."""
        stop_if_cancelled()
        try:
            return self._prover.outcome(case, skills)
        except (LLMError, PipelineCancelled):
            raise
        except Exception:
            # Agents and environments of users may raise anything, and what the run has learned is already written.
            logger.exception("The final test could not ask %r", case.question)
            return None

    def _each(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """Do the works at once. `end_run` is called on a thread that may block, for `arun` too."""

        async def done(work: Callable[[], T]) -> T:
            return work()

        return finished(BLOCKING.each([partial(done, work) for work in works], self._workers))


def asked_in(book: Skillbook, run_id: str) -> dict[str, str]:
    """Return what the store of a skillbook has recorded about the cases of a run, for a resumed run."""
    if book.store is None or not run_id:
        return {}
    asked: dict[str, str] = {}
    notes = [json.loads(row.note) for row in book.store.progress(run_id)]
    for note in sorted(notes, key=lambda note: note.get("index", 0)):
        asked.update(note.get("cases", {}))
    return asked


def older_cases(prover: CaseProver, skills: Sequence[Skill], asked: Mapping[str, str], most: int) -> dict[str, str]:
    """Return the cases of earlier runs that a skill of this run may have broken, marked as not asked.

    Its proof may have had no call left for them.

    Args:
        prover: Says which skills the agent is shown.
        skills: The skills of the book.
        asked: The cases of the run.
        most: For how many similar skills of each new one.
    """
    found: dict[str, str] = {}
    older = [skill for skill in skills if any(_may_be_broken(case, asked) for case in skill.cases)]
    ranker = MeaningRanker()
    for new in skills:
        if not most or not any(case.id in asked for case in new.cases):
            continue
        for skill in ranker.best(new.content, [other for other in older if other.id != new.id], most):
            for case in skill.cases:
                if (
                    _may_be_broken(case, asked)
                    and new.created_at > case.last_run_at
                    and competes(new.content, case, [skill.content])
                    and any(shown.id == new.id for shown in prover.shown(case.question, skills))
                ):
                    found[case.id] = ""
    return found


def _may_be_broken(case: SkillCase, asked: Mapping[str, str]) -> bool:
    return case.id not in asked and case.last_result == "passed"


def _round_key(number: int) -> SampleKey | None:
    scope = current_call_scope()
    if not (scope.run_id and scope.sample):
        return None
    return SampleKey(scope.run_id, scope.epoch, f"{scope.sample}/proof {number}")


def _is_unedited(asked: Skill, now: Skill | None) -> bool:
    """Return whether a skill still has the text and the cases that were asked."""
    if now is None or not now.is_active or now.content != asked.content:
        return False
    return {case.id for case in asked.cases} <= {case.id for case in now.cases}

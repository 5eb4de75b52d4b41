"""The writing half of a skillbook: what changes its skills."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ace.arguments import checked_arguments, instance_of
from ace.collection_pause import paused_collection
from ace.skill import InsightSource, Skill, SkillCase, join_cases
from ace.skillbook import operations
from ace.skillbook.consolidating import ConsolidatingSkillbook
from ace.skillbook.contents import BookContents, with_citable_ids
from ace.skillbook.errors import EventRefusedError
from ace.skillbook.events import Added, CaseChange, CasesChanged, Imported, Removed, touched_ids
from ace.skillbook.reading import ReadableSkillbook
from ace.skillbook.report import AppliedOperation, SkippedOperation, UpdateReport, without_texts
from ace.updates import UpdateBatch, UpdateOperation

if TYPE_CHECKING:
    from ace.skillbook.store import SampleKey

logger = logging.getLogger(__name__)

_MANY = 5
"""More operations than these with the same reason are logged in one line."""


class WritableSkillbook(ConsolidatingSkillbook):
    """Everything that changes skills. With a store, each call is committed when it returns."""

    @checked_arguments()
    def add_skill(
        self,
        section: str,
        content: str,
        skill_id: str | None = None,
        *,
        metadata: Mapping[str, int] | None = None,
        justification: str | None = None,
        evidence: str | None = None,
        insight_source: InsightSource | None = None,
        cases: Sequence[SkillCase] = (),
    ) -> Skill:
        """Add a skill at the end of its section.

        Args:
            section: The heading under which it stands.
            content: The strategy.
            skill_id: Its id; by default the first word of the section and the next number.
            metadata: Counters to start with, such as `{"helpful": 1}`.
            justification: Why it is added.
            evidence: What supports it.
            insight_source: The trace that taught it.
            cases: The cases that prove it.

        Returns:
            The new skill.

        Raises:
            ValueError: If the content is empty, the id is taken, or a counter is unknown.
        """
        with self._lock:
            at = self._now()
            event = operations.added(
                self._state, at, section, content, skill_id, metadata, justification, evidence, insight_source, cases
            )
            made = self._make(event)
            rebase = self._committed(at)
            new_id = made.skill.id if isinstance(made, Added) else event.skill.id
            for _, reason in rebase.refused:
                raise EventRefusedError(reason)
            return self._state.skills[rebase.renamed.get(new_id, new_id)]

    @checked_arguments()
    def update_skill(
        self,
        skill_id: str,
        *,
        content: str | None = None,
        section: str | None = None,
        metadata: Mapping[str, int] | None = None,
        justification: str | None = None,
        evidence: str | None = None,
        insight_source: InsightSource | None = None,
        cases: Sequence[SkillCase] = (),
    ) -> Skill | None:
        """Change what is given; the rest stays.

        With a new content, the vector goes, and the results of the cases are reset to `not_run`.

        Args:
            skill_id: The skill.
            content: The new strategy.
            section: The section to move it to.
            metadata: What is added to its counters.
            justification: The new justification.
            evidence: The new evidence.
            insight_source: One more trace that taught it.
            cases: Cases that join those of the skill, as long as it has fewer than `MAX_CASES`; a case that was run
                replaces the one with its id. `put_cases` replaces any, and has no limit.

        Returns:
            The skill after the change, or None if there is no such skill.

        Raises:
            ValueError: If the content is empty, or a counter is unknown.
        """
        with self._lock:
            if skill_id not in self._state.skills:
                return None
            at = self._now()
            texts = {
                "section": section,
                "content": content,
                "justification": justification,
                "evidence": evidence,
            }
            self._make(operations.updated(skill_id, at, texts, metadata, insight_source, cases))
            self._committed(at)
            return self._state.skills.get(skill_id)

    def tag_skill(self, skill_id: str, tag: str, increment: int = 1) -> Skill:
        """Raise a counter.

        Args:
            skill_id: The skill.
            tag: `helpful`, `harmful` or `neutral`.
            increment: By how much, from 0.

        Returns:
            The skill after the change.

        Raises:
            ValueError: If there is no such skill or tag.
        """
        with self._lock:
            at = self._now()
            self._make(operations.tagged(skill_id, {tag: increment}, at))
            for _, reason in self._committed(at).refused:
                raise EventRefusedError(reason)
            return self._state.skills[skill_id]

    def remove_skill(self, skill_id: str, soft: bool = False) -> None:
        """Take a skill out; an unknown id is ignored.

        Args:
            skill_id: The skill.
            soft: Whether it stays in the book as `invalid`, and out of every prompt.
        """
        with self._lock:
            if skill_id in self._state.skills:
                at = self._now() if soft or self._binding is not None else ""
                self._make(Removed(skill_id, soft, at))
                self._committed(at)

    @checked_arguments()
    def put_cases(self, skill_id: str, cases: Sequence[SkillCase]) -> Skill | None:
        """Add cases to a skill; one with the id of a case that is there replaces it.

        Args:
            skill_id: The skill.
            cases: The cases, in any number.

        Returns:
            The skill after the change, or None if there is no such skill.

        Raises:
            ValueError: If one of them is not a case, or cannot be kept in a file.

        Example:
            >>> from ace.skill import CaseCheck
            >>> from ace.skillbook import Skillbook
            >>> book = Skillbook()
            >>> skill = book.add_skill("tides", "Give times in the 24-hour form 14h30.")
            >>> case = SkillCase.make("When is high water?", CaseCheck("contains", "14h30"), wrong="2:30 pm")
            >>> book.put_cases(skill.id, [case]).proof
            'unproven'
        """
        with self._lock:
            event = operations.cases_put(skill_id, cases, self._now())
            skill = self._state.skills.get(skill_id)
            if skill is None or join_cases(skill.cases, cases) == skill.cases:
                return skill
            self._make(event)
            for _, reason in self._committed(event.at).refused:
                raise EventRefusedError(reason)
            return self._state.skills.get(skill_id)

    @checked_arguments()
    def remove_cases(self, skill_id: str, ids: Collection[str]) -> Skill | None:
        """Remove cases of a skill; unknown ids are ignored.

        Args:
            skill_id: The skill.
            ids: The ids of the cases.

        Returns:
            The skill after the change, or None if there is no such skill.
        """
        with self._lock:
            skill = self._state.skills.get(skill_id)
            if skill is None:
                return None
            removed = tuple(case.id for case in skill.cases if case.id in ids)
            if removed:
                at = self._now()
                self._make(CasesChanged({skill_id: CaseChange(removed=removed)}, at))
                self._committed(at)
            return self._state.skills.get(skill_id)

    @checked_arguments()
    def note_results(self, results: Mapping[str, Sequence[SkillCase]], author: str = "") -> None:
        """Note what became of cases that were asked: `last_result`, `last_run_at` and `model`, nothing else.

        All results together are one version. If none differs from what is noted, there is no new version. Skills and
        cases that the book lacks are ignored: they may have been removed while the cases were asked. The time of the
        last change of the skills stays.

        Args:
            results: The cases with their results, by skill id.
            author: Who asked them, for the history.

        Raises:
            ValueError: If one of them is not a case, or cannot be kept in a file.

        Example:
            >>> from dataclasses import replace
            >>> from ace.skill import CaseCheck
            >>> from ace.skillbook import Skillbook
            >>> book = Skillbook()
            >>> case = SkillCase.make("2+2?", CaseCheck("numeric", "4"))
            >>> skill = book.add_skill("maths", "Add.", cases=[case])
            >>> book.note_results({skill.id: [replace(case, last_result="passed")]})
            >>> book.get_skill(skill.id).proof
            'proven'
        """
        with self._lock:
            event = operations.results_noted(self._state, results, self._now())
            if not event.changes:
                return
            self._make(event)
            if self._binding is not None and not self._deferring:
                self._commit(event.at, author)

    @checked_arguments()
    def import_skills(self, other: ReadableSkillbook) -> list[Skill]:
        """Add all skills of another book, with their counters, times, sources and cases.

        A skill whose id is taken, or could not be cited in a prompt, gets a new one.

        Returns:
            The skills as they are in this book.
        """
        taken = BookContents(other.skills(include_invalid=True), other.similarity_decisions())
        if not taken.skills:
            return []
        taken = with_citable_ids(taken)
        skills = tuple(taken.skills)
        decisions = tuple((*pair, decision) for pair, decision in taken.decisions.items())
        with self._lock:
            with paused_collection():
                made = self._make(Imported(skills, decisions, other._state.next_id))
            rebase = self._committed(self._now())
            ids = [rebase.renamed.get(id, id) for id in touched_ids(made)]
            return [self._state.skills[id] for id in ids]

    def apply_update(
        self,
        update: UpdateBatch,
        *,
        author: str = "",
        key: SampleKey | None = None,
        progress: str | None = None,
        problem_with: Callable[[UpdateOperation], str | None] | None = None,
    ) -> UpdateReport:
        """Carry out a batch. Each operation is done whole or not at all; one that cannot be done is skipped.

        Args:
            update: The operations.
            author: Who asked for it, for the history.
            key: The sample that the batch belongs to; a store takes each sample once.
            progress: What the run notes about the sample, in the same transaction.
            problem_with: Says why an operation shall be skipped, or returns None. The report and the history then
                keep the reason, without the texts.

        Returns:
            What was applied, and what was skipped and why. Skipped operations are logged as warnings.

        Raises:
            AlreadyCommittedError: If the store has this sample already; nothing is changed then.
            TypeError: If the update is no batch.
        """
        instance_of("update", update, UpdateBatch, advice="UpdateBatch.from_dict reads what a model wrote")
        with self._lock:
            at = self._now()
            applied, skipped = [], []
            for index, operation in enumerate(update.operations):
                problem = None if problem_with is None else problem_with(operation)
                if problem is not None:
                    skipped.append(SkippedOperation(index, without_texts(operation), problem))
                    continue
                try:
                    made = self._make(operations.event_of(self._state, operation, at))
                except EventRefusedError as error:
                    skipped.append(SkippedOperation(index, operation, str(error)))
                else:
                    applied.append(AppliedOperation(index, operation, touched_ids(made)[0]))
            _log_skipped(skipped)
            report = UpdateReport(tuple(applied), tuple(skipped))
            if self._binding is None or (self._deferring and key is None):
                return report
            notes = [item.to_note() for item in skipped]
            rebase = self._commit(at, author, key, progress, notes)
            refused = {id: reason for event, reason in rebase.refused for id in touched_ids(event)}
            return report.with_commit(self._binding.version, rebase.renamed, refused)


def _log_skipped(skipped: Sequence[SkippedOperation]) -> None:
    """Log each operation that was skipped, or their number where the same reason holds for many."""
    by_reason: dict[str, list[SkippedOperation]] = {}
    for item in skipped:
        by_reason.setdefault(item.reason, []).append(item)
    for reason, items in by_reason.items():
        if len(items) > _MANY:
            first, last = items[0].index, items[-1].index
            logger.warning("%d operations, from %d to %d, were skipped: %s", len(items), first, last, reason)
            continue
        for item in items:
            logger.warning("Operation %d (%s) was skipped: %s", item.index, item.operation.type, reason)

"""`Skillbook`: a collection of skills, in memory, in a JSON file or in a store with history."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from ace._internal.arguments import checked_arguments, file_path, instance_of, whole_number
from ace._internal.atomic_file import check_can_write, real_path
from ace._internal.gc_pause import gc_paused
from ace._internal.json_fields import JsonValue
from ace.retrieval import LexicalRanker, MeaningRanker
from ace.skill import InsightSource, SimilarityDecision, Skill, SkillCase, join_cases, similarity_pair
from ace.skillbook import applying, selection
from ace.skillbook.applying import (
    AppliedOperation,
    SkippedOperation,
    UpdateReport,
    check_content,
    check_decision,
    check_function,
    check_names,
    check_note,
    check_removal,
    log_skipped,
    without_texts,
)
from ace.skillbook.errors import EventRefusedError, SkillbookFileError, SkillbookHistoryError
from ace.skillbook.events import (
    Added,
    CaseChange,
    CasesChanged,
    Embedded,
    Event,
    Imported,
    Kept,
    Merged,
    Removed,
    Updated,
    apply_event,
    content_checksum,
    touched_ids,
)
from ace.skillbook.frozen_copy import BookCopies, PromptParts
from ace.skillbook.journal import CommitNote, Journal, Rebase, StoreBinding
from ace.skillbook.json_file import JsonFiles
from ace.skillbook.json_read import read_text
from ace.skillbook.json_write import book_dict, book_json
from ace.skillbook.line_formats import FORMATS
from ace.skillbook.locations import has_scheme
from ace.skillbook.selection import PromptCache, Ranker, SourceSummary, TokenCounter
from ace.skillbook.state import BookContents, BookState, state_from, with_citable_ids
from ace.skillbook.stores import find_store, store_exists, store_place
from ace.skillbook.text_changes import BookMark, TextChanges
from ace.skillbook.vectors import pack_vector
from ace.updates import UpdateBatch, UpdateOperation

if TYPE_CHECKING:
    from ace.skillbook.history import BlameEntry, HistoryEntry, SkillbookDiff
    from ace.skillbook.store import SampleKey, SkillbookStore
    from ace.skillbook.stores import StoreKind

logger = logging.getLogger(__name__)

Clock = Callable[[], datetime]
PromptFormat = Literal["markdown", "xml", "toon", "json"]

TEXT_SUFFIXES = (".md", ".markdown", ".txt")
_NOTHING_MOVED = Rebase()


def system_clock() -> datetime:
    """Return the current system time, in UTC."""
    return datetime.now(UTC)


class Skillbook:
    """A collection of skills. Thread-safe.

    Args:
        clock: Returns the time to record for a change.
        count_tokens: Counts tokens for `as_prompt(budget_tokens=...)`.
        ranker: Scores skills for `as_prompt(query=...)`.

    Example:
        >>> book = Skillbook()
        >>> book.add_skill("geography", "Name the country before the city.").id
        'geography-00001'
        >>> print(book.as_prompt())
        ## geography
        - [geography-00001] Name the country before the city.
    """

    @checked_arguments()
    def __init__(
        self,
        *,
        clock: Clock = system_clock,
        count_tokens: TokenCounter = selection.estimate_tokens,
        ranker: Ranker | None = None,
    ) -> None:
        self._clock = clock
        self._count_tokens = count_tokens
        self._ranker: Ranker = ranker if ranker is not None else MeaningRanker()
        # Protects everything below. It is held while a change is made and committed, so that the journal and the store
        # have the changes of all threads in the same order; a thread that waits for another process keeps the others
        # waiting. Reentrant, because public methods call each other. Locks of files are taken while it is held, never
        # the other way round. Methods that look up one value (`get_skill`, `in`, `len`, `version`) do without it: a
        # lookup in a dict is atomic, and a skill never changes. So do those that only read the history: the store has a
        # lock of its own, and a version never changes.
        self._lock = threading.RLock()
        self._state = BookState()
        self._prompts: dict[str, PromptCache] = {}
        self._rankings: dict[type, selection.Ranking] = {}
        self._copies: BookCopies | None = None
        self._text_changes: TextChanges | None = None
        self._files = JsonFiles()
        self._journal: Journal | None = None
        """The unsaved changes; None for a skillbook that only exists in memory."""
        self._binding: StoreBinding | None = None
        self._store_place: Path | str | None = None
        self._deferring = 0
        """The number of open `deferred_commits` blocks; overlapping runs may end in any order."""

    @classmethod
    @checked_arguments()
    def open(cls, path: str | Path, *, store: SkillbookStore | None = None, clock: Clock = system_clock) -> Skillbook:
        """Open a skillbook, or start a new one if the file does not exist.

        Args:
            path: `.db`, `.sqlite` or `.sqlite3` is a store with history: every change is on disk when the call
                returns. Plugins can add other stores, such as `acme://team/skills`. Anything else is a JSON file,
                which is only written by `save_to_file`.
            store: A custom store to use instead of SQLite; the path is then only a name.
            clock: Returns the time to record for a change.

        Raises:
            SkillbookFileError: If the file is not a skillbook. It is not changed.
            ValueError: If no installed store supports the scheme of the path.
        """
        kind = None if store is not None else find_store(path)
        if kind is not None:
            store = kind.open(str(path))
        book = cls(clock=clock)
        if store is not None:
            book._bind(path, store)
        elif (file := Path(path)).exists():
            book._read(file)
        else:
            book._files.home = real_path(file)
            book._journal = Journal(book._state)
        return book

    @classmethod
    @checked_arguments()
    def load_from_file(cls, path: str | Path) -> Skillbook:
        """Read a skillbook: JSON, a store, or a playbook or Markdown text (`.md`, `.txt`).

        Raises:
            FileNotFoundError: If there is no such file.
            SkillbookFileError: If it is not a skillbook; the error contains the file, the place and the reason.
        """
        file_path("path", path)
        if not has_scheme(path) and not real_path(path).exists():
            raise FileNotFoundError(f"no such skillbook: {str(path)!r}")
        return cls.open(path)

    @classmethod
    def loads(cls, text: str) -> Skillbook:
        """Read a skillbook from the text of a JSON file.

        Raises:
            SkillbookFileError: If it is not a skillbook; the error contains the place and the reason.
        """
        with gc_paused():
            return cls._holding(read_text(text))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Skillbook:
        """Read a skillbook from a dict, as parsed from a JSON file.

        Raises:
            SkillbookFileError: If it is not a skillbook; the error contains the place and the reason.
        """
        try:
            return cls._holding(read_text(json.dumps(data)))
        except (TypeError, RecursionError) as error:
            raise SkillbookFileError(f"not JSON-serializable: {error}") from error

    @classmethod
    @checked_arguments()
    def from_text(cls, text: str, *, clock: Clock = system_clock) -> Skillbook:
        """Read a playbook (`## SECTION`, `[id] helpful=5 harmful=0 :: content`) or Markdown bullets.

        Lines `[Bullet #ID, helpful:5, harmful:0, Aggregated from 3 instances] text` are read too.

        Raises:
            SkillbookFileError: If the text contains no skill, or an id appears twice.
        """
        from ace.skillbook.text_formats import read_text_book  # only needed for text

        return cls._holding(read_text_book(text, clock().isoformat(timespec="microseconds")))

    @checked_arguments()
    def save_to_file(self, path: str | Path, *, merge: bool = False, overwrite: bool = False) -> None:
        """Write the skillbook atomically.

        A new file is readable only by its owner; an existing one keeps its permissions.

        Args:
            path: A JSON file, or a new store (`.db`). An existing store is never replaced.
            merge: Merge with the changes of other writers of a JSON file instead of raising an error: the changes
                since this skillbook was loaded are reapplied to the current file. If this skillbook was not loaded
                from the file, the skills that the file lacks are added to it.
            overwrite: Replace the skillbook in a JSON file, regardless of its contents.

        Raises:
            SkillbookChangedError: If the file has changed since it was read or saved here, or contains a skillbook
                that this one was not loaded from.
            SkillbookFileError: If the file exists and is not a skillbook; it is never overwritten.
            FileExistsError: If the path is a different, existing store.
            ValueError: If both `merge` and `overwrite` are given, or the path has a text suffix such as `.md`.
            OSError: If the file cannot be written; the old file is preserved.

        Example:
            >>> import tempfile
            >>> path = Path(tempfile.mkdtemp()) / "skills.json"
            >>> monday, tuesday = Skillbook(), Skillbook()
            >>> monday.save_to_file(path)
            >>> _ = tuesday.add_skill("geography", "Name the country before the city.")
            >>> tuesday.save_to_file(path)
            Traceback (most recent call last):
            ...
            ace.skillbook.errors.SkillbookChangedError: ...skills.json: this file already contains a skillbook ...
            >>> tuesday.save_to_file(path, merge=True)
        """
        kind = self._kind_to_save(path, merge=merge, overwrite=overwrite)
        # Held until the journal is in step with the file: a change in between would be in neither of them.
        with self._lock:
            if kind is not None:
                self._save_to_store(path)
                return
            path = Path(path)
            if merge:
                at_home = self._binding is None and real_path(path) == self._files.home
                journal = self._journal if at_home and self._journal is not None else Journal(self._state)
                written, refused = self._files.merge(path, self._state, journal)
                for event, reason in refused:
                    logger.warning("A change was not merged into %s: %s: %s", path, event, reason)
                self._in_step(path, written)
            else:
                self._files.write(path, self._state, overwrite=overwrite)
                self._in_step(path, self._state)

    @checked_arguments()
    def check_save(self, path: str | Path, *, merge: bool = False, overwrite: bool = False) -> None:
        """Raise the error that `save_to_file` would raise for a path, without writing anything.

        Call it before paying for results that could not be saved. A later save may still fail, for instance
        because the disk is full by then.

        Args:
            path: The path to save to.
            merge: As for `save_to_file`.
            overwrite: As for `save_to_file`.

        Raises:
            SkillbookError: As `save_to_file` would.
            ValueError: As `save_to_file` would.
            OSError: If the name is too long, the folder is read-only, or the path is a folder.
        """
        kind = self._kind_to_save(path, merge=merge, overwrite=overwrite)
        with self._lock:
            if kind is None:
                self._files.check(Path(path), merge=merge, overwrite=overwrite)
            elif self._binding is not None and store_place(path) == self._store_place:
                self._binding.check_open()
            elif not has_scheme(path):
                if Path(path).exists():
                    raise store_exists(path)
                check_can_write(path)

    @checked_arguments()
    def save_skill_folder(self, folder: str | Path, *, name: str, description: str) -> Path:
        """Write the active skills to the `SKILL.md` of a skill folder for coding agents, and return its path."""
        from ace.skillbook.skill_folders import write_skill_folder  # only needed for text

        return write_skill_folder(folder, self.as_markdown(), name, description)

    def close(self) -> None:
        """Commit deferred changes and release the store; without a store, do nothing.

        Afterwards, the skills can still be read, but not changed.
        """
        with self._lock:  # a change of another thread comes before the commit, or raises an error
            if self._binding is not None and not self._binding.is_closed:
                self.commit()
                self._binding.close()

    def __enter__(self) -> Skillbook:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Reading

    def __len__(self) -> int:
        """Return the number of active skills."""
        return self._state.active_count

    def __bool__(self) -> bool:
        """Return True even for an empty skillbook, so that `skillbook or Skillbook()` does not replace it."""
        return True

    def __iter__(self) -> Iterator[Skill]:
        """Iterate over the active skills as they are now."""
        return iter(self.skills())

    def __contains__(self, skill_id: object) -> bool:
        """Return whether there is a skill with this id, active or not."""
        return skill_id in self._state.skills

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} skills)"

    def get_skill(self, skill_id: str) -> Skill | None:
        """Return the skill with this id, active or not, or None."""
        return self._state.skills.get(skill_id)

    def skills(self, include_invalid: bool = False) -> list[Skill]:
        """Return the skills in the order in which they were added.

        Args:
            include_invalid: Whether to include skills that are not active: pending ones, rejected and soft-removed
                ones, and those that were merged into others.
        """
        with self._lock:
            return list(self._state.ordered_skills().values()) if include_invalid else self._state.active_skills()

    def pending_skills(self) -> list[Skill]:
        """Return the skills that wait for evidence or for a decision, in the order in which they were added."""
        return [skill for skill in self.skills(include_invalid=True) if skill.is_pending]

    def rejected_skills(self) -> list[Skill]:
        """Return the skills that `reject_skill` rejected, in the order in which they were added."""
        return [skill for skill in self.skills(include_invalid=True) if skill.is_rejected]

    def sections(self) -> dict[str, list[str]]:
        """Return the ids of the active skills by section, in the order of the skillbook."""
        with self._lock:
            skills = self._state.ordered_skills()
            found = {
                name: [id for id in self._state.sections[name] if skills[id].is_active]
                for name in self._state.ordered_sections()
            }
        return {name: ids for name, ids in found.items() if ids}

    def section_names(self) -> list[str]:
        """Return the names of the sections with active skills, in the order of the skillbook."""
        with self._lock:
            return self._state.active_sections()

    def stats(self) -> dict[str, int | dict[str, int]]:
        """Return the number of sections and active skills, and the sums of their counters."""
        with self._lock:
            helpful, harmful, neutral = self._state.active_counts()
            return {
                "sections": self._state.active_section_count(),
                "skills": self._state.active_count,
                "tags": {"helpful": helpful, "harmful": harmful, "neutral": neutral},
            }

    def judged_count(self) -> int:
        """Return how many active skills were judged helpful or harmful at least once."""
        with self._lock:
            return self._state.judged_count()

    @checked_arguments()
    def as_prompt(
        self,
        budget_tokens: int | None = None,
        query: str | None = None,
        format: PromptFormat = "markdown",
        *,
        count_tokens: TokenCounter | None = None,
        ranker: Ranker | None = None,
    ) -> str:
        """Return the active skills as text for a prompt, each with its id.

        Args:
            budget_tokens: The maximum size of the text, in tokens; the most helpful skills that fit are included.
            query: The question or task. Only the pinned skills and those that fit it are then included, the most
                relevant ones first, without sections.
            format: `markdown`, `xml`, `toon` or `json`.
            count_tokens: Counts the tokens of a text; by default an estimate.
            ranker: Scores skills against the query; by default with a `MeaningRanker`. 0 means that a skill does not
                fit.

        Returns:
            The text; empty if there are no skills, or none fits the query or into the budget.

        Raises:
            ValueError: If the format is unknown or the budget negative.
        """
        if str(format) not in FORMATS:
            raise ValueError(f"format: {format!r} is not a format; use {', '.join(FORMATS)}")
        if budget_tokens is not None:
            whole_number("budget_tokens", budget_tokens, least=0)
        instance_of("query", "" if query is None else query, str)
        check_function("count_tokens", count_tokens)
        check_function("ranker", ranker)
        with self._lock:
            if query is None and budget_tokens is None:
                return self._prompt_cache(format).whole(self._state)
            ranking = None if query is None else self._ranking_of(ranker or self._ranker)
            if query is not None and ranking is not None and budget_tokens is not None:
                return selection.fitting(
                    lambda count: ranking.first(query, count),
                    self._state.active_count,
                    lambda chosen: selection.write_ranked(FORMATS[format], chosen),
                    budget_tokens,
                    count_tokens or self._count_tokens,
                )
            skills = self.skills()
            section_order = self._state.ordered_sections()
        places = {skill.id: place for place, skill in enumerate(skills)}
        order = selection.ranked(skills, query, ranker or self._ranker)

        def write(chosen: Sequence[Skill]) -> str:
            if query is not None:
                return selection.write_ranked(FORMATS[format], chosen)
            return selection.write_by_section(FORMATS[format], section_order, places, chosen)

        if budget_tokens is None:
            return write(order)
        return selection.fitting(
            lambda count: order[:count], len(order), write, budget_tokens, count_tokens or self._count_tokens
        )

    def prompt_parts(self, query: str, budget_tokens: int) -> PromptParts:
        """Return the active skills for the prompt of a large model, as text that hardly changes from call to call.

        Providers charge less for a prefix that they have cached from an earlier prompt. So the skills are in the order
        in which they were added, without their counters, and recent changes form a separate part.

        Args:
            query: The question or task; it is only used if the skills exceed the budget.
            budget_tokens: The maximum size of the skills, in tokens.

        Example:
            >>> book = Skillbook()
            >>> skill = book.add_skill("geography", "Name the country before the city.")
            >>> book.prompt_parts("Where is Nice?", 1000).frozen
            '- [geography-00001] Name the country before the city.'
            >>> skill = book.update_skill(skill.id, content="Name the country last.")
            >>> print(book.prompt_parts("Where is Nice?", 1000).changes)
            The skillbook has changed since. These lines replace those above, or add to them:
            - [geography-00001] Name the country last.
        """
        instance_of("query", query, str)
        whole_number("budget_tokens", budget_tokens, least=0)
        with self._lock:
            if self._copies is None:
                self._copies = BookCopies(self._state)
                self._state.watch = self._skill_changed
            copy = self._copies.current(self.version, self._shown_at)
            return copy.parts(budget_tokens, self._count_tokens, lambda: self._ranked(query))

    @checked_arguments()
    def as_markdown(self, *, sections: Collection[str] | None = None) -> str:
        """Return the active skills as Markdown: a heading for each section, a bullet for each skill.

        Args:
            sections: The names of the sections to include; None includes all.

        Example:
            >>> book = Skillbook()
            >>> _ = book.add_skill("maths", "Check the units.")
            >>> _ = book.add_skill("geography", "Name the country.")
            >>> print(book.as_markdown(sections=["maths"]))
            ## maths
            - [maths-00001] Check the units.
        """
        if sections is None:
            return self.as_prompt(format="markdown")
        check_names("sections", sections)
        with self._lock:
            return self._prompt_cache("markdown").of_sections(self._state, frozenset(sections))

    def as_playbook(self) -> str:
        """Return the active skills as playbook text: `[id] helpful=5 harmful=0 :: content` under headings."""
        from ace.skillbook.text_formats import playbook_text  # only needed for text

        with self._lock:
            return playbook_text(self._state)

    def as_bullets(self) -> str:
        """Return the active skills as `[Bullet #ID, helpful:5, harmful:0] text` lines under headings."""
        from ace.skillbook.text_formats import bullet_lines_text  # only needed for text

        with self._lock:
            return bullet_lines_text(self._state)

    def source_map(self) -> dict[str, list[InsightSource]]:
        """Return the sources of each active skill, by skill id."""
        return selection.source_map(self.skills())

    def source_summary(self) -> SourceSummary:
        """Return the number of active skills learned from each trace, epoch and integration."""
        return selection.source_summary(self.skills())

    @checked_arguments()
    def source_filter(
        self,
        *,
        trace_id: str | None = None,
        sample_question: str | None = None,
        epoch: int | None = None,
        integration: str | None = None,
    ) -> list[Skill]:
        """Return the active skills that have a source matching all given arguments.

        Args:
            trace_id: The complete trace id.
            sample_question: A part of the question; not case-sensitive.
            epoch: The epoch, starting at 1.
            integration: The name of the integration.
        """
        return selection.source_filter(
            self.skills(),
            trace_id=trace_id,
            sample_question=sample_question,
            epoch=epoch,
            integration=integration,
        )

    def get_similarity_decision(self, first_id: str, second_id: str) -> SimilarityDecision | None:
        """Return the decision about a pair of similar skills, given in any order, or None."""
        instance_of("first_id", first_id, str)
        instance_of("second_id", second_id, str)
        return self._state.decisions.get(similarity_pair(first_id, second_id))

    def has_keep_decision(self, first_id: str, second_id: str) -> bool:
        """Return whether it was decided to keep both skills of a pair."""
        decision = self.get_similarity_decision(first_id, second_id)
        return decision is not None and decision.decision == "KEEP"

    def similarity_decisions(self) -> dict[tuple[str, str], SimilarityDecision]:
        """Return all decisions by pair."""
        with self._lock:
            return dict(self._state.decisions)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the skillbook as a dict, which `from_dict` reads."""
        with self._lock:
            return book_dict(self._state)

    def dumps(self) -> str:
        """Return the skillbook as the text of a JSON file; the serialization is deterministic."""
        with self._lock:
            return book_json(self._state)

    # Writing. With a store, each call is committed when it returns.

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
            section: The section, which is used as a heading.
            content: The text of the skill.
            skill_id: The id; by default the first word of the section and the next number.
            metadata: Initial counters, such as `{"helpful": 1}`.
            justification: The reason for adding the skill.
            evidence: The evidence for the skill.
            insight_source: The trace that it was learned from.
            cases: The cases that prove it.

        Returns:
            The new skill.

        Raises:
            ValueError: If the content is empty, the id is taken, or a counter is unknown.
        """
        with self._lock:
            at = self._now()
            event = applying.added(
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
        pinned: bool | None = None,
    ) -> Skill | None:
        """Change the given fields of a skill.

        New content deletes the embedding and resets the results of the cases to `not_run`.

        A pinned skill comes first in every prompt, even if only a few skills fit. Learning, deduplication and
        pruning neither change nor remove it, and `remove_skill` raises an error until it is unpinned.

        Args:
            skill_id: The id of the skill.
            content: The new text.
            section: The section to move it to.
            metadata: Increments of its counters.
            justification: The new justification.
            evidence: The new evidence.
            insight_source: An additional trace that it was learned from.
            cases: Cases to add, while the skill has fewer than `MAX_CASES`; a case with a result replaces an existing
                one with the same id. `put_cases` replaces any case, and has no limit.
            pinned: Whether to pin or unpin the skill.

        Returns:
            The skill after the change, or None if there is no such skill.

        Raises:
            ValueError: If the content is empty, or a counter is unknown.

        Example:
            >>> book = Skillbook()
            >>> first, second = book.add_skill("a", "Sort the list."), book.add_skill("b", "Never delete prod.env.")
            >>> book.update_skill(second.id, pinned=True).pinned
            True
            >>> print(book.as_prompt(budget_tokens=20))
            ## b
            - [b-00002] Never delete prod.env.
        """
        instance_of("skill_id", skill_id, str)
        instance_of("pinned", pinned is not None and pinned, bool)
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
            self._make(applying.updated(skill_id, at, texts, metadata, insight_source, cases, pinned))
            self._committed(at)
            return self._state.skills.get(skill_id)

    def accept_skill(self, skill_id: str) -> Skill:
        """Make a pending or rejected skill active, so that agents are shown it, and return it.

        Raises:
            ValueError: If there is no such skill, or it is neither pending nor rejected.

        Example:
            >>> book = Skillbook()
            >>> lesson = UpdateOperation("ADD", section="a", content="Check the units.", pending="not judged")
            >>> id = book.apply_update(UpdateBatch("", [lesson])).applied[0].skill_id
            >>> len(book), book.accept_skill(id).is_active, len(book)
            (0, True, 1)
        """
        return self._changed(lambda at: applying.accepted(self._state, at, skill_id), skill_id)

    def reject_skill(self, skill_id: str, because: str) -> Skill:
        """Reject a skill, and return it: agents are not shown it, and learning adds no skill that says the same.

        Args:
            skill_id: The id of an active or pending skill.
            because: The reason, which later reflections are shown.

        Raises:
            ValueError: If there is no such skill, it is pinned or has been removed, or the reason is empty.
        """
        return self._changed(lambda at: applying.rejected(self._state, at, skill_id, because), skill_id)

    @checked_arguments()
    def undo_decisions(self, skill_ids: Collection[str]) -> list[Skill]:
        """Undo the last acceptance or rejection of skills, and return them with the status and reason from before.

        Other changes to a skill, such as a new text or counters, are kept. If one of the skills was not
        accepted or rejected, none is changed.

        Raises:
            SkillbookHistoryError: If the skillbook has no store.
            ValueError: If one of the skills was not accepted or rejected, or that was undone already.
        """
        check_names("skill_ids", skill_ids)
        with self._lock:
            ids, at = list(dict.fromkeys(skill_ids)), self._now()
            for event in [
                applying.decision_undone(self._state, at, id, self._bound().before_decision(id)) for id in ids
            ]:
                self._make(event)
            for _, reason in self._committed(at).refused:
                raise EventRefusedError(reason)
            return [self._state.skills[id] for id in ids]

    def _changed(self, event: Callable[[str], Event], skill_id: str) -> Skill:
        """Make the event of a time, and return the skill after it."""
        with self._lock:
            at = self._now()
            self._make(event(at))
            for _, reason in self._committed(at).refused:
                raise EventRefusedError(reason)
            return self._state.skills[skill_id]

    def tag_skill(self, skill_id: str, tag: str, increment: int = 1) -> Skill:
        """Increment a counter of a skill.

        Args:
            skill_id: The id of the skill.
            tag: `helpful`, `harmful` or `neutral`.
            increment: The increment, at least 0.

        Returns:
            The skill after the change.

        Raises:
            ValueError: If there is no such skill or tag.
        """
        instance_of("skill_id", skill_id, str)
        instance_of("tag", tag, str)
        return self._changed(lambda at: applying.tagged(skill_id, {tag: increment}, at), skill_id)

    def remove_skill(self, skill_id: str, soft: bool = False) -> None:
        """Remove a skill; an unknown id is ignored.

        Args:
            skill_id: The id of the skill.
            soft: Whether to keep it in the skillbook as `invalid`, excluded from every prompt.

        Raises:
            ValueError: If the skill is pinned.
        """
        check_removal(skill_id, soft)
        with self._lock:
            if skill_id in self._state.skills:
                at = self._now() if soft or self._binding is not None else ""
                self._make(Removed(skill_id, soft, at))
                for _, reason in self._committed(at).refused:
                    if skill_id in self._state.skills:  # otherwise, another process removed it too
                        raise EventRefusedError(reason)

    @checked_arguments()
    def put_cases(self, skill_id: str, cases: Sequence[SkillCase]) -> Skill | None:
        """Add cases to a skill, or replace those with the same id.

        Args:
            skill_id: The id of the skill.
            cases: The cases; their number is not limited.

        Returns:
            The skill after the change, or None if there is no such skill.

        Raises:
            ValueError: If one of them is not a case or cannot be serialized.

        Example:
            >>> from ace.skill import CaseCheck
            >>> book = Skillbook()
            >>> skill = book.add_skill("tides", "Give times in the 24-hour form 14h30.")
            >>> case = SkillCase.make("When is high water?", CaseCheck("contains", "14h30"), wrong="2:30 pm")
            >>> book.put_cases(skill.id, [case]).proof
            'unproven'
        """
        with self._lock:
            event = applying.cases_put(skill_id, cases, self._now())
            skill = self._state.skills.get(skill_id)
            if skill is None or join_cases(skill.cases, cases) == skill.cases:
                return skill
            self._make(event)
            for _, reason in self._committed(event.at).refused:
                raise EventRefusedError(reason)
            return self._state.skills.get(skill_id)

    @checked_arguments()
    def remove_cases(self, skill_id: str, ids: Collection[str]) -> Skill | None:
        """Remove cases from a skill; unknown ids are ignored.

        Args:
            skill_id: The id of the skill.
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
    def note_results(
        self,
        results: Mapping[str, Sequence[SkillCase]],
        author: str = "",
        *,
        contents: Mapping[str, str] | None = None,
    ) -> None:
        """Record the results of cases: only the fields `last_result`, `last_run_at`, `model` and `answer`.

        All results together form one version, unless none of them changes anything. Skills and cases that no longer
        exist are ignored: they may have been removed while the cases were run. The modification times of the
        skills do not change.

        Args:
            results: The cases with their results, by skill id. A result without a time gets the current time.
            author: The author to record in the history.
            contents: The texts with which the cases were run, by skill id. If the text of a skill has changed since,
                even in another process, its results are ignored: they say nothing about the new text.

        Raises:
            ValueError: If one of them is not a case or cannot be serialized.

        Example:
            >>> from dataclasses import replace
            >>> from ace.skill import CaseCheck
            >>> book = Skillbook()
            >>> case = SkillCase.make("2+2?", CaseCheck("numeric", "4"))
            >>> skill = book.add_skill("maths", "Add.", cases=[case])
            >>> book.note_results({skill.id: [replace(case, last_result="passed")]})
            >>> book.get_skill(skill.id).proof
            'proven'
        """
        instance_of("results", results, Mapping, advice="give the cases of each skill by its id")
        check_note(author)
        with self._lock:
            event = applying.results_noted(self._state, results, self._now(), contents or {})
            if not event.changes:
                return
            self._make(event)
            if self._binding is not None and not self._deferring:
                self._commit(event.at, author)

    @checked_arguments()
    def import_skills(self, other: Skillbook) -> list[Skill]:
        """Add all skills of another skillbook, with their counters, times, sources and cases.

        A skill whose id is taken, or could not be cited in a prompt, gets a new one.

        Returns:
            The imported skills, with their ids in this skillbook.
        """
        instance_of("other", other, Skillbook, advice="Skillbook.load_from_file reads one")
        taken = BookContents(other.skills(include_invalid=True), other.similarity_decisions())
        if not taken.skills:
            return []
        taken = with_citable_ids(taken)
        skills = tuple(taken.skills)
        decisions = tuple((*pair, decision) for pair, decision in taken.decisions.items())
        with self._lock:
            with gc_paused():
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
        """Apply a batch of operations. Each operation is atomic; one that is invalid is skipped.

        Args:
            update: The operations.
            author: The author to record in the history.
            key: The sample that the batch belongs to; a store accepts each sample only once.
            progress: Data that the run records about the sample in the same transaction.
            problem_with: Returns the reason for skipping an operation, or None. The report and the history then
                contain the reason without the texts.

        Returns:
            The applied operations, and the skipped ones with their reasons. Skipped operations are also logged as
            warnings.

        Raises:
            AlreadyCommittedError: If the store already has this sample; nothing is changed.
            TypeError: If the update is not a batch.
        """
        instance_of("update", update, UpdateBatch, advice="UpdateBatch.from_dict reads what a model wrote")
        check_function("problem_with", problem_with)
        check_note(author, key, progress)
        with self._lock:
            at = self._now()
            applied, skipped = [], []
            for index, operation in enumerate(update.operations):
                problem = None if problem_with is None else problem_with(operation)
                if problem is not None:
                    skipped.append(SkippedOperation(index, without_texts(operation), problem))
                    continue
                try:
                    made = self._make(applying.event_of(self._state, operation, at))
                except EventRefusedError as error:
                    skipped.append(SkippedOperation(index, operation, str(error)))
                else:
                    skill_id = touched_ids(made)[0]
                    if (
                        isinstance(made, Updated) and operation.type != "UPDATE"
                    ):  # an ADD of a text that a skill has is an UPDATE of that skill
                        operation = replace(operation, type="UPDATE", skill_id=skill_id)
                    applied.append(AppliedOperation(index, operation, skill_id))
            log_skipped(logger, skipped)
            report = UpdateReport(tuple(applied), tuple(skipped))
            if self._binding is None or (self._deferring and key is None):
                return report
            notes = [item.to_note() for item in skipped]
            rebase = self._commit(at, author, key, progress, notes)
            refused = {id: reason for event, reason in rebase.refused for id in touched_ids(event)}
            return report.with_commit(self._binding.version, at, rebase.renamed, refused)

    # Deduplication: merging skills, keeping pairs apart, and the vectors that are compared

    @checked_arguments()
    def merge_skills(self, keep_id: str, merged_ids: Sequence[str], content: str | None = None) -> Skill:
        """Merge several skills into one.

        Counters are added up, and sources and cases are combined; new content resets the results of the cases to
        `not_run`. The other skills are soft-removed and refer to the remaining one.

        Args:
            keep_id: The id of the skill to keep.
            merged_ids: The ids of the skills to merge into it.
            content: The text of the merged skill; by default, that of the skill to keep.

        Returns:
            The merged skill.

        Raises:
            ValueError: If one of them does not exist or appears twice, or one of `merged_ids` is pinned.
        """
        check_names("merged_ids", merged_ids)
        with self._lock:
            ids = [keep_id, *merged_ids]
            if len(set(ids)) != len(ids):
                raise EventRefusedError(f"a skill cannot be merged with itself: {', '.join(ids)}")
            if content is not None:
                check_content(content)
            for id in ids:
                skill = self._state.skills.get(id)
                if skill is None or not skill.is_active:
                    raise EventRefusedError(f"no active skill {id!r} to merge")
            at = self._now()
            self._make(Merged(keep_id, tuple(merged_ids), content, at))
            for _, reason in self._committed(at).refused:
                raise EventRefusedError(reason)
            return self._state.skills[keep_id]

    def set_similarity_decision(self, first_id: str, second_id: str, decision: SimilarityDecision) -> None:
        """Record a decision about a pair of similar skills.

        Raises:
            ValueError: If one of the skills does not exist, or the similarity is not a number.
        """
        with self._lock:
            self._make(Kept(first_id, second_id, check_decision(decision)))
            self._committed(self._now())

    @checked_arguments()
    def keep_apart(self, first_id: str, second_id: str, *, similarity: float = 0.0, reasoning: str = "") -> None:
        """Record the decision to keep both of two similar skills."""
        self.set_similarity_decision(
            first_id, second_id, SimilarityDecision("KEEP", reasoning, self._now(), similarity)
        )

    def set_embeddings(self, vectors: Mapping[str, Sequence[float] | bytes]) -> None:
        """Store the embeddings of skills; ids that do not exist are ignored.

        Args:
            vectors: Vectors as numbers or as little-endian float32 bytes, by skill id.
        """
        instance_of("vectors", vectors, Mapping, advice="give the vector of each skill by its id")
        with self._lock:
            known = self._state.skills
            with gc_paused():
                rows = tuple(
                    (id, pack_vector(vector), content_checksum(known[id].content))
                    for id, vector in vectors.items()
                    if id in known
                )
                if not rows:
                    return
                self._make(Embedded(rows))
            self._committed(self._now())

    # Commits to the store

    @contextlib.contextmanager
    def deferred_commits(self, *, author: str = "") -> Iterator[None]:
        """Collect changes in memory, so that the tags and operations of one sample are committed together.

        `commit`, or an `apply_update` with a key, writes them as one transaction. The store is not locked in the
        meantime. Remaining changes are committed when the outermost block ends.

        Args:
            author: The author of that last commit, if this is the outermost block.
        """
        check_note(author)
        # The lock is not held within the block, which may call models for minutes. Changes of other threads in the
        # meantime are deferred too, and committed with the next batch.
        with self._lock:
            self._deferring += 1
        try:
            yield
        finally:  # also after an error: the changes are in memory, where other threads have seen them
            with self._lock:
                self._deferring -= 1
                if not self._deferring:
                    self.commit(author=author)

    @property
    def has_uncommitted_changes(self) -> bool:
        """Whether there are changes that are not yet committed to the store; False without a store."""
        return self._binding is not None and self._journal is not None and bool(self._journal.events)

    def commit(self, *, author: str = "", key: SampleKey | None = None, progress: str | None = None) -> None:
        """Write the collected changes as one transaction. Without a store or changes, nothing happens.

        Raises:
            AlreadyCommittedError: If the store already has this sample; the changes are rolled back.
        """
        check_note(author, key, progress)
        with self._lock:
            if self._binding is not None:
                self._commit(self._now(), author, key, progress)

    # History. Without a store, these methods raise SkillbookHistoryError.

    @property
    def store(self) -> SkillbookStore | None:
        """The store of this skillbook, or None.

        Raises:
            SkillbookStoreError: If the skillbook is closed.
        """
        return None if self._binding is None else self._binding.store

    @property
    def version(self) -> int | None:
        """The version of the store that this skillbook is based on, or None."""
        return None if self._binding is None else self._binding.version

    def refresh(self) -> None:
        """Load the changes that other processes have committed to the store; without a store, do nothing."""
        with self._lock:
            if self._binding is not None and self._journal is not None:
                self._binding.catch_up(self._state, self._journal, Rebase())

    @checked_arguments()
    def history(self, after: int = 0) -> list[HistoryEntry]:
        """Return the versions after a given one, oldest first.

        Versions that only store embeddings are omitted; `rollback` and `as_of` accept their numbers too.

        Args:
            after: Only later versions are returned.
        """
        return self._bound().entries(after)

    def mark(self) -> BookMark:
        """Return a mark of the current state, for `changed_since`."""
        with self._lock:
            if self._text_changes is None:
                self._text_changes = TextChanges()
                self._state.watch = self._skill_changed
            return BookMark(self.version, (self._text_changes.count, self._state.order_changes))

    def changed_since(self, mark: BookMark) -> frozenset[str] | None:
        """Return the ids of the skills that were added, removed or reworded since a mark, or None if that is unknown.

        Changes of counters, cases and sources are ignored. After a rollback or thousands of changes, None is returned.

        Args:
            mark: The return value of `mark`; a mark from another process only needs the version.

        Example:
            >>> book = Skillbook()
            >>> before = book.mark()
            >>> skill = book.add_skill("maths", "Check the units.")
            >>> book.changed_since(before)
            frozenset({'maths-00001'})
        """
        instance_of("mark", mark, BookMark, advice="mark() returns one")
        with self._lock:
            if mark.changes is not None and self._text_changes is not None:
                count, order_changes = mark.changes
                return self._text_changes.since(count) if order_changes == self._state.order_changes else None
        return None if mark.version is None else self._bound().rewritten_after(mark.version)

    @checked_arguments()
    def as_of(self, version: int) -> Self:
        """Return an in-memory copy of the skillbook at a version; version 0 is empty."""
        return self._detached(self._bound().state_at(version))

    @checked_arguments()
    def diff(self, first: int, second: int) -> SkillbookDiff:
        """Return the differences between two versions."""
        return self._bound().difference(first, second)

    @checked_arguments()
    def rollback(self, version: int, *, author: str = "") -> int:
        """Restore the skillbook to an earlier version. This creates a new version, so it can be undone.

        Returns:
            The new version.
        """
        check_note(author)
        with self._lock:
            binding = self._bound()
            assert self._journal is not None
            self.commit()
            return binding.roll_back(self._state, self._journal, version, self._now(), author)

    @checked_arguments()
    def blame(self, skill_id: str) -> list[BlameEntry]:
        """Return every change to a skill, oldest first."""
        return self._bound().blame(skill_id)

    # Every change is an event: `_make` applies it to the state, `_commit` writes it to the store. In this order, since
    # the state decides whether an event is possible, and which id a skill gets. If the commit fails, `StoreBinding`
    # undoes the event. In between, only threads that read without the lock can see it.

    def _make(self, event: Event) -> Event:
        """Apply an event, and record it in the journal if there is one."""
        if self._journal is None:
            return apply_event(self._state, event)
        if self._binding is not None:
            self._binding.check_open()
        return self._journal.make(self._state, event)

    def _committed(self, at: str) -> Rebase:
        """Commit at once, unless commits are deferred or there is no store."""
        if self._binding is None or self._deferring:
            return _NOTHING_MOVED
        return self._commit(at)

    def _commit(
        self,
        at: str,
        author: str = "",
        key: SampleKey | None = None,
        progress: str | None = None,
        skipped: Sequence[dict[str, object]] = (),
    ) -> Rebase:
        assert self._binding is not None
        assert self._journal is not None
        note = CommitNote(at, author, key, progress, skipped)
        return self._binding.commit(self._state, self._journal, note)

    # Helpers of the methods above

    @classmethod
    def _holding(cls, contents: BookContents) -> Skillbook:
        book = cls()
        book._state.become(state_from(contents))
        return book

    def _read(self, path: Path) -> None:
        if path.suffix.lower() in TEXT_SUFFIXES:
            from ace.skillbook.text_formats import read_text_file  # only needed for text

            self._state.become(state_from(read_text_file(path, self._now())))
            return
        with gc_paused():
            self._state.become(state_from(self._files.read(path)))
        self._journal = Journal(self._state)

    def _bind(self, location: str | Path, store: SkillbookStore) -> None:
        binding = StoreBinding(store, location)
        try:
            binding.load(self._state)
        except BaseException:  # no one else has the store, so no one else would close it
            binding.close()
            raise
        self._binding = binding
        self._journal = Journal(self._state)
        self._store_place = store_place(location)

    def _save_to_store(self, location: str | Path) -> None:
        if self._binding is not None and store_place(location) == self._store_place:
            self.commit()
            return
        if not has_scheme(location) and Path(location).exists():
            raise store_exists(location)
        with type(self).open(location, clock=self._clock) as copy:
            if copy.version:
                raise store_exists(location)
            copy.import_skills(self)

    def _kind_to_save(self, path: str | Path, *, merge: bool, overwrite: bool) -> StoreKind | None:
        """Return the kind of store to save to, or None for a JSON file; reject invalid arguments."""
        if merge and overwrite:
            raise ValueError("merge=True adds to the file and overwrite=True replaces it; pass only one of them")
        kind = find_store(path)
        if kind is None and Path(path).suffix.lower() in TEXT_SUFFIXES:
            raise ValueError(f"{path}: a skillbook is saved as .json or .db; for text, use as_markdown or as_playbook")
        return kind

    def _in_step(self, path: Path, written: BookState) -> None:
        """If the journal refers to the file, continue from the state that was written to it."""
        if self._binding is None and real_path(path) == self._files.home:
            if written is not self._state:
                self._state.become(written)
            self._journal = Journal(self._state)

    def _detached(self, state: BookState) -> Self:
        book = type(self)(clock=self._clock, count_tokens=self._count_tokens, ranker=self._ranker)
        book._state.become(state)
        return book

    def _bound(self) -> StoreBinding:
        if self._binding is None:
            raise SkillbookHistoryError(
                "this skillbook has no history; use Skillbook.open('skills.db') for one that does"
            )
        return self._binding

    def _prompt_cache(self, format: str) -> PromptCache:
        cache = self._prompts.get(format)
        if cache is None:
            cache = self._prompts[format] = PromptCache(FORMATS[format])
            self._state.watch = self._skill_changed
        return cache

    def _ranking_of(self, ranker: Ranker) -> selection.Ranking | None:
        """Return an index of the book that ranks as the ranker does, or None if the ranker has none."""
        if not isinstance(ranker, LexicalRanker | MeaningRanker):
            return None
        if type(ranker) not in self._rankings:
            self._rankings[type(ranker)] = selection.Ranking(self._state, ranker.index())
            self._state.watch = self._skill_changed
        return self._rankings[type(ranker)]

    def _shown_at(self, version: int) -> BookState:
        assert self._journal is not None
        return self._bound().shown_at(self._state, self._journal, version)

    def _ranked(self, query: str) -> Iterable[Skill]:
        """Return the active skills that fit and the pinned ones, the most relevant ones first."""
        ranking = self._ranking_of(self._ranker)
        return selection.ranked(self.skills(), query, self._ranker) if ranking is None else ranking.all(query)

    def _skill_changed(self, before: Skill | None, after: Skill | None) -> None:
        """Tell the caches about a change. The state calls this in the middle of it, on the thread that has the lock."""
        if self._text_changes is not None:
            self._text_changes.note(before, after)
        for cache in self._prompts.values():
            cache.skill_changed(before, after)
        changed = after if before is None else before
        if changed is not None:
            for ranking in self._rankings.values():
                ranking.skill_changed(changed.id)
        if self._copies is not None:
            self._copies.skill_changed(before, after, self.version)

    def _now(self) -> str:
        return self._clock().isoformat("T", "microseconds")

"""The skills in the prompt of a large model, arranged so that most of the text is the same from call to call.

Providers charge less for a prefix that they have cached from an earlier prompt. So the skills are listed in the order
in which they were added, without their counters, and recent changes follow them.

The text that repeats is the copy of one version of the book, not of a moment of this process: the first version, and
from there every twelfth. Only the book and its version decide what a prompt shows, so a run that was killed and is
resumed sends the requests that it would have sent. A book without versions has its copy rebuilt after twelve changes.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, final

from ace.retrieval import helpfulness
from ace.skill import Skill
from ace.skillbook.errors import SkillbookError
from ace.skillbook.line_formats import plain_line
from ace.skillbook.state import BookState

__all__ = ["BookCopies", "FrozenCopy", "PromptParts", "plain_lines"]

logger = logging.getLogger(__name__)

_INTERVAL: Final = 12
"""The number of versions between two copies, or of changes to a book without versions."""
_MOST_CHANGES: Final = 64
"""With more changes than this, such as after an import, the current skills are written instead of the copy."""
_MANY_AT_ONCE: Final = 1000
"""After more changes than this at once, the order of a copy is sorted again."""
_MOST_CHARACTERS_PER_TOKEN: Final = 8
"""An upper bound for texts of many skills. The tokens of a text that exceeds it are all counted."""
_SHARE_BY_RELEVANCE: Final = 0.05
"""The share of the budget for skills chosen by relevance, if not all fit. The rest is the same for every query."""


class PromptParts(NamedTuple):
    """The skills of a book for one prompt, in the order in which they belong there."""

    frozen: str
    """The part that stays the same from prompt to prompt; empty if there is none."""
    changes: str
    """What has changed since, and takes precedence; empty if nothing has."""
    relevant: str
    """If the book exceeds the budget: the most relevant of the other skills."""

    def __str__(self) -> str:
        """Return all parts as one text."""
        return "\n\n".join(part for part in self if part)


_CHANGES_TITLE: Final = "The skillbook has changed since. These lines replace those above, or add to them:"
_RELEVANT_TITLE: Final = "Further skills of the skillbook that may fit:"


def plain_lines(skills: Sequence[Skill]) -> str:
    """Return skills as lines without counters, one for each.

    Args:
        skills: The skills, in order.

    Example:
        >>> print(plain_lines([Skill("maths-00001", "maths", "Check the units.", helpful=3)]))
        - [maths-00001] Check the units.
    """
    return "\n".join(map(plain_line, skills))


class _Change(NamedTuple):
    """A skill before it was changed."""

    version: int
    """The version of the book when it was changed; the change is part of the next one."""
    id: str
    before: Skill | None
    position: int
    """Its position before the change; not used if the change added the skill."""


class _Choice(NamedTuple):
    """The skills of a copy that a prompt shows."""

    skills: dict[str, Skill]
    """Pinned ones first, else in the order of the copy."""
    is_whole: bool
    """Whether they are all."""
    text: str


@final
class FrozenCopy:
    """The skills of one book at a version that advances only now and then. Not thread-safe.

    The cost of a prompt depends on its own skills and the changed ones, not on the size of the book.

    Args:
        book: The book, as it is now.
        version: The version to copy; None for a book without versions.
        then: The book at that version; by default, the current one.
    """

    def __init__(self, book: BookState, version: int | None, then: BookState | None = None) -> None:
        self._book = book
        self._version = version
        self._skills = dict((then or book).skills)
        self._positions = dict((then or book).positions)
        self._order: list[tuple[bool, float, int, str]] | None = None
        """The active skills, the pinned and then the most helpful ones first; None until it is needed."""
        self._log: list[_Change] = []
        """With versions: the changes that are not in the copy."""
        self._behind: dict[str, None] = {}
        """Without versions: the skills that have changed since the copy."""
        self._differences: dict[str, Skill | None] = {}
        self._unchecked: dict[str, None] = {}
        """The skills whose entries in `_differences` may be outdated."""
        self._choices: dict[int, _Choice] = {}
        self._latest: FrozenCopy | None = None
        """A copy that follows every change, while there are too many for a list of them."""
        if then is not None:
            self._note_differences()

    @staticmethod
    def version_for(version: int) -> int:
        """Return the version whose skills are copied for the prompts of a version.

        Args:
            version: The version of the book.

        Example:
            >>> [FrozenCopy.version_for(version) for version in (0, 1, 2, 12, 13, 14)]
            [0, 1, 1, 1, 13, 13]
        """
        return version - (version - 1) % _INTERVAL if version else 0

    def skill_changed(self, before: Skill | None, after: Skill | None, version: int | None) -> None:
        """Record a change. The book must have a position for the skill, even if it is being removed.

        Args:
            before: The skill before the change; None if there was none.
            after: The skill now; None if it is gone.
            version: The version of the book, which does not include the change yet.
        """
        changed = after if before is None else before
        assert changed is not None
        self._unchecked[changed.id] = None
        if self._version is None:
            self._behind[changed.id] = None
        else:
            self._log.append(_Change(version or 0, changed.id, before, self._book.positions[changed.id]))
        if self._latest is not None:
            self._latest.skill_changed(before, after, None)

    def _note_differences(self) -> None:
        """Note what has changed since the version of the copy."""
        now, positions = self._book.skills, self._book.positions
        for id in dict.fromkeys((*self._skills, *now)):
            before = self._skills.get(id)
            if now.get(id) != before or positions.get(id) != self._positions.get(id):
                self._unchecked[id] = None
                self._log.append(_Change(self._version or 0, id, before, self._positions.get(id, 0)))

    def can_reach(self, version: int) -> bool:
        """Return whether the copy can be moved to the one for a version of the book.

        Args:
            version: The version of the book.
        """
        return self._version is not None and self.version_for(version) >= self._version

    def move(self, version: int | None) -> None:
        """Advance the copy to the one for a version of the book.

        Args:
            version: The version of the book; None if it has none.
        """
        if version is None:
            if len(self._changed()) > _INTERVAL:
                self._follow()
            return
        target = self.version_for(version)
        if target == self._version:
            return
        self._version = target
        passed = dict.fromkeys(change.id for change in self._log if change.version < target)
        self._log = [change for change in self._log if change.version >= target]
        # What a skill was at the new version is what it was before the first later change, or what it is now.
        later: dict[str, tuple[Skill | None, int]] = {}
        for change in self._log:
            later.setdefault(change.id, (change.before, change.position))
        self._take_over(passed, later)

    def _follow(self) -> None:
        """Copy all changes of a book without versions."""
        behind, self._behind = self._behind, {}
        self._take_over(behind, {})

    def _take_over(self, ids: Collection[str], known: Mapping[str, tuple[Skill | None, int]]) -> None:
        """Copy skills and positions from `known`, or else from the book."""
        if not ids:
            return
        if len(ids) > _MANY_AT_ONCE:
            self._order = None
        for id in ids:
            skill, position = known[id] if id in known else (self._book.skills.get(id), self._book.positions.get(id, 0))
            before = self._skills.pop(id, None)
            if before is not None and before.is_active and self._order is not None:
                del self._order[bisect_left(self._order, self._rank(before))]
            if skill is None:
                self._positions.pop(id, None)
            else:
                self._skills[id], self._positions[id] = skill, position
                if skill.is_active and self._order is not None:
                    insort(self._order, self._rank(skill))
            self._unchecked[id] = None
        self._choices.clear()

    def parts(
        self, budget_tokens: int, count_tokens: Callable[[str], int], ranked: Callable[[], Iterable[Skill]]
    ) -> PromptParts:
        """Return the skills for one prompt.

        Args:
            budget_tokens: The maximum size of the text, in tokens.
            count_tokens: Counts the tokens of a text.
            ranked: Yields the active skills, the most relevant ones first.
        """
        changed = self._changed()
        if len(changed) > _MOST_CHANGES:
            if self._latest is None:
                self._latest = FrozenCopy(self._book, None)
            self._latest._follow()
            return self._latest.parts(budget_tokens, count_tokens, ranked)
        self._latest = None
        choice = self._choices.get(budget_tokens)
        if choice is None:
            choice = self._choices[budget_tokens] = self._chosen(budget_tokens, count_tokens)
        copied, is_whole, frozen = choice
        if any(skill is None and id in copied for id, skill in changed.items()):
            # A removed skill must not be sent, even though the text after it is then no longer cached.
            frozen = plain_lines([skill for id, skill in copied.items() if changed.get(id, skill) is not None])
        positions = self._book.positions
        there = [skill for skill in changed.values() if skill is not None]
        there.sort(key=lambda skill: (not skill.pinned, positions[skill.id]))
        changes = f"{_CHANGES_TITLE}\n{plain_lines(there)}" if there else ""
        if is_whole:
            return PromptParts(frozen, changes, "")
        left = int(budget_tokens * _SHARE_BY_RELEVANCE)
        relevant: list[Skill] = []
        for skill in ranked():
            if skill.id in copied or skill.id in changed:
                continue
            left -= count_tokens(plain_line(skill))
            if left < 0:
                break
            relevant.append(skill)
        relevant.sort(key=lambda skill: positions[skill.id])
        further = f"{_RELEVANT_TITLE}\n{plain_lines(relevant)}" if relevant else ""
        return PromptParts(frozen, changes, further)

    def _changed(self) -> dict[str, Skill | None]:
        """Return the current state of each skill whose line differs from the copy; None if it was removed."""
        for id in self._unchecked:
            before, after = self._skills.get(id), self._book.skills.get(id)
            if _shown_as(before) != _shown_as(after):
                self._differences[id] = after if after is not None and after.is_active else None
            else:
                self._differences.pop(id, None)
        self._unchecked.clear()
        return self._differences

    def _chosen(self, budget_tokens: int, count_tokens: Callable[[str], int]) -> _Choice:
        """Return the skills of the copy to show, pinned ones first."""
        if not self._certainly_exceeds(budget_tokens, count_tokens):
            active = self._in_order(skill for skill in self._skills.values() if skill.is_active)
            text = plain_lines(active)
            if count_tokens(text) <= budget_tokens:
                return _Choice({skill.id: skill for skill in active}, True, text)
        if self._order is None:
            self._order = sorted(self._rank(skill) for skill in self._skills.values() if skill.is_active)
        left = int(budget_tokens * (1 - _SHARE_BY_RELEVANCE))
        chosen = []
        for *_, id in self._order:
            left -= count_tokens(f"{plain_line(self._skills[id])}\n")
            if left < 0:
                break
            chosen.append(self._skills[id])
        chosen = self._in_order(chosen)
        return _Choice({skill.id: skill for skill in chosen}, False, plain_lines(chosen))

    def _in_order(self, skills: Iterable[Skill]) -> list[Skill]:
        return sorted(skills, key=lambda skill: (not skill.pinned, self._positions[skill.id]))

    def _certainly_exceeds(self, budget_tokens: int, count_tokens: Callable[[str], int]) -> bool:
        """Return whether a part of the skills already exceeds the budget."""
        some: list[Skill] = []
        characters = 0
        for skill in self._skills.values():
            if skill.is_active:
                some.append(skill)
                characters += len(skill.content)
                if characters > budget_tokens * _MOST_CHARACTERS_PER_TOKEN:
                    return count_tokens(plain_lines(some)) > budget_tokens
        return False

    def _rank(self, skill: Skill) -> tuple[bool, float, int, str]:
        return not skill.pinned, -helpfulness(skill), self._positions[skill.id], skill.id


def _shown_as(skill: Skill | None) -> tuple[str, bool] | None:
    return (skill.content, skill.pinned) if skill is not None and skill.is_active else None


@final
class BookCopies:
    """Keeps the copy for the prompts of one book. Not thread-safe."""

    def __init__(self, book: BookState) -> None:
        self._book = book
        self._copy: FrozenCopy | None = None
        self._order_changes = 0

    def skill_changed(self, before: Skill | None, after: Skill | None, version: int | None) -> None:
        """Record a change; see `FrozenCopy.skill_changed`."""
        if self._copy is not None:
            self._copy.skill_changed(before, after, version)

    def current(self, version: int | None, shown_at: Callable[[int], BookState]) -> FrozenCopy:
        """Return the copy for the version of the book.

        Args:
            version: The version; None if it has none.
            shown_at: Returns the book as prompts showed it at a version.
        """
        copy = self._copy
        if (
            copy is None
            or self._order_changes != self._book.order_changes
            or (version is not None and not copy.can_reach(version))
        ):
            copy = self._copy = self._new(version, shown_at)
            self._order_changes = self._book.order_changes
        copy.move(version)
        return copy

    def _new(self, version: int | None, shown_at: Callable[[int], BookState]) -> FrozenCopy:
        if version is None:
            return FrozenCopy(self._book, None)
        copied = FrozenCopy.version_for(version)
        try:
            return FrozenCopy(self._book, copied, shown_at(copied))
        except SkillbookError as error:
            # Prompts only need the history to be cached for longer, so a damaged one must not stop them.
            logger.warning("Prompts begin with the current skills; an earlier version cannot be read: %s", error)
            return FrozenCopy(self._book, copied)

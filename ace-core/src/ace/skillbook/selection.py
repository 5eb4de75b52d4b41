"""Selects the skills for a prompt, caches their text, and filters skills by source."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from operator import attrgetter, mul
from typing import Final, NamedTuple, final

from ace.retrieval import helpfulness, proven_relevance
from ace.retrieval.lexical import SkillIndex
from ace.skill import InsightSource, Skill
from ace.skillbook.line_formats import LineFormat
from ace.skillbook.state import BookState

TokenCounter = Callable[[str], int]
"""Maps a text to its number of tokens."""

Ranker = Callable[[str, Sequence[Skill]], Sequence[float]]
"""Maps a question and skills to a relevance score for each skill; 0 means not relevant."""

_is_pinned = attrgetter("pinned")
_FIRST_RANKED = 128
_MORE_RANKED = 8
_MANY_CHANGED = 1000
_FIRST_TRY = 16
_LATE_TRIES = 32


_TOKENS_OF_BYTES: Final = (
    (bytes(range(ord("a"), ord("z") + 1)), 0.23),
    (bytes(range(ord("A"), ord("Z") + 1)), 0.46),
    (b"0123456789", 0.79),
    (b"\n", 0.58),
    (b" \t", 0.12),
    (b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", 0.39),
    (bytes(range(0xC2, 0xCA)), 1.12),  # the first bytes of Latin letters beyond ASCII
    (bytes(range(0xCA, 0xE0)), 0.4),  # of Greek, Cyrillic, Arabic and so on
    (bytes(range(0xE0, 0xF0)), 0.89),  # of Chinese, Japanese, Korean and most symbols
    (bytes(range(0xF0, 0xF8)), 2.0),  # of emoji and rare characters
)
"""The average number of tokens per character, by its first byte in UTF-8: halfway between the tokenizers of gpt-4 and
gpt-4o, fitted to prose, code and data."""
_TOKENS_OF_KIND: Final = [tokens for _, tokens in _TOKENS_OF_BYTES]
_KIND_OF_BYTE: Final = bytes(
    next((kind for kind, (members, _) in enumerate(_TOKENS_OF_BYTES) if byte in members), len(_TOKENS_OF_BYTES))
    for byte in range(256)
)
"""The kind of each byte, as a table for `bytes.translate`; all bytes that are not counted share one more kind."""


def estimate_tokens(text: str) -> int:
    """Return an estimate of the number of tokens, without a tokenizer.

    For prose, code, JSON and lists of skills, it is within 20 % of what current tokenizers count. Random characters and
    encoded data may have more tokens. For a hard limit, use the tokenizer of the model.

    Example:
        >>> estimate_tokens("Paris is the capital of France.")
        8
    """
    kinds = text.encode("utf-8", "surrogatepass").translate(_KIND_OF_BYTE)
    tokens: float = sum(map(mul, _TOKENS_OF_KIND, map(kinds.count, range(len(_TOKENS_OF_KIND)))))
    return math.ceil(tokens)


def ranked(skills: Sequence[Skill], query: str | None, ranker: Ranker) -> list[Skill]:
    """Return the pinned skills, then the others, the most relevant and helpful first; ties keep the order of the book.

    With a question, skills that are not relevant to it are left out, unless they are pinned.
    """
    if query is None:
        return _pinned_skills_first(sorted(skills, key=lambda skill: -helpfulness(skill)))
    scores = ranker(query, skills)
    if len(scores) != len(skills):
        raise ValueError(f"the ranker returned {len(scores)} scores for {len(skills)} skills")
    keys = [(-proven_relevance(score, skill), -helpfulness(skill)) for score, skill in zip(scores, skills, strict=True)]
    chosen = [place for place, skill in enumerate(skills) if scores[place] > 0 or skill.pinned]
    return _pinned_skills_first([skills[place] for place in sorted(chosen, key=keys.__getitem__)])


@final
class Ranking:
    """An index of the active skills that ranks them.

    The order is that of `ranked`, but only the requested part of it is computed, and only skills that have changed
    since the last question are indexed again.

    Args:
        state: The book.
        index: An empty index.
    """

    def __init__(self, state: BookState, index: SkillIndex) -> None:
        self._state = state
        self._index = index
        self._pinned: set[str] = set()
        self._order_changes = -1
        self._changed: dict[str, None] = {}

    def skill_changed(self, skill_id: str) -> None:
        """Record that a skill has changed; it is indexed again at the next question."""
        self._changed[skill_id] = None

    def first(self, query: str, count: int) -> list[Skill]:
        """Return the first skills of the order.

        Args:
            query: The question.
            count: The maximum number of skills.
        """
        self._read()
        pinned = self._index.in_order(query, self._pinned) if self._pinned else []
        ids = [*pinned, *(id for id in self._index.best(query, count) if id not in self._pinned)]
        return [self._state.skills[id] for id in ids[:count]]

    def all(self, query: str) -> Iterator[Skill]:
        """Yield the skills in order.

        Args:
            query: The question.
        """
        yielded, count, size = 0, _FIRST_RANKED, self._state.active_count
        while yielded < size:
            found = self.first(query, min(count, size))
            yield from found[yielded:]
            if len(found) < count:
                return
            yielded = len(found)
            count *= _MORE_RANKED

    def _read(self) -> None:
        state = self._state
        if self._order_changes != state.order_changes or len(self._changed) > _MANY_CHANGED:
            active = state.active_skills()
            self._index.hold(active, [state.positions[skill.id] for skill in active])
            self._pinned = {skill.id for skill in active if skill.pinned}
            self._order_changes = state.order_changes
        else:
            for id in self._changed:
                skill = state.skills.get(id)
                self._pinned.discard(id)
                if skill is None or not skill.is_active:
                    self._index.remove(id)
                else:
                    self._index.put(skill, state.positions[id])
                    if skill.pinned:
                        self._pinned.add(id)
        self._changed.clear()


def _pinned_skills_first(skills: list[Skill]) -> list[Skill]:
    """Return the skills in the given order, but pinned ones first."""
    return sorted(skills, key=lambda skill: not skill.pinned) if any(map(_is_pinned, skills)) else skills


def fitting(
    first: Callable[[int], Sequence[Skill]],
    count: int,
    write: Callable[[Sequence[Skill]], str],
    budget_tokens: int,
    count_tokens: TokenCounter,
) -> str:
    """Return the text of as many of the first skills as fit the budget.

    The tokens of the returned text are counted as a whole, so it fits even if the tokenizer merges across lines.

    Args:
        first: Returns the given number of skills, or all if they are fewer, the most important ones first.
        count: The number of all skills.
        write: Formats some of the skills as text.
        budget_tokens: The maximum number of tokens.
        count_tokens: Counts the tokens of a text.

    Returns:
        The text; empty if not even one skill fits.
    """
    fits, too_many, best = 0, count + 1, ""
    attempt = min(count, _FIRST_TRY)
    order = first(attempt)
    while too_many - fits > 1:
        if attempt > len(order):
            order = first(attempt)
        if attempt > len(order):  # there are no more
            count = attempt = len(order)
            too_many = min(too_many, count + 1)
            continue
        text = write(order[:attempt])
        if count_tokens(text) <= budget_tokens:
            fits, best = attempt, text
        else:
            too_many = attempt
        none_failed_yet = too_many > count
        attempt = min(fits * 2, count) if none_failed_yet else (fits + too_many) // 2
    if len(order) < min(fits + _LATE_TRIES, count):
        order = first(fits + _LATE_TRIES)
    chosen = list(order[:fits])
    for skill in order[fits : fits + _LATE_TRIES]:
        text = write([*chosen, skill])
        if count_tokens(text) <= budget_tokens:
            chosen.append(skill)
            best = text
    return best


def write_ranked(format: LineFormat, skills: Sequence[Skill]) -> str:
    """Return the lines of the skills in the given order, without sections."""
    return format.ranked(list(format.lines(skills).values())) if skills else ""


def write_by_section(
    format: LineFormat, sections: Sequence[str], places: Mapping[str, int], skills: Sequence[Skill]
) -> str:
    """Return the lines of the skills by section, in the order of the book, but pinned skills and their sections first.

    Args:
        format: The output format.
        sections: The names of all sections in order.
        places: The place of each skill in the book, by id.
        skills: The skills, in any order.
    """
    members: dict[str, list[Skill]] = {}
    for skill in sorted(skills, key=lambda skill: (not skill.pinned, places[skill.id])):
        members.setdefault(skill.section, []).append(skill)
    texts = [
        format.section(name, format.separator.join(format.lines(members[name]).values()))
        for name in _pinned_first(sections, {skill.section for skill in skills if skill.pinned})
        if name in members
    ]
    return format.book(texts, len(skills)) if skills else ""


def _pinned_first(sections: Iterable[str], pinned: Set[str]) -> list[str]:
    """Return the names of the sections, those with a pinned skill first."""
    return sorted(sections, key=lambda name: name not in pinned) if pinned else list(sections)


@final
class PromptCache:
    """The lines of a prompt by section. After a change, only one line is formatted and one section joined again.

    The lines of a section are in the order in which they are shown, so pinning, which changes that order, clears the
    cache.
    """

    __slots__ = ("_format", "_lines", "_order_changes", "_pending", "_pinned", "_texts", "_whole")

    def __init__(self, format: LineFormat) -> None:
        self._format = format
        self._lines: dict[str, dict[str, str]] | None = None
        self._texts: dict[str, str] = {}
        self._pending: dict[str, None] = {}
        self._pinned: Set[str] = frozenset()
        self._whole: str | None = None
        self._order_changes = 0

    def skill_changed(self, before: Skill | None, after: Skill | None) -> None:
        """Record a changed skill; its line is updated on the next read."""
        self._whole = None
        if self._lines is None:
            return
        if (before is not None and before.pinned) != (after is not None and after.pinned):
            self.clear()
            return
        if after is not None and after.is_active:
            if before is not None and not before.is_active:
                self.clear()  # it returns to the middle of its section
                return
            self._pending[after.id] = None
            self._texts.pop(after.section, None)
        elif before is not None:
            self._pending.pop(before.id, None)
            self._texts.pop(before.section, None)
            lines = self._lines.get(before.section)
            if lines is not None:
                lines.pop(before.id, None)

    def clear(self) -> None:
        """Forget everything."""
        self._lines = None
        self._whole = None
        self._texts = {}
        self._pending = {}

    def whole(self, state: BookState) -> str:
        """Return all active skills, by section; empty if there are none."""
        if self._whole is None or self._order_changes != state.order_changes:
            lines = self._current_lines(state)
            self._whole = self._format.book(self._section_texts(state, lines), state.active_count)
            if not state.active_count:
                self._whole = ""
        return self._whole

    def of_sections(self, state: BookState, names: Set[str]) -> str:
        """Return the active skills of some sections.

        Args:
            state: The book.
            names: The names of the sections.
        """
        lines = self._current_lines(state)
        count = sum(len(lines.get(name, ())) for name in names)
        return self._format.book(self._section_texts(state, lines, names), count) if count else ""

    def _current_lines(self, state: BookState) -> dict[str, dict[str, str]]:
        lines_of = self._format.lines
        skills = state.ordered_skills()
        if self._order_changes != state.order_changes:
            self.clear()
            self._order_changes = state.order_changes
        if self._lines is None:
            self._pinned = {skill.section for skill in skills.values() if skill.pinned and skill.is_active}
            self._lines = {
                name: lines_of(_pinned_skills_first([skills[id] for id in members]))
                for name, members in state.sections.items()
            }
            return self._lines
        for id in self._pending:
            skill = skills[id]
            self._lines.setdefault(skill.section, {}).update(lines_of([skill]))
        self._pending.clear()
        return self._lines

    def _section_texts(
        self, state: BookState, lines: dict[str, dict[str, str]], only: Set[str] | None = None
    ) -> list[str]:
        names = state.ordered_sections(only)
        texts = []
        for name in _pinned_first(names, self._pinned):
            text = self._texts.get(name)
            if text is None:
                members = lines.get(name)
                if not members:
                    continue
                joined = self._format.separator.join(members.values())
                text = self._texts[name] = self._format.section(name, joined)
            texts.append(text)
        return texts


class SourceSummary(NamedTuple):
    """The number of skills learned from each origin."""

    skills_with_source: int
    skills_without_source: int
    by_trace: dict[str, int]
    """Number of skills by trace id, largest first."""
    by_epoch: dict[int, int]
    """Number of skills by epoch, in order."""
    by_integration: dict[str, int]
    """Number of skills by integration, largest first."""


def source_map(skills: Iterable[Skill]) -> dict[str, list[InsightSource]]:
    """Return the sources of each skill that has any, by skill id."""
    return {skill.id: list(skill.sources) for skill in skills if skill.sources}


def source_summary(skills: Iterable[Skill]) -> SourceSummary:
    """Return the number of skills learned from each trace, epoch and integration. A skill counts once for each."""
    traces: Counter[str] = Counter()
    epochs: Counter[int] = Counter()
    integrations: Counter[str] = Counter()
    with_source = without_source = 0
    for skill in skills:
        if skill.sources:
            with_source += 1
        else:
            without_source += 1
        traces.update({source.trace_id for source in skill.sources})
        epochs.update({source.epoch for source in skill.sources})
        integrations.update({source.integration for source in skill.sources})
    return SourceSummary(
        with_source,
        without_source,
        _most_first(traces),
        dict(sorted(epochs.items())),
        _most_first(integrations),
    )


def source_filter(
    skills: Iterable[Skill],
    *,
    trace_id: str | None = None,
    sample_question: str | None = None,
    epoch: int | None = None,
    integration: str | None = None,
) -> list[Skill]:
    """Return the skills that have a source matching all given arguments.

    Args:
        skills: The skills to filter.
        trace_id: The complete trace id.
        sample_question: A part of the question; not case-sensitive.
        epoch: The epoch, starting at 1.
        integration: The name of the integration.
    """

    def fits(source: InsightSource) -> bool:
        return (
            (trace_id is None or source.trace_id == trace_id)
            and (sample_question is None or sample_question.lower() in source.sample_question.lower())
            and (epoch is None or source.epoch == epoch)
            and (integration is None or source.integration == integration)
        )

    return [skill for skill in skills if any(map(fits, skill.sources))]


def _most_first(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

"""The reading half of a skillbook."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal

from ace.arguments import checked_arguments
from ace.retrieval import LexicalRanker
from ace.skill import InsightSource, SimilarityDecision, Skill, similarity_pair
from ace.skillbook import selection, sources
from ace.skillbook.json_write import JsonValue, book_dict, book_json
from ace.skillbook.line_formats import FORMATS
from ace.skillbook.prompt_cache import PromptCache
from ace.skillbook.selection import Ranker, TokenCounter
from ace.skillbook.sources import SourceSummary
from ace.skillbook.state import BookState

Clock = Callable[[], datetime]
PromptFormat = Literal["markdown", "xml", "toon", "json"]


def system_clock() -> datetime:
    """Return the time of the system, in UTC."""
    return datetime.now(UTC)


class ReadableSkillbook:
    """Everything that a skillbook can be asked. All methods may be called from any thread."""

    def __init__(
        self,
        *,
        clock: Clock = system_clock,
        count_tokens: TokenCounter = selection.estimate_tokens,
        ranker: Ranker | None = None,
    ) -> None:
        self._clock = clock
        self._count_tokens = count_tokens
        self._ranker: Ranker = ranker if ranker is not None else LexicalRanker()
        self._lock = threading.RLock()
        self._state = BookState()
        self._prompts: dict[str, PromptCache] = {}

    def __len__(self) -> int:
        """Return the number of active skills."""
        return self._state.active_count

    def __bool__(self) -> bool:
        """Return True, for an empty book too: `skillbook or Skillbook()` must not replace the one that was given."""
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
            include_invalid: Whether softly removed and merged skills are in the list.
        """
        with self._lock:
            return list(self._state.ordered_skills().values()) if include_invalid else self._state.active_skills()

    def sections(self) -> dict[str, list[str]]:
        """Return the ids of the active skills of each section, in the order of the book."""
        with self._lock:
            skills = self._state.ordered_skills()
            found = {
                name: [id for id in self._state.sections[name] if skills[id].is_active]
                for name in self._state.ordered_sections()
            }
        return {name: ids for name, ids in found.items() if ids}

    def stats(self) -> dict[str, int | dict[str, int]]:
        """Return the number of sections and active skills, and the sums of their counters.

        Example:
            >>> ReadableSkillbook().stats()
            {'sections': 0, 'skills': 0, 'tags': {'helpful': 0, 'harmful': 0, 'neutral': 0}}
        """
        skills = self.skills()
        return {
            "sections": len({skill.section for skill in skills}),
            "skills": len(skills),
            "tags": {
                "helpful": sum(skill.helpful for skill in skills),
                "harmful": sum(skill.harmful for skill in skills),
                "neutral": sum(skill.neutral for skill in skills),
            },
        }

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
        """Return the active skills as text for a prompt, each with its id in brackets or fields.

        Args:
            budget_tokens: The most tokens that the text may have; the most helpful skills that fit are in it.
            query: What the prompt is about; the most relevant skills come first then, without sections.
            format: `markdown`, `xml`, `toon` or `json`.
            count_tokens: The tokenizer of the model; by default an estimate that is high for ordinary text.
            ranker: Scores skills against the query; by default their words (BM25).

        Returns:
            The text; empty if there is no skill, or none fits.

        Raises:
            ValueError: If the format is unknown or the budget negative.
        """
        if format not in FORMATS:
            raise ValueError(f"{format!r} is no format; use {', '.join(FORMATS)}")
        if budget_tokens is not None and budget_tokens < 0:
            raise ValueError(f"a budget is a number of tokens from 0, not {budget_tokens}")
        with self._lock:
            if query is None and budget_tokens is None:
                return self._prompt_cache(format).whole(self._state)
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
        return selection.fitting(order, write, budget_tokens, count_tokens or self._count_tokens)

    def as_markdown(self) -> str:
        """Return the active skills as Markdown: a heading for each section, a bullet for each skill."""
        return self.as_prompt(format="markdown")

    def as_playbook(self) -> str:
        """Return the active skills as playbook text: `[id] helpful=5 harmful=0 :: content` under headings."""
        from ace.skillbook.text_formats import playbook_text  # for those who use text

        with self._lock:
            return playbook_text(self._state)

    def source_map(self) -> dict[str, list[InsightSource]]:
        """Return where each active skill was learned, by skill id."""
        return sources.source_map(self.skills())

    def source_summary(self) -> SourceSummary:
        """Return how many active skills each trace, epoch and integration taught."""
        return sources.source_summary(self.skills())

    @checked_arguments()
    def source_filter(
        self,
        *,
        trace_id: str | None = None,
        sample_question: str | None = None,
        epoch: int | None = None,
        integration: str | None = None,
    ) -> list[Skill]:
        """Return the active skills with a source that fits everything given; see `ace.skillbook.sources`."""
        return sources.source_filter(
            self.skills(),
            trace_id=trace_id,
            sample_question=sample_question,
            epoch=epoch,
            integration=integration,
        )

    def get_similarity_decision(self, first_id: str, second_id: str) -> SimilarityDecision | None:
        """Return what was decided about a pair, in any order, or None."""
        return self._state.decisions.get(similarity_pair(first_id, second_id))

    def has_keep_decision(self, first_id: str, second_id: str) -> bool:
        """Return whether the pair was judged to be kept apart."""
        decision = self.get_similarity_decision(first_id, second_id)
        return decision is not None and decision.decision == "KEEP"

    def similarity_decisions(self) -> dict[tuple[str, str], SimilarityDecision]:
        """Return all decisions by pair."""
        with self._lock:
            return dict(self._state.decisions)

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the book as the dict that `from_dict` reads."""
        with self._lock:
            return book_dict(self._state)

    def dumps(self) -> str:
        """Return the book as the text of a JSON file; the same book gives the same bytes."""
        with self._lock:
            return book_json(self._state)

    def _prompt_cache(self, format: str) -> PromptCache:
        cache = self._prompts.get(format)
        if cache is None:
            cache = self._prompts[format] = PromptCache(FORMATS[format])
            self._state.watch = self._skill_changed
        return cache

    def _skill_changed(self, before: Skill | None, after: Skill | None) -> None:
        for cache in self._prompts.values():
            cache.skill_changed(before, after)

    def _now(self) -> str:
        return self._clock().isoformat("T", "microseconds")

"""What deduplication does to a skillbook: merges skills, keeps pairs apart, sets the vectors that it compares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ace.arguments import checked_arguments
from ace.collection_pause import paused_collection
from ace.skill import SimilarityDecision, Skill
from ace.skillbook.changes import content_checksum
from ace.skillbook.committing import CommittingSkillbook
from ace.skillbook.errors import EventRefusedError
from ace.skillbook.events import Embedded, Kept, Merged
from ace.skillbook.input_checks import check_content, check_decision
from ace.skillbook.vectors import pack_vector


class ConsolidatingSkillbook(CommittingSkillbook):
    """What makes fewer skills of many. With a store, each call is committed when it returns."""

    @checked_arguments()
    def merge_skills(self, keep_id: str, merged_ids: Sequence[str], content: str | None = None) -> Skill:
        """Make one skill of several.

        Counters add up, sources and cases join; with a new content, the results of the cases are reset to
        `not_run`. The others are softly removed and point to the one that stays.

        Args:
            keep_id: The skill that stays.
            merged_ids: The skills that it takes over.
            content: The text that says what all of them said; by default its own.

        Returns:
            The skill that stays.

        Raises:
            ValueError: If one of them does not exist or is there twice.
        """
        with self._lock:
            ids = [keep_id, *merged_ids]
            if len(set(ids)) != len(ids):
                raise EventRefusedError(f"a skill cannot be merged with itself: {', '.join(ids)}")
            if content is not None:
                check_content(content)
            for id in ids:
                skill = self._state.skills.get(id)
                if skill is None or not skill.is_active:
                    raise EventRefusedError(f"there is no active skill {id!r} to merge")
            at = self._now()
            self._make(Merged(keep_id, tuple(merged_ids), content, at))
            for _, reason in self._committed(at).refused:
                raise EventRefusedError(reason)
            return self._state.skills[keep_id]

    def set_similarity_decision(self, first_id: str, second_id: str, decision: SimilarityDecision) -> None:
        """Keep what was decided about a pair.

        Raises:
            ValueError: If one of the skills does not exist, or the similarity is no number.
        """
        with self._lock:
            self._make(Kept(first_id, second_id, check_decision(decision)))
            self._committed(self._now())

    @checked_arguments()
    def keep_apart(self, first_id: str, second_id: str, *, similarity: float = 0.0, reasoning: str = "") -> None:
        """Note that two similar skills shall both stay."""
        self.set_similarity_decision(
            first_id, second_id, SimilarityDecision("KEEP", reasoning, self._now(), similarity)
        )

    def set_embeddings(self, vectors: Mapping[str, Sequence[float] | bytes]) -> None:
        """Keep the vectors of contents; ids that do not exist are ignored.

        Args:
            vectors: Numbers, or float32 bytes in little endian order, by skill id.
        """
        with self._lock:
            known = self._state.skills
            with paused_collection():
                rows = tuple(
                    (id, pack_vector(vector), content_checksum(known[id].content))
                    for id, vector in vectors.items()
                    if id in known
                )
                if not rows:
                    return
                self._make(Embedded(rows))
            self._committed(self._now())

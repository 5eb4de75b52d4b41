"""`DeduplicateStep`: when it merges, and that it does so once for each sample of a run."""

from __future__ import annotations

from pathlib import Path

from ace.context import ACEStepContext
from ace.deduplication import ConsolidationResult, DeduplicationConfig, DeduplicationManager
from ace.skillbook import Skillbook
from ace.skillbook.store import SampleKey
from ace.steps import DeduplicateStep


class Counting(DeduplicationManager):
    """A manager that counts how often it looks for duplicates, which may cost model calls."""

    looked = 0

    def consolidate(self, skillbook: Skillbook) -> ConsolidationResult:
        """Count, and merge."""
        self.looked += 1
        return super().consolidate(skillbook)


def test_a_merge_that_is_in_the_store_is_neither_looked_for_nor_made_again(tmp_path: Path) -> None:
    manager = Counting(DeduplicationConfig(embedding_provider="lexical"))

    def merge_after(sample: str) -> tuple[int, int]:
        metadata = {"sample_key": SampleKey("monday", 1, sample)}
        ctx = ACEStepContext(global_sample_index=1).replace(metadata=metadata)
        with book.deferred_commits():  # as in a run
            DeduplicateStep(manager, book, interval=1)(ctx)
        return manager.looked, len(book)

    def add_twice(text: str) -> None:
        for _ in range(2):
            book.add_skill("house", text)

    with Skillbook.open(tmp_path / "skills.db") as book:
        add_twice("Check the units first.")
        assert merge_after("a") == (1, 1)
        add_twice("Say who signs.")
        assert merge_after("a") == (1, 3), "the run was killed after its merge and resumed, and merges no second time"
        assert merge_after("b") == (2, 2)

"""Vectors without a key and without a network."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ace.deduplication import DeduplicationManager, SimilarityDetector
from ace.protocols import DeduplicationConfig
from ace.providers import WordLlamaEmbedder
from ace.skillbook import Skillbook
from tests.support.subprocesses import run_python


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True)) / (math.hypot(*first) * math.hypot(*second))


def test_texts_of_one_meaning_are_nearer_than_others() -> None:
    check, verify, river = WordLlamaEmbedder().embed(
        ["Check the units before you answer.", "Verify units first.", "Name the longest river."]
    )
    assert cosine(check, verify) > 3 * abs(cosine(check, river))


def test_the_same_text_gets_the_same_vector() -> None:
    (first,), (again,) = WordLlamaEmbedder().embed(["Check units."]), WordLlamaEmbedder().embed(["Check units."])
    assert first == again


def test_no_text_is_no_vector() -> None:
    assert WordLlamaEmbedder().embed([]) == []


def test_deduplication_uses_it_by_itself() -> None:
    book = Skillbook()
    for content in ("Check the units of every number.", "Check the units of each number.", "Name the longest river."):
        book.add_skill("maths", content)
    detector = SimilarityDetector(DeduplicationConfig())
    assert detector.ensure_embeddings(book) == 3
    ((first, second, similarity),) = detector.detect_similar_pairs(book)
    assert (first.id, second.id) == ("maths-00001", "maths-00002") and similarity > 0.85


def test_it_can_be_asked_for_by_name() -> None:
    manager = DeduplicationManager(DeduplicationConfig(embedding_provider="local"))
    book = Skillbook()
    book.add_skill("maths", "Check the units.")
    assert manager.detector.ensure_embeddings(book) == 1


def test_making_one_loads_nothing_heavy() -> None:
    code = (
        "import sys; from ace.providers import WordLlamaEmbedder; WordLlamaEmbedder()\n"
        "print([name for name in ('wordllama', 'numpy', 'tokenizers', 'requests') if name in sys.modules])"
    )
    assert run_python(code).stdout.strip() == "[]"

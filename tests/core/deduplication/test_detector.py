"""Similar pairs by words and by vectors, against the plain definition."""

from __future__ import annotations

import math
import re
import tracemalloc
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ace.deduplication import DeduplicationConfig, SimilarityDetector
from ace.deduplication.detector import lexically_similar
from ace.deduplication.resident_vectors import ResidentVectors
from ace.deduplication.wording import compared_words
from ace.protocols.deduplication import register_embedder, unregister_embedder
from ace.providers import LiteLLMEmbedder
from ace.skillbook import Skillbook
from ace.skillbook.vectors import pack_vector
from tests.support.role_inputs import book_with
from tests.support.scripted_server import ScriptedServer, in_turn

TEXTS = st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8).map(" ".join), max_size=12)
VECTORS = st.lists(
    st.lists(st.floats(-1, 1, width=32).filter(lambda x: x == 0 or abs(x) > 0.01), min_size=3, max_size=3),
    max_size=12,
)


def found(book: Skillbook, config: DeduplicationConfig | None = None) -> list[tuple[str, str]]:
    pairs = SimilarityDetector(config).detect_similar_pairs(book)
    return [(pair.first.id, pair.second.id) for pair in pairs]


@given(TEXTS, st.floats(0.05, 1.0))
def test_the_lexical_search_finds_every_pair(texts: list[str], threshold: float) -> None:
    held = [compared_words(text) for text in texts]
    expected = {
        (a, b)
        for b in range(len(texts))
        for a in range(b)
        if len(held[a] & held[b]) / math.sqrt(len(held[a]) * len(held[b])) >= threshold - 1e-9
    }
    assert {(a, b) for a, b, _ in lexically_similar(texts, threshold)} == expected


@given(VECTORS, st.floats(0.1, 1.0))
@settings(deadline=None)
def test_the_vector_search_finds_every_pair(rows: list[list[float]], threshold: float) -> None:
    cosines = {(a, b): cosine(rows[a], rows[b]) for b in range(len(rows)) for a in range(b)}
    pairs = near_places([pack_vector(row) for row in rows], threshold)
    for pair, value in cosines.items():
        if abs(value - threshold) > 1e-5:
            assert (pair in pairs) == (value > threshold)
    for pair, value in pairs.items():
        assert value == pytest.approx(cosines[pair], abs=1e-5)


def test_blocks_meet_at_every_edge() -> None:
    """2,500 vectors in three blocks: each has an axis of its own but for the twins."""
    twins = {(0, 1024), (3, 40), (1023, 2499), (1500, 2048), (1025, 1026)}
    axes = list(range(2500))
    for first, second in twins:
        axes[second] = first
    vectors = [pack_vector(on_axis(axis)) for axis in axes]
    assert near_places(vectors, 1.0).keys() == twins


def near_places(vectors: Sequence[bytes], threshold: float) -> dict[tuple[int, int], float]:
    """The cosines of near vectors by their places."""
    found = ResidentVectors(threshold).near_pairs({str(place): vector for place, vector in enumerate(vectors)})
    return {(int(pair.first), int(pair.second)): pair.cosine for pair in found}


def on_axis(number: int) -> list[float]:
    """One of 2,500 directions that are far from each other: three digits, each in one of 14 places."""
    row = [0.0] * 42
    for digit in range(3):
        row[14 * digit + number // 14**digit % 14] = 1.0
    return row


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    lengths = math.hypot(*a) * math.hypot(*b)
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def test_sections_kept_pairs_and_removed_skills_are_left_out() -> None:
    book = book_with("Check units first.", "Check units first of all.")
    book.add_skill("physics", "Check units first.")
    config = DeduplicationConfig(similarity_threshold=0.7, embedding_provider="lexical")
    assert found(book, config) == [("maths-00001", "maths-00002")]
    everywhere = DeduplicationConfig(similarity_threshold=0.7, within_section_only=False, embedding_provider="lexical")
    assert len(found(book, everywhere)) == 3
    book.keep_apart("maths-00002", "maths-00001")
    assert found(book, config) == []
    book.remove_skill("maths-00002", soft=True)
    assert found(book, everywhere) == [("maths-00001", "physics-00003")]


def test_vectors_that_somebody_has_set_decide() -> None:
    book = book_with("One text.", "Quite another.", "A third.")
    book.set_embeddings({"maths-00001": [1.0, 0.0], "maths-00002": [0.99, 0.05], "maths-00003": [0.0, 1.0]})
    assert found(book) == [("maths-00001", "maths-00002")]
    assert found(book, DeduplicationConfig(embedding_provider="lexical")) == []


def test_a_model_makes_the_vectors_that_are_missing() -> None:
    with ScriptedServer(in_turn("")) as server:
        embedder = LiteLLMEmbedder("openai/embedder", api_base=server.api_base, api_key="sk-scripted-1")
        detector = SimilarityDetector(embedder=embedder)
        book = book_with("Check the units twice before you answer", "Before you answer check the units twice")
        book.add_skill("maths", "Name the river.")
        assert detector.ensure_embeddings(book) == 3
        assert detector.ensure_embeddings(book) == 0
        assert embedder.usage.calls == 1
        assert [pair[:2] for pair in detector.detect_similar_pairs(book)] == [tuple(book.skills()[:2])]
        book.update_skill("maths-00003", content="Name the country.")
        book.set_embeddings({"maths-00001": [1.0, 2.0]})
        assert detector.ensure_embeddings(book) == 2, "a vector of another length is made again"
        assert len({len(skill.embedding or b"") for skill in book.skills()}) == 1


class WrongVectors:
    """An embedder with a mistake."""

    def __init__(self, *vectors: Sequence[float]) -> None:
        self.vectors = vectors

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return self.vectors


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        ([[1.0]], "WrongVectors.embed returned 1 vectors for 2 texts; it must return one for each"),
        (
            [[1.0], [1.0, 2.0]],
            "WrongVectors.embed returned vectors of 1 and 2 numbers; all vectors must have the same length",
        ),
        ([[], []], "WrongVectors.embed returned vectors of 0 numbers"),
    ],
)
def test_an_embedder_that_makes_wrong_vectors_is_named(vectors: list[list[float]], said: str) -> None:
    book = book_with("One.", "Two.")
    with pytest.raises(ValueError, match=re.escape(said)):
        SimilarityDetector(embedder=WrongVectors(*vectors)).ensure_embeddings(book)
    assert all(skill.embedding is None for skill in book.skills())


def test_the_vectors_of_another_book_do_not_stay_in_memory() -> None:
    large, small = Skillbook(), book_with("One.", "Two.")
    for number in range(2000):
        large.add_skill(f"section {number % 10}", f"Text {number}.")
    large.set_embeddings(
        {
            skill.id: [1.0, *([0.0] * (number % 500)), 1.0, *([0.0] * (499 - number % 500))]
            for number, skill in enumerate(large.skills())
        }
    )
    small.set_embeddings({skill.id: [1.0, 0.0] for skill in small.skills()})
    detector = SimilarityDetector()
    detector.detect_similar_pairs(small)
    tracemalloc.start()
    try:
        detector.detect_similar_pairs(large, 0.9999)
        held = tracemalloc.get_traced_memory()[0]
        detector.detect_similar_pairs(small)
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held > 2000 * 501 * 4
    assert left < held / 10


def test_auto_asks_the_model_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(in_turn("")) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.api_base)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted-0123456789")
        book = book_with("One.", "Two.")
        detector = SimilarityDetector(DeduplicationConfig(embedding_model="openai/embedder"))
        assert detector.ensure_embeddings(book) == 2
        assert all(len(skill.embedding or b"") == 4 * 64 for skill in book.skills())


def is_similar(pair: tuple[str, str], detector: SimilarityDetector) -> bool:
    book = book_with(*pair)
    detector.ensure_embeddings(book)
    return bool(detector.detect_similar_pairs(book))


class Judging:
    """Vectors whose cosine is 0.7."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0, 0.0], [0.7, math.sqrt(1 - 0.7**2)]][: len(texts)]


class JudgingFrom(Judging):
    similarity_threshold = 0.6


def test_an_embedder_names_its_threshold_and_the_settings_go_first() -> None:
    pair = ("One.", "Two.")
    for config, plain, own in (
        (DeduplicationConfig(), False, True),
        (DeduplicationConfig(similarity_threshold=0.85), False, False),
        (DeduplicationConfig(similarity_threshold=0.5), True, True),
    ):
        assert is_similar(pair, SimilarityDetector(config, embedder=Judging())) is plain
        assert is_similar(pair, SimilarityDetector(config, embedder=JudgingFrom())) is own
    assert DeduplicationConfig() == DeduplicationConfig(similarity_threshold=0.85)


def test_a_provider_of_a_plugin_resolves_by_its_name_and_an_error_says_how_to_get_it() -> None:
    with pytest.raises(ValueError, match=r"(?s)'sentence_transformers'; .*install a plugin.*register_embedder"):
        DeduplicationConfig(embedding_provider="sentence_transformers")
    made: list[str | None] = []

    def factory(model: str | None) -> JudgingFrom:
        made.append(model)
        return JudgingFrom()

    register_embedder("sentence_transformers", factory)
    try:
        config = DeduplicationConfig(embedding_provider="sentence_transformers", embedding_model="all-MiniLM-L6-v2")
        assert is_similar(("One.", "Two."), SimilarityDetector(config))
    finally:
        unregister_embedder("sentence_transformers")
    assert made == ["all-MiniLM-L6-v2"]

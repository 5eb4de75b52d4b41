"""Vectors that come, change and go give the pairs that a new search would give."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ace.deduplication import DeduplicationConfig, SimilarityDetector
from ace.deduplication.resident_vectors import ResidentVectors
from ace.skillbook import Skillbook
from ace.skillbook.vectors import pack_vector

VECTORS = st.tuples(*[st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0])] * 3).map(pack_vector)
STATES = st.lists(st.dictionaries(st.sampled_from("abcdefgh"), VECTORS, max_size=8), min_size=1, max_size=5)


@given(STATES, st.floats(0.1, 0.99))
@settings(deadline=None)
def test_every_state_has_the_pairs_of_a_new_search(states: list[dict[str, bytes]], threshold: float) -> None:
    resident = ResidentVectors(threshold)
    for state in states:
        expected = {frozenset((pair.first, pair.second)) for pair in ResidentVectors(threshold).near_pairs(state)}
        found = resident.near_pairs(state)
        assert {frozenset((pair.first, pair.second)) for pair in found} == expected
        assert len(found) == len(expected)


def test_a_detector_sees_what_changed_since_its_last_search() -> None:
    book = Skillbook()
    ids = [book.add_skill("a", f"Skill {number}.").id for number in range(4)]
    detector = SimilarityDetector(DeduplicationConfig(similarity_threshold=0.9))

    def pairs() -> list[tuple[str, str]]:
        return [(pair.first.id, pair.second.id) for pair in detector.detect_similar_pairs(book)]

    book.set_embeddings({ids[0]: [1, 0, 0], ids[1]: [1, 0, 0], ids[2]: [0, 1, 0], ids[3]: [0, 0, 1]})
    assert pairs() == [(ids[0], ids[1])]
    book.set_embeddings({ids[0]: [0, 0, 1]})
    assert pairs() == [(ids[0], ids[3])]
    book.remove_skill(ids[3])
    assert pairs() == []
    other = Skillbook()
    for number in range(2):
        other.add_skill("a", f"Another {number}.", skill_id=ids[number])
    other.set_embeddings({ids[0]: [0, 1, 0], ids[1]: [0, 1, 0]})
    assert [(pair.first.content, pair.second.content) for pair in detector.detect_similar_pairs(other)] == [
        ("Another 0.", "Another 1.")
    ]

"""The default threshold of each embedder, on 100 labelled pairs of skills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ace.deduplication import DeduplicationConfig, SimilarityDetector
from tests.support.role_inputs import book_with

PAIRS = [
    json.loads(line)
    for line in Path(__file__).with_name("labelled_pairs.jsonl").read_text(encoding="utf-8").splitlines()
]
"""Pairs of skills: half of them are rewordings of one skill, the others are different skills, many of one pattern."""

RECALL = {"lexical": 0.82, "local": 0.92}
"""The share of the rewordings that is found, as in the how-to."""


def is_found(pair: dict[str, object], provider: str) -> bool:
    book = book_with(str(pair["first"]), str(pair["second"]))
    detector = SimilarityDetector(DeduplicationConfig(embedding_provider=provider))
    detector.ensure_embeddings(book)
    return bool(detector.detect_similar_pairs(book))


@pytest.mark.parametrize("provider", RECALL)
def test_the_default_threshold_finds_rewordings_and_hardly_anything_else(provider: str) -> None:
    found = [pair for pair in PAIRS if is_found(pair, provider)]
    right = [pair for pair in found if pair["same"]]
    assert len(PAIRS) == 100 and sum(bool(pair["same"]) for pair in PAIRS) == 50
    assert len(right) / len(found) >= 0.95
    assert len(right) / 50 == pytest.approx(RECALL[provider], abs=0.001)


@pytest.mark.parametrize("provider", RECALL)
def test_a_rewording_with_other_endings_is_found(provider: str) -> None:
    first, second = "Maintain factual knowledge for accuracy", "Maintaining factual knowledge is crucial"
    assert is_found({"first": first, "second": second}, provider)

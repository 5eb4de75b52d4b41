"""`FrozenIndex` finds the same skills as `MeaningRanker`, and notices what it must not be read from."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from ace.retrieval import MeaningRanker
from ace.retrieval.frozen_index import FrozenIndex
from ace.skill import Skill

TEXT = (Path(__file__).parents[3] / "docs/explanation/learning.md").read_text(encoding="utf-8")
SENTENCES = [sentence.strip() for sentence in re.split(r"[.\n]", TEXT) if len(sentence) > 30]


def skills(size: int, dice: random.Random) -> list[Skill]:
    return [
        Skill(f"s-{number}", dice.choice("ab"), dice.choice(SENTENCES), helpful=dice.choice([0, 0, 1, 5]), harmful=harm)
        for number in range(size)
        for harm in [dice.choice([0, 0, 2])]
    ]


@pytest.mark.parametrize("size", [1, 2, 40, 300])
def test_it_finds_the_same_as_the_ranker_in_the_same_order(size: int) -> None:
    dice = random.Random(size)
    book = skills(size, dice)
    index = FrozenIndex.from_bytes(FrozenIndex.of(book).to_bytes())
    found = 0
    for question in dice.choices(SENTENCES, k=12):
        besides = {skill.id for skill in book if dice.random() < 0.2}
        wanted = MeaningRanker().best(question, [skill for skill in book if skill.id not in besides], 5)
        assert index.best(question, 5, besides) == [skill.id for skill in wanted]
        found += len(wanted)
    assert found > size // 300


def test_what_is_taken_from_an_earlier_index_is_the_same_as_what_is_computed_again() -> None:
    dice = random.Random(7)
    before = skills(50, dice)
    after = [skill.replace(content=f"{skill.content} twice") if dice.random() < 0.3 else skill for skill in before[5:]]
    after.append(Skill("new-1", "c", "Pinned and new.", pinned=True))
    assert FrozenIndex.of(after, FrozenIndex.of(before)).to_bytes() == FrozenIndex.of(after).to_bytes()


def test_an_index_of_nothing_finds_nothing() -> None:
    index = FrozenIndex.from_bytes(FrozenIndex.of([]).to_bytes())
    assert index.best("Anything?", 5) == [] and index.ids == []


def test_damaged_bytes_are_refused() -> None:
    data = FrozenIndex.of(skills(3, random.Random(1))).to_bytes()
    for at in (3, 22, 40, len(data) // 2, len(data) - 1):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(ValueError, match="the index is damaged" if at > 20 else "not an index of this version"):
            FrozenIndex.from_bytes(bytes(damaged))
    for size in (0, 20, len(data) // 2, len(data) - 1):
        with pytest.raises(ValueError, match=r"the index is damaged|not an index of this version"):
            FrozenIndex.from_bytes(data[:size])

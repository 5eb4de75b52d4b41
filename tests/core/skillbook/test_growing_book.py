"""A book that changes: prompts, lists and sums are those of the plain definition, which looks at all skills."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from ace.retrieval import LexicalRanker, MeaningRanker, helpfulness, proven_relevance
from ace.skill import Skill
from ace.skillbook import Skillbook
from ace.skillbook.frozen_copy import FrozenCopy, PromptParts
from ace.skillbook.selection import estimate_tokens

CHANGES = "The skillbook has changed since. These lines replace those above, or add to them:\n"
RELEVANT = "Further skills of the skillbook that may fit:\n"


def plain_line(skill: Skill) -> str:
    return f"- [{skill.id}] {skill.content}"


def plain_lines(skills: Sequence[Skill]) -> str:
    return "\n".join(map(plain_line, skills))


def shown(skill: Skill | None) -> object:
    return (skill.content, skill.pinned) if skill is not None and skill.is_active else None


def changed_ids(copy: Sequence[Skill], now: Sequence[Skill]) -> list[str]:
    old, new = {skill.id: skill for skill in copy}, {skill.id: skill for skill in now}
    return [id for id in {**old, **new} if shown(old.get(id)) != shown(new.get(id))]


def plainly_ranked(skills: Sequence[Skill], query: str) -> list[Skill]:
    scores = MeaningRanker()(query, skills)

    def order(place: int) -> tuple[bool, float, float, int]:
        skill = skills[place]
        return not skill.pinned, -proven_relevance(scores[place], skill), -helpfulness(skill), place

    relevant = [place for place, skill in enumerate(skills) if scores[place] > 0 or skill.pinned]
    return [skills[place] for place in sorted(relevant, key=order)]


def plain_parts(copy: Sequence[Skill], now: Sequence[Skill], query: str, budget: int) -> PromptParts:
    changed = changed_ids(copy, now)
    if len(changed) > 64:
        copy, changed = now, []
    new = {skill.id: skill for skill in now if skill.is_active}
    active = sorted((skill for skill in copy if skill.is_active), key=lambda skill: not skill.pinned)
    is_whole = estimate_tokens(plain_lines(active)) <= budget
    if not is_whole:
        left, chosen = int(budget * 0.95), []
        for skill in sorted(active, key=lambda skill: (not skill.pinned, -helpfulness(skill))):
            left -= estimate_tokens(f"{plain_line(skill)}\n")
            if left < 0:
                break
            chosen.append(skill.id)
        active = [skill for skill in active if skill.id in chosen]
    frozen = plain_lines([skill for skill in active if skill.id in new or skill.id not in changed])
    there = sorted((skill for skill in new.values() if skill.id in changed), key=lambda skill: not skill.pinned)
    changes = CHANGES + plain_lines(there) if there else ""
    if is_whole:
        return PromptParts(frozen, changes, "")
    left, relevant, passed = int(budget * 0.05), set(), {*changed, *(skill.id for skill in active)}
    for skill in plainly_ranked(list(new.values()), query):
        if skill.id not in passed:
            left -= estimate_tokens(plain_line(skill))
            if left < 0:
                break
            relevant.add(skill.id)
    further = plain_lines([skill for skill in new.values() if skill.id in relevant])
    return PromptParts(frozen, changes, RELEVANT + further if further else "")


def change(book: Skillbook, chance: random.Random, step: int) -> None:
    skills = book.skills(include_invalid=True)
    one, two = (chance.choice(skills).id if skills else "none" for _ in range(2))
    first, second = book.get_skill(one), book.get_skill(two)
    match chance.randrange(14):
        case 0 | 1 | 2 if first is not None:
            book.tag_skill(one, chance.choice(("helpful", "harmful", "neutral")))
        case 3 | 4:
            book.update_skill(one, content=f"Changed rule {step} of the yard.")
        case 5:
            book.update_skill(one, section=f"section {chance.randrange(4)}")
        case 6 if first is not None and not first.pinned:
            book.remove_skill(one, soft=chance.random() < 0.5)
        case 7 if first is not None and not first.pinned:
            book.remove_skill(one)
            book.add_skill("again", f"Rule {step} is back.", one)
        case 8 if one != two and first is not None and second is not None:
            if first.is_active and second.is_active and not second.pinned:
                book.merge_skills(one, [two])
        case 9:
            book.update_skill(one, pinned=chance.random() < 0.4)
        case 10:
            other = Skillbook()
            for number in range(chance.choice((3, 80))):
                other.add_skill("imported", f"Imported rule {step}.{number} counts crates.")
            book.import_skills(other)
        case _:
            book.add_skill(f"section {chance.randrange(4)}", f"Rule {step} holds in case {step % 9}.")


def fresh_scores(
    ranker: type[LexicalRanker] | type[MeaningRanker], query: str, skills: Sequence[Skill]
) -> Sequence[float]:
    return ranker()(query, skills)


def check(book: Skillbook, copy: Sequence[Skill], query: str, budget: int) -> None:
    everything = book.skills(include_invalid=True)
    active = [skill for skill in everything if skill.is_active]
    assert book.skills() == active and len(book) == len(active)
    assert book.stats() == {
        "sections": len({skill.section for skill in active}),
        "skills": len(active),
        "tags": {tag: sum(skill.counts()[tag] for skill in active) for tag in ("helpful", "harmful", "neutral")},
    }
    assert book.section_names() == list(dict.fromkeys(skill.section for skill in active))
    assert book.prompt_parts(query, budget) == plain_parts(copy, everything, query, budget)

    for ranker in (LexicalRanker, MeaningRanker):
        ranked = book.as_prompt(budget // 3, query, ranker=ranker())
        assert ranked == book.as_prompt(budget // 3, query, ranker=partial(fresh_scores, ranker))


@pytest.mark.parametrize(("seed", "budget"), [(0, 20_000), (1, 300)])
def test_a_book_in_memory(seed: int, budget: int) -> None:
    chance = random.Random(seed)
    book = Skillbook()
    copy: Sequence[Skill] = ()
    for step in range(70):
        for _ in range(chance.choice((0, 1, 1, 2, 30))):
            change(book, chance, step)
        now = book.skills(include_invalid=True)
        if step == 0 or len(changed_ids(copy, now)) > 12:
            copy = now
        check(book, copy, f"rule {step} of the yard in case {step % 9}", budget)


@pytest.mark.parametrize(("seed", "budget"), [(0, 20_000), (1, 300)])
def test_a_book_in_a_store(seed: int, budget: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    path = tmp_path / "skills.db"
    with Skillbook.open(path) as book, Skillbook.open(path) as other:
        for step in range(40):
            for _ in range(chance.choice((0, 1, 1, 2, 5))):
                other.refresh()
                change(chance.choice((book, book, book, other)), chance, step)
                book.refresh()
            if chance.random() < 0.05:
                assert book.version is not None
                book.rollback(chance.randrange(book.version + 1))
            assert book.version is not None
            copy = book.as_of(FrozenCopy.version_for(book.version)).skills(include_invalid=True)
            check(book, copy, f"rule {step} of the yard in case {step % 9}", budget)
            if step % 7 == 0:
                with Skillbook.open(path) as opened:
                    check(opened, copy, f"rule {step}", budget)

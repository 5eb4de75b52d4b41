"""Retrieval by meaning: with the real word vectors, on lessons and questions in other words."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from ace.providers import LiteLLMClient
from ace.retrieval import MeaningRanker, TopSkills, helpfulness, proven_relevance
from ace.roles import SmallModelAgent
from ace.skill import CaseCheck, Skill, SkillCase
from ace.skillbook import Skillbook
from benchmarks.paraphrases import load_paraphrases

PAY = Skill("pay-1", "pay", "Wages are transferred on the last Friday of the month.")
FOOD = Skill("lab-1", "lab", "Do not store food in the laboratory refrigerator.")
SALARY = "On which day do employees receive their salary?"
LUNCH = "Can I put my lunch in the fridge of the lab?"
NEUTRAL = "Who painted the Mona Lisa?"


def found(question: str, skills: Sequence[Skill], limit: int = 3) -> list[str]:
    return [skill.id for skill in MeaningRanker().best(question, skills, limit)]


@pytest.mark.parametrize(("name", "right", "quiet"), [("orchard", 64, 54), ("calibration", 26, 50)])
def test_lessons_are_found_in_other_words_and_neutral_questions_find_nothing(name: str, right: int, quiet: int) -> None:
    """The bounds are slightly below what `python -m benchmarks.paraphrases` reports."""
    outcome = load_paraphrases(name).outcome(MeaningRanker())
    assert outcome.right >= right
    assert outcome.quiet >= quiet


@pytest.mark.parametrize(("question", "expected"), [(SALARY, ["pay-1"]), (LUNCH, ["lab-1"]), (NEUTRAL, [])])
def test_every_way_to_choose_skills_decides_by_meaning(question: str, expected: list[str]) -> None:
    book = Skillbook()
    for skill in (PAY, FOOD):
        book.add_skill(skill.section, skill.content, skill.id)
    agent = SmallModelAgent(LiteLLMClient("openai/never-asked", api_base="http://127.0.0.1:9"))
    assert [skill.id for skill in agent.shown_skills(question, book)] == expected
    assert [skill.id for skill in TopSkills()(question, book)] == expected
    for prompt in (book.as_prompt(query=question), book.as_prompt(1000, question)):
        assert [skill.id for skill in book.skills() if skill.id in prompt] == expected
    further = book.prompt_parts(question, 0)
    assert further.frozen == further.relevant == ""


def test_the_questions_of_its_cases_tell_what_a_skill_is_about() -> None:
    rule = Skill("a-1", "a", "It is always Marek.")
    case = SkillCase.make("Who approves a refund of 300 euros?", CaseCheck("contains", "Marek"))
    assert found("Whose approval does a refund of 210 euros need?", [rule]) == []
    assert found("Whose approval does a refund of 210 euros need?", [rule.replace(cases=(case,))]) == ["a-1"]


def test_words_decide_between_codes() -> None:
    skills = [
        Skill(f"e-{code}", "e", f"After error E{code}, restart the spooler.") for code in (4711, 1147, 7411, 4117)
    ]
    assert found("What do I do after error E7411?", skills, 1) == ["e-7411"]
    assert found("What do I do after error E4117?", skills, 1) == ["e-4117"]


def test_a_pinned_skill_is_shown_with_a_question_that_none_fits() -> None:
    book = Skillbook()
    book.add_skill("pay", PAY.content)
    pinned = book.add_skill("tone", "Answer in one sentence.")
    book.update_skill(pinned.id, pinned=True)
    assert book.as_prompt(query=NEUTRAL) == f"- [{pinned.id}] Answer in one sentence."
    assert [skill.id for skill in TopSkills()(NEUTRAL, book)] == [pinned.id]


def test_among_equal_texts_the_helpful_one_is_first() -> None:
    skills = [PAY.replace(id=f"pay-{number}", helpful=number % 3) for number in range(6)]
    assert found(SALARY, skills, 2) == ["pay-2", "pay-5"]


def test_skills_that_change_are_found_as_if_the_ranker_were_new() -> None:
    chance = random.Random(3)
    texts = [skill.content for name in ("orchard", "calibration") for skill in load_paraphrases(name).skills]
    questions = [question for _, question in load_paraphrases("orchard").questions]
    ranker = MeaningRanker()
    skills: list[Skill] = []
    for step in range(120):
        skills = list(skills)
        for _ in range(chance.choice((1, 1, 3))):
            place = chance.randrange(len(skills)) if skills else 0
            match chance.randrange(5) if skills else 0:
                case 0 | 1:
                    skills.append(Skill(f"a-{step}-{len(skills)}-{chance.random()}", "a", chance.choice(texts)))
                case 2:
                    del skills[place]
                case 3:
                    skills[place] = skills[place].replace(content=chance.choice(texts))
                case 4:
                    skills[place] = skills[place].replace(helpful=chance.randrange(4), harmful=chance.randrange(4))
        question, limit = chance.choice(questions), chance.randrange(1, 6)
        scores = MeaningRanker()(question, skills)
        assert ranker(question, skills) == scores
        order = sorted(
            (place for place, score in enumerate(scores) if score > 0),
            key=lambda place: (-proven_relevance(scores[place], skills[place]), -helpfulness(skills[place]), place),
        )
        assert ranker.best(question, skills, limit) == [skills[place] for place in order[:limit]]


def test_an_empty_book_and_an_empty_question_find_nothing() -> None:
    assert MeaningRanker()(SALARY, []) == []
    assert found(SALARY, []) == []
    assert found("", [PAY]) == []
    assert found(SALARY, [PAY], 0) == []

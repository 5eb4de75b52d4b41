"""Rules that contradict each other are never merged without a model; rules that say the same are."""

from __future__ import annotations

import pytest

from ace.context import SkillbookView
from ace.deduplication import DeduplicationConfig, DeduplicationManager
from ace.outputs import ExtractedLearning, ReflectorOutput
from ace.providers.local import LocalLLMClient
from ace.roles import SmallModelSkillManager
from ace.skill import CaseCheck, SkillCase
from tests.support.role_inputs import book_with

CONTRADICTING = {
    "a number": ("Retry a failed request 3 times.", "Retry a failed request 5 times."),
    "a number in words": ("Wait three seconds before a retry.", "Wait five seconds before a retry."),
    "a threshold": ("Ask Petersen above 10,000 dollars.", "Ask Petersen above 1,000 dollars."),
    "a decimal": ("Report a drift above 1.5 mm.", "Report a drift above 15 mm."),
    "the sign of a number": ("Set the offset to -1.", "Set the offset to 1."),
    "brackets of a number": ("Write a loss as (12).", "Write a loss as 12."),
    "a unit": ("Log the power in mW.", "Log the power in MW."),
    "a unit in one word": ("Write weights in KB.", "Write weights in kB."),
    "an operator": ("Keep rows where x != 1", "Keep rows where x == 1"),
    "a comparison": ("Refund orders < 200 euros.", "Refund orders > 200 euros."),
    "a negation": ("Do not restart the service.", "Do restart the service."),
    "never and always": ("Always promise a refund.", "Never promise a refund."),
    "the order": ("Stop the pump before the valve.", "Stop the valve before the pump."),
    "before and after": ("Back up before the migration.", "Back up after the migration."),
    "a direction": ("Sort the list up.", "Sort the list down."),
    "a name": ("Contracts are signed by Petersen.", "Contracts are signed by Jensen."),
    "a name in the plural": ("Contracts are signed by Peters.", "Contracts are signed by Peter."),
    "a name at the start": ("Peters signs the contract.", "Peter signs the contract."),
    "a name that is a word": ("Send the ticket to IT.", "Send the ticket to it."),
    "a name of one letter": ("Moor at pier A.", "Moor at a pier."),
    "a name that is an article": ("Load the crates at gate A", "Load the crates at gate"),
    "an abbreviation": ("Ship to US customers first.", "Ship to us customers first."),
    "a code": ("Tag the crate K7-BLUE.", "Tag the crate K7-RED."),
    "the case of a code": ("Call `List` on the result.", "Call `list` on the result."),
    "a format": ("Write dates as 2026-11-22.", "Write dates as 22.11.2026."),
    "a format of times": ("Write the time as 14h30.", "Write the time as 14:30."),
    "punctuation in quotes": ('Answer with "Yes, done."', 'Answer with "Yes, done!"'),
    "white space in quotes": ("Join the names with ', '.", "Join the names with ','."),
    "case in quotes": ("Start with 'dear customer' always.", "Start with 'Dear Customer' always."),
    "a language": ("Write it in C++", "Write it in C"),
    "who": ("The sender pays the freight.", "The receiver pays the freight."),
    "how many": ("Name the reason of a delay in one line.", "Name the reason of a delay in two lines."),
    "a condition": ("Close the lock at high water.", "Close the lock at low water."),
    "only": ("Answer invoices on Mondays.", "Answer only invoices on Mondays."),
    "a tool": ("Search with grep.", "Search with find."),
    "a path": ("Put reports into /var/log.", "Put reports into /var/lib."),
}

SAME = {
    "case": ("Check the units first.", "check the units first."),
    "capitals only": ("Check the limit first.", "CHECK THE LIMIT FIRST."),
    "emphasis": ("Never guess a unit.", "NEVER guess a unit."),
    "white space": ("Check the units first.", "  Check the\nunits   first."),
    "punctuation": ("Check the units first.", "Check the units, first!"),
    "nothing": ("Ask Petersen above 10,000 dollars.", "Ask Petersen above 10,000 dollars."),
    "typographic quotes": ("Don't restart it", "Don\u2019t restart it"),
}

REWORDED = {
    "an article": ("Check the units first.", "Check units first."),
    "an ending": ("Check the unit first.", "Check the units first."),
    "politeness": ("Please check the units first.", "Check the units first."),
}

EVERYWHERE = DeduplicationConfig(similarity_threshold=0.1, embedding_provider="lexical", within_section_only=False)


def case_of(number: int, expected: str = "units") -> SkillCase:
    return SkillCase.make(f"What comes first in task {number}?", CaseCheck("contains", expected), expected=expected)


@pytest.mark.parametrize("provider", ["lexical", "auto"])
@pytest.mark.parametrize("kind", CONTRADICTING)
def test_contradicting_rules_are_never_merged(kind: str, provider: str) -> None:
    for texts in (CONTRADICTING[kind], CONTRADICTING[kind][::-1]):
        book = book_with(*texts)
        config = DeduplicationConfig(similarity_threshold=0.1, embedding_provider=provider, within_section_only=False)
        result = DeduplicationManager(config).consolidate(book)
        assert result.applied == ()
        assert [skill.content for skill in book.skills()] == list(texts)


@pytest.mark.parametrize("provider", ["lexical", "local"])
@pytest.mark.parametrize("kind", CONTRADICTING)
def test_the_rule_for_similar_skills_does_not_merge_contradicting_ones(kind: str, provider: str) -> None:
    if provider == "local":
        pytest.importorskip("wordllama")  # which the wheel of ace-core does without
    book = book_with(*CONTRADICTING[kind])
    config = DeduplicationConfig(rule="longest", embedding_provider=provider)
    assert DeduplicationManager(config).consolidate(book).applied == ()
    assert [skill.content for skill in book.skills()] == list(CONTRADICTING[kind])


@pytest.mark.parametrize("kind", [*SAME, *REWORDED])
def test_rules_that_say_the_same_are_merged(kind: str) -> None:
    for texts in ((SAME | REWORDED)[kind], (SAME | REWORDED)[kind][::-1]):
        book = book_with(*texts)
        [merge] = DeduplicationManager(EVERYWHERE).consolidate(book).applied
        assert merge.type == "MERGE"
        [kept] = book.skills()
        assert kept.content == max(texts, key=len)


@pytest.mark.parametrize("kind", CONTRADICTING)
def test_a_small_model_learns_contradicting_rules_beside_each_other(kind: str) -> None:
    manager = SmallModelSkillManager(LocalLLMClient())
    first, second = CONTRADICTING[kind]
    learned = [ExtractedLearning(learning=text) for text in (second, first)]
    reflection = ReflectorOutput(reasoning="", correct_approach="", key_insight="", extracted_learnings=learned)
    update = manager.update_skills(reflection, SkillbookView(book_with(first))).update
    assert [(operation.type, operation.content) for operation in update.operations] == [
        ("ADD", second),
        ("UPDATE", first),
    ]


def test_a_small_model_does_not_judge_similar_skills() -> None:
    book = book_with(*CONTRADICTING["a number"])
    result = DeduplicationManager(EVERYWHERE, SmallModelSkillManager(LocalLLMClient())).consolidate(book)
    assert (result.applied, result.problem, len(result.undecided)) == ((), "", 1)

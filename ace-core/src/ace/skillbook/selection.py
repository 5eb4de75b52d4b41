"""Which skills go into a prompt that has a budget or a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ace.retrieval import helpfulness, proven_relevance
from ace.skill import Skill
from ace.skillbook.line_formats import LineFormat

TokenCounter = Callable[[str], int]
"""From a text to its number of tokens."""

Ranker = Callable[[str, Sequence[Skill]], Sequence[float]]
"""From a question and skills to one relevance each; 0 means none."""

_FIRST_TRY = 16
_LATE_TRIES = 32


def estimate_tokens(text: str) -> int:
    """Return more tokens than a common tokenizer finds in ordinary text: every third character, and more beyond ASCII.

    Of runs of signs and of encoded data a tokenizer may make more. Who must not pass a limit gives that of the model.

    Example:
        >>> estimate_tokens("Paris is the capital of France.")
        11
    """
    beyond_ascii = 0 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) - len(text)
    return (len(text) + 2) // 3 + beyond_ascii


def ranked(skills: Sequence[Skill], query: str | None, ranker: Ranker) -> list[Skill]:
    """Return the skills, the most relevant and most helpful first; equals stay in the order of the book."""
    if query is None:
        return sorted(skills, key=lambda skill: -helpfulness(skill))
    scores = ranker(query, skills)
    if len(scores) != len(skills):
        raise ValueError(f"the ranker gave {len(scores)} scores for {len(skills)} skills")
    keys = [(-proven_relevance(score, skill), -helpfulness(skill)) for score, skill in zip(scores, skills, strict=True)]
    return [skills[index] for index in sorted(range(len(skills)), key=keys.__getitem__)]


def fitting(
    order: Sequence[Skill],
    write: Callable[[Sequence[Skill]], str],
    budget_tokens: int,
    count_tokens: TokenCounter,
) -> str:
    """Return the text of as many of the first skills as fit the budget.

    What is returned has been counted as a whole, so it fits whatever the tokenizer does at the seams.

    Args:
        order: The skills, most wanted first.
        write: From some of them to the text.
        budget_tokens: The most tokens that the text may have.
        count_tokens: The counter.

    Returns:
        The text; empty if not even one skill fits.
    """
    fits, too_many, best = 0, len(order) + 1, ""
    attempt = min(len(order), _FIRST_TRY)
    while too_many - fits > 1:
        text = write(order[:attempt])
        if count_tokens(text) <= budget_tokens:
            fits, best = attempt, text
        else:
            too_many = attempt
        none_failed_yet = too_many > len(order)
        attempt = min(fits * 2, len(order)) if none_failed_yet else (fits + too_many) // 2
    chosen = list(order[:fits])
    for skill in order[fits : fits + _LATE_TRIES]:
        text = write([*chosen, skill])
        if count_tokens(text) <= budget_tokens:
            chosen.append(skill)
            best = text
    return best


def write_ranked(format: LineFormat, skills: Sequence[Skill]) -> str:
    """Return the lines of the skills in the given order, without sections."""
    return format.ranked(list(format.lines(skills).values())) if skills else ""


def write_by_section(
    format: LineFormat, sections: Sequence[str], places: Mapping[str, int], skills: Sequence[Skill]
) -> str:
    """Return the lines of the skills under their sections, in the order of the book.

    Args:
        format: How they are written.
        sections: The names of all sections in order.
        places: The place of each skill in the book, by id.
        skills: The skills, in any order.
    """
    members: dict[str, list[Skill]] = {}
    for skill in sorted(skills, key=lambda skill: places[skill.id]):
        members.setdefault(skill.section, []).append(skill)
    texts = [
        format.section(name, format.separator.join(format.lines(members[name]).values()))
        for name in sections
        if name in members
    ]
    return format.book(texts, len(skills)) if skills else ""

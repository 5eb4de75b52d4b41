"""`ace skillbook add`: adds a skill that a person wrote."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import print_json, print_text, visible
from ace.cli.errors import DONE, UsageError
from ace.cli.options import JsonFlag, SkillbookOption
from ace.cli.skillbooks.described_history import print_undo, undo_command
from ace.cli.skillbooks.opened_book import location_of, open_or_start, save, text_or_stdin
from ace.cli.skillbooks.skill_output import cases_from, skill_as_json
from ace.skillbook.locations import shown_location

__all__ = ["command"]


def command(
    section: str,
    text: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    case: Annotated[list[str] | None, Parameter(negative="")] = None,
    skillbook: SkillbookOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Add a skill, and print its id.

    The skillbook is created if it does not exist. In a .db skillbook, the change creates a new version. The command
    that undoes it is printed.

    --case adds a question and its correct answer, which `ace skillbook test` uses to check that the skill works. The
    check is strict: a number is compared by its value, any other answer must appear as a whole, between word
    boundaries.

    For example:

        ace skillbook add maths "Check the units before you add."
        ace skillbook add maths - < rule.txt
        ace skillbook add tides "Write times as 14h30." --case "When is high water, at 2:30 pm? => 14h30"

    Args:
        section: The section that the skill belongs to, such as maths.
        text: The text of the skill; - reads it from standard input.
        case: A question that the skill helps to answer, and its answer, as "question => answer"; repeatable.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        as_json: Print one JSON object.
    """
    location = location_of(skillbook)
    content = text_or_stdin(text) or ""
    for name, value in (("section", section), ("text", content)):
        if not value.strip():
            raise UsageError(f"the {name} of the new skill is empty")
    cases = cases_from(case)
    with open_or_start(location) as book:
        with book.deferred_commits():
            added = book.add_skill(section, content, cases=cases)
            version = save(book, location, author="ace skillbook add")
        # Another process may have taken the id before the change was saved; the skill has another one then.
        same = [other for other in book.skills() if (other.content, other.created_at) == (content, added.created_at)]
        skill = book.get_skill(added.id) if added in same else same[-1]
    assert skill is not None
    undo = undo_command(location, version, ["remove", skill.id, "--yes"])
    if as_json:
        print_json(
            {
                "command": "skillbook add",
                "skillbook": shown_location(location),
                "version": version,
                "skill": skill_as_json(skill),
                "undo": undo,
            }
        )
    else:
        print_text(f"added [{skill.id}] in section {skill.section!r}: {visible(skill.content)}")
        for added_case in skill.cases:
            print_text(f"with case {added_case.id}: {visible(added_case.question)} => {visible(added_case.expected)}")
        print_undo(location, version, undo)
    return DONE

"""`ace skillbook edit`: changes the text, the cases or the section of a skill."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import print_json, print_text, visible
from ace.cli.errors import DONE, UsageError
from ace.cli.options import JsonFlag, SkillbookOption
from ace.cli.questions import edited
from ace.cli.skillbooks.described_history import print_undo, undo_command
from ace.cli.skillbooks.opened_book import check_writable, location_of, opened, save, text_or_stdin
from ace.cli.skillbooks.selection import find_active
from ace.cli.skillbooks.skill_output import as_option, cases_from, skill_as_json
from ace.skill import Skill, SkillCase
from ace.skillbook import Skillbook
from ace.skillbook.locations import shown_location

__all__ = ["command"]


def command(
    skill_id: str,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    section: str | None = None,
    case: Annotated[list[str] | None, Parameter(negative="")] = None,
    remove_case: Annotated[list[str] | None, Parameter(negative="")] = None,
    skillbook: SkillbookOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Change the text or the cases of a skill, or move it to another section.

    Without a text, a section or a case, the skill opens in your editor: the command in $VISUAL, else in $EDITOR.
    Counters and sources are kept. To change a case, remove it and add another one: `ace skillbook show SKILL_ID` lists
    their ids. After a change of the text, the cases have to be tested again. In a .db skillbook, the change creates a
    new version. The command that undoes it is printed.

    For example:

        ace skillbook edit maths-00001 "Check the units before you add."
        EDITOR="code --wait" ace skillbook edit maths-00001
        ace skillbook edit maths-00001 --section physics
        ace skillbook edit tides-00001 --case "When is low water, at 8 pm? => 20h00" --remove-case 5b856da2e8b4

    Args:
        skill_id: The id of the skill.
        text: The new text; - reads it from standard input.
        section: The section to move the skill to.
        case: A question that the skill helps to answer, and its answer, as "question => answer"; repeatable.
        remove_case: The id of a case to remove; repeatable.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        as_json: Print one JSON object.
    """
    location = location_of(skillbook)
    check_writable(location)
    with opened(location) as book:
        before = find_active(book, location, skill_id)
    _check_cases(before, remove_case or ())
    cases = cases_from(case)
    is_in_editor = text is None and section is None and not cases and not remove_case
    new_text = text_or_stdin(text)
    if new_text is not None and not new_text.strip():
        raise UsageError(
            f"the new text is empty, so nothing was changed; `ace skillbook remove {before.id}` removes it"
        )
    with edited(before.content) if is_in_editor else nullcontext(new_text) as content, opened(location) as book:
        now = find_active(book, location, skill_id)
        if is_in_editor and now.content != before.content and content != before.content:
            raise UsageError(f"another process changed the skill {before.id!r} meanwhile, so nothing was changed")
        _check_cases(now, remove_case or ())
        after, version = _edit(book, location, now, content, section, cases, remove_case or ())
    undo = "" if after == now else undo_command(location, version, _opposite(now, after))
    if as_json:
        print_json(
            {
                "command": "skillbook edit",
                "skillbook": shown_location(location),
                "version": version,
                "is_changed": after != now,
                "skill": skill_as_json(after),
                "undo": undo,
            }
        )
    elif after == now:
        print_text(f"{now.id} already has this text, section and cases; nothing was changed")
    else:
        print_text(f"edited [{after.id}] in section {after.section!r}: {visible(after.content)}")
        for added_case in after.cases:
            if added_case not in now.cases:
                print_text(
                    f"with case {added_case.id}: {visible(added_case.question)} => {visible(added_case.expected)}"
                )
        for removed_case in now.cases:
            if removed_case.id not in {kept.id for kept in after.cases}:
                print_text(f"without case {removed_case.id}: {visible(removed_case.question)}")
        print_undo(location, version, undo)
    return DONE


def _check_cases(skill: Skill, ids: Sequence[str]) -> None:
    known = {case.id for case in skill.cases}
    for name in ids:
        if name not in known:
            has = f"its cases are {', '.join(sorted(known))}" if known else "it has no cases"
            raise UsageError(f"--remove-case: the skill {skill.id!r} has no case {name!r}; {has}")


def _edit(
    book: Skillbook,
    location: str,
    skill: Skill,
    content: str | None,
    section: str | None,
    cases: Sequence[SkillCase],
    removed: Sequence[str],
) -> tuple[Skill, int | None]:
    """Change the skill if necessary, and return the new skill and the version of the store."""
    new_content = None if content is None or content == skill.content else content
    new_section = None if section is None or " ".join(section.split()) == skill.section else section
    known = {case.id for case in skill.cases} - set(removed)
    new_cases = [case for case in cases if case.id not in known]  # one that is there keeps its correction and result
    if new_content is None and new_section is None and not new_cases and not removed:
        return skill, book.version
    with book.deferred_commits():
        if new_content is not None or new_section is not None:
            book.update_skill(skill.id, content=new_content, section=new_section)
        if removed:
            book.remove_cases(skill.id, removed)
        if new_cases:
            book.put_cases(skill.id, new_cases)
        version = save(book, location, author="ace skillbook edit")
    return find_active(book, location, skill.id), version


def _opposite(before: Skill, after: Skill) -> list[str]:
    """Return the arguments of `ace skillbook` that restore a skill; empty if no command can."""
    text = [] if before.content == after.content else [before.content]
    if text and text[0].startswith("-"):
        text.insert(0, "--")
    section = [] if before.section == after.section else ["--section", before.section]
    ids_before, ids_after = ({case.id for case in skill.cases} for skill in (before, after))
    gone = [as_option(case) for case in before.cases if case.id not in ids_after]
    added = [case.id for case in after.cases if case.id not in ids_before]
    cases = [argument for id in added for argument in ("--remove-case", id)]
    for option in gone:
        if option is None:
            return []
        cases += ["--case", option]
    return ["edit", *section, *cases, before.id, *text]

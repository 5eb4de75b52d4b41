"""`ace skillbook edit`: gives a skill another text or section."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Annotated

from cyclopts import Parameter

from ace.cli.console import print_json, print_text, visible
from ace.cli.errors import DONE, UsageError
from ace.cli.options import JsonFlag, SkillbookOption
from ace.cli.questions import edited
from ace.cli.skillbooks.history import print_undo, undo_command
from ace.cli.skillbooks.lookup import find_active
from ace.cli.skillbooks.opening import check_writable, location_of, opened, save, text_or_stdin
from ace.cli.skillbooks.skill_output import skill_as_json
from ace.skill import Skill
from ace.skillbook import Skillbook
from ace.skillbook.stores import shown_location

__all__ = ["command"]


def command(
    skill_id: str,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    /,
    *,
    section: str | None = None,
    skillbook: SkillbookOption = None,
    as_json: JsonFlag = False,
) -> int:
    """Change the text of a skill, or move it to another section.

    Without a text and a section, the skill opens in your editor: the command in $VISUAL, else in $EDITOR. Counters
    and sources stay. In a store (.db) the change is a version of its own. The command that undoes it is printed.

    For example:

        ace skillbook edit maths-00001 "Check the units before you add."
        EDITOR="code --wait" ace skillbook edit maths-00001
        ace skillbook edit maths-00001 --section physics

    Args:
        skill_id: The id of the skill.
        text: The new text; - reads it from standard input.
        section: The section to move the skill to.
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        as_json: Print one JSON object.
    """
    location = location_of(skillbook)
    check_writable(location)
    with opened(location) as book:
        before = find_active(book, location, skill_id)
    is_in_editor = text is None and section is None
    given = text_or_stdin(text)
    if given is not None and not given.strip():
        raise UsageError(
            f"the new text is empty, so nothing was changed; `ace skillbook remove {before.id}` removes it"
        )
    with edited(before.content) if is_in_editor else nullcontext(given) as content, opened(location) as book:
        now = find_active(book, location, skill_id)
        if is_in_editor and now.content != before.content and content != before.content:
            raise UsageError(f"another process changed the skill {before.id!r} meanwhile, so nothing was changed")
        after, version = _edit(book, location, now, content, section)
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
        print_text(f"{now.id} already has this text and section; nothing was changed")
    else:
        print_text(f"edited [{after.id}] in section {after.section!r}: {visible(after.content)}")
        print_undo(location, version, undo)
    return DONE


def _edit(
    book: Skillbook, location: str, skill: Skill, content: str | None, section: str | None
) -> tuple[Skill, int | None]:
    """Make the change, if it is one, and return the skill as it is then, with the version of the store."""
    new_content = None if content is None or content == skill.content else content
    new_section = None if section is None or " ".join(section.split()) == skill.section else section
    if new_content is None and new_section is None:
        return skill, book.version
    with book.deferred_commits():
        book.update_skill(skill.id, content=new_content, section=new_section)
        version = save(book, location, author="ace skillbook edit")
    return find_active(book, location, skill.id), version


def _opposite(before: Skill, after: Skill) -> list[str]:
    """Return the arguments of `ace skillbook` that give a skill its old text and section again."""
    text = [] if before.content == after.content else [before.content]
    if text and text[0].startswith("-"):
        text.insert(0, "--")
    section = [] if before.section == after.section else ["--section", before.section]
    return ["edit", *section, before.id, *text]

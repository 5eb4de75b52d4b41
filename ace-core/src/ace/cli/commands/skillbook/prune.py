"""`ace skillbook prune`: removes skills that harm or do not help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ace.cli.console import counted, note, print_json, print_table, print_text, warnings_shown
from ace.cli.errors import DONE, UsageError, check_output_file
from ace.cli.learning.skill_testing import BookTest, code_of_stop
from ace.cli.options import Flag, JsonFlag, ModelOptions, SkillbookOption, YesFlag, check_from_one
from ace.cli.questions import can_ask, says_yes
from ace.cli.settings import clock_from_environment, load_settings
from ace.cli.skillbooks.described_history import print_undo, undo_command
from ace.cli.skillbooks.opened_book import check_writable, location_of, opened, save
from ace.skill import Skill
from ace.skillbook import Skillbook
from ace.skillbook.locations import shown_location
from ace.skillbook.pruning import PrunedSkill, PruneRules, prune, skills_to_prune

if TYPE_CHECKING:
    from ace.evaluation import SkillTestReport

__all__ = ["command", "unneeded_skills"]

_DEFAULT_MODEL = ModelOptions()
_AUTHOR = "ace skillbook prune"


def command(
    *,
    harmful: Annotated[bool, Parameter(show_default=False)] = True,
    unhelpful_uses: int | None = None,
    unused_days: float | None = None,
    invalid: Annotated[bool, Parameter(name=["--removed", "--invalid"], negative="", show_default=False)] = False,
    unneeded: Annotated[bool, Flag] = False,
    dry_run: Annotated[bool, Flag] = False,
    answers: Path | None = None,
    workers: int | None = None,
    skillbook: SkillbookOption = None,
    model_options: ModelOptions = _DEFAULT_MODEL,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Remove skills that harm or do not help.

    The skills are listed first, and you are asked for confirmation. Agents no longer see a removed skill, but it stays
    in the skillbook, and `ace skillbook restore` brings it back. In a .db skillbook, the change is one version.
    Without a terminal, nothing is removed unless --yes is given. Pinned skills are not removed.

    With --unneeded, the skillbook is tested with the model, as by `ace skillbook test --without`. The answers that
    show that a skill is no longer needed are recorded as evidence in the same version.

    For example:

        ace skillbook prune --dry-run
        ace skillbook prune --unhelpful-uses 5 --unused-days 90
        ace skillbook prune --no-harmful --removed --yes
        ace skillbook prune --unneeded --model openai/gpt-4o

    Args:
        harmful: Remove skills that were judged harmful more often than helpful; --no-harmful keeps them. [default: on]
        unhelpful_uses: Also remove skills that were judged at least this many times and never helped.
        unused_days: Also remove skills that are at least this many days old and were never judged.
        invalid: Also delete skills that were removed or merged into others earlier from the file.
        unneeded: Also remove skills whose cases the model answers correctly without them.
        dry_run: Change nothing, and show what would be done.
        answers: With --unneeded: a file in which to cache the answers, as for `ace skillbook test`.
        workers: With --unneeded: the number of cases to ask concurrently. [env: ACE_WORKERS] [default: 1]
        skillbook: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        model_options: With --unneeded: options of the model.
        yes: Do not ask for confirmation.
        as_json: Print one JSON object.
    """
    for name, least, value in (("--unhelpful-uses", 1, unhelpful_uses), ("--unused-days", 0, unused_days)):
        if value is not None and not value >= least:
            raise UsageError(f"{name} must be a number of at least {least}, got {value:g}")
    check_from_one({"--workers": workers})
    check_output_file("--answers", answers)
    options = {**model_options.flags(), "answers": answers, "workers": workers}
    if not unneeded and any(value is not None for value in options.values()):
        raise UsageError("the options of the model, --answers and --workers are for --unneeded; add it")
    settings = load_settings({**model_options.flags(), "workers": workers, "skillbook": skillbook})
    rules = PruneRules(harmful=harmful, unhelpful_uses=unhelpful_uses, unused_days=unused_days, invalid=invalid)
    location = location_of(skillbook)
    check_writable(location)
    with warnings_shown(), opened(location) as book:
        pruned = skills_to_prune(book.skills(include_invalid=True), rules, clock_from_environment()())
        if unneeded:
            test = BookTest(settings=settings, without=True, answers=answers)
            report = test.report(book, author=_AUTHOR, note_results=False, assume_yes=yes, quiet=as_json)
            stopped = code_of_stop(report, "so nothing was changed")
            if stopped:
                return stopped
            known = {entry.skill.id for entry in pruned}
            pruned += [entry for entry in unneeded_skills(book.skills(), report) if entry.skill.id not in known]
        version = book.version
        may_ask = not as_json and not yes and not dry_run and can_ask()
        if not as_json:
            _print(pruned, is_to_be_done=may_ask or not yes or dry_run)
        is_done = bool(pruned) and not dry_run and (yes or (may_ask and says_yes(f"{_planned(pruned)}; continue?")))
        if is_done:
            version = _prune(book, location, pruned)
    undo = undo_command(location, version) if is_done else ""
    if as_json:
        found = [_as_json(entry) for entry in pruned]
        print_json(
            {
                "command": "skillbook prune",
                "skillbook": shown_location(location),
                "version": version,
                "is_done": is_done,
                "skills": found,
                "undo": undo,
            }
        )
        return DONE
    if is_done:
        print_undo(location, version, undo)
    elif pruned:
        note("nothing was changed" + (": this was a dry run" if dry_run else "; --yes removes the skills"))
    return DONE


def _prune(book: Skillbook, location: str, pruned: Sequence[PrunedSkill]) -> int | None:
    with book.deferred_commits():
        prune(book, pruned)
        return save(book, location, author=_AUTHOR)


def _as_json(entry: PrunedSkill) -> dict[str, object]:
    return {
        "id": entry.skill.id,
        "section": entry.skill.section,
        "content": entry.skill.content,
        "reason": entry.reason,
        "evidence": entry.evidence,
        "is_removed_for_good": not entry.skill.is_active,
    }


def _planned(pruned: Sequence[PrunedSkill]) -> str:
    deleted = sum(not entry.skill.is_active for entry in pruned)
    removed = len(pruned) - deleted
    parts = [f"{counted(removed, 'skill')} will be removed"] if removed else []
    return ", ".join([*parts, f"{counted(deleted, 'skill')} will be deleted"] if deleted else parts)


def _print(pruned: Sequence[PrunedSkill], *, is_to_be_done: bool) -> None:
    """Print the skills that are removed, which agents no longer see, and those that are deleted from the file."""
    if not pruned:
        print_text("no skills to remove")
        return
    before = "will be " if is_to_be_done else ""
    print_table(
        ["skill", "why", "what", "content"],
        [
            [
                entry.skill.id,
                entry.reason,
                before + ("removed" if entry.skill.is_active else "deleted"),
                entry.skill.content,
            ]
            for entry in pruned
        ],
    )


def unneeded_skills(skills: Iterable[Skill], report: SkillTestReport) -> list[PrunedSkill]:
    """Return the skills that a test found to be unneeded, with the answers as evidence; without pinned ones.

    Args:
        skills: The skills of a book.
        report: The result of a test of the book that also asked the cases without skills.
    """
    tests = {test.case.id: test for test in report.cases}
    unneeded = {skill.skill_id for skill in report.skills if skill.verdict == "unneeded"}
    by = f" with {report.model}" if report.model else ""
    found = []
    for skill in skills:
        if skill.id in unneeded and not skill.pinned:
            why = f"{counted(len(skill.cases), 'case')} passed without skills{by}"
            of_skill = [tests[case.id] for case in skill.cases]
            answers = "; ".join(
                f"case {test.case.id}: {test.case.question} -> {test.answer_without}" for test in of_skill
            )
            found.append(PrunedSkill(skill, why, f"Unneeded: {why}. {answers}"))
    return found

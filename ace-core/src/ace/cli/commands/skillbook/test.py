"""`ace skillbook test`: asks the questions that the skills were learned from, and reports which skills work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ace._internal.atomic_file import replace_file
from ace.cli.console import counted, note, print_json, print_table, print_text, warnings_shown
from ace.cli.errors import DONE, WITH_FAILURES, UsageError, check_output_file
from ace.cli.learning.skill_testing import BookTest, code_of_stop, settings_against
from ace.cli.model_choice import chosen_model, place_of_model
from ace.cli.options import Flag, JsonFlag, ModelOptions, YesFlag, check_from_one
from ace.cli.settings import Settings, load_settings
from ace.cli.skillbooks.opened_book import SkillbookPlace, check_writable, opened_skillbook, save

if TYPE_CHECKING:
    from ace.evaluation import CaseTest, SkillTestReport, SkillVerdict

__all__ = ["command"]

_DEFAULT_MODEL = ModelOptions()
_AUTHOR = "ace skillbook test"


def command(
    location: Annotated[str | None, Parameter(name="--skillbook")] = None,
    *,
    only: Annotated[list[str] | None, Parameter(negative="")] = None,
    changed: Annotated[bool, Flag] = False,
    alone: Annotated[bool, Flag] = False,
    without: Annotated[bool, Flag] = False,
    against: str | None = None,
    fail_under: float | None = None,
    junit: Path | None = None,
    answers: Path | None = None,
    read_only: Annotated[bool, Flag] = False,
    workers: int | None = None,
    max_cost: float | None = None,
    model_options: ModelOptions = _DEFAULT_MODEL,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Test a skillbook: ask the questions that its skills were learned from again.

    Each skill has cases: questions that it was learned from, with what a correct answer contains. They are asked with
    the skills in the prompt, and the answers are checked strictly. A skill is proven if all its cases pass, failing if
    one fails, and unproven without cases. The results are recorded in the skillbook; in a .db skillbook, as one
    version.

    Exit codes: 0 if all cases pass, 1 if one fails or could not be asked, 2 for wrong usage.

    For example:

        ace skillbook test skills.db
        ace skillbook test --changed --junit report.xml --answers answers.jsonl
        ace skillbook test --model openai/gpt-4o-mini --against openai/gpt-4o

    Args:
        location: The skillbook. [env: ACE_SKILLBOOK] [default: skills.db]
        only: Test only this skill or case, by its id; repeatable.
        changed: Test only the cases that did not pass last time, and those of skills that have changed since or that
            are shown together with a changed skill.
        alone: Also ask each case with only its own skill in the prompt. This distinguishes a bad skill from one that
            other skills, which are named, interfere with.
        without: Also ask each case without skills, to find skills that are no longer needed.
        against: Another model to test the skillbook with, to see which skills help which model; implies --without.
        fail_under: Exit with 1 only if less than this share of the cases passes, from 0 to 1. [default: 1]
        junit: Write the results to this file as JUnit XML, which CI services display.
        answers: A file in which to cache the answers; with the same file, an unchanged case is not asked again.
        read_only: Do not record the results in the skillbook.
        workers: The number of cases to ask concurrently. [env: ACE_WORKERS] [default: 1]
        max_cost: Stop asking once the answers have cost this much (USD). [env: ACE_MAX_COST]
        model_options: Options of the model.
        yes: Do not ask for confirmation.
        as_json: Print one JSON object.
    """
    check_from_one({"--workers": workers})
    if fail_under is not None and not 0 <= fail_under <= 1:
        raise UsageError(f"--fail-under must be a share from 0 to 1, such as 0.95, got {fail_under:g}")
    check_output_file("--junit", junit)
    check_output_file("--answers", answers)
    flags = {**model_options.flags(), "workers": workers, "max_cost": max_cost, "skillbook": location}
    settings = load_settings(flags)
    if against == chosen_model(settings):
        raise UsageError(f"--against: {against!r} is the model of the test itself; give another one")
    place = SkillbookPlace(settings.skillbook)
    if not read_only:
        check_writable(settings.skillbook)
    test = BookTest(
        settings=settings,
        only=only,
        changed=changed,
        alone=alone,
        without=without or against is not None,
        answers=answers,
    )
    compared: dict[str, SkillTestReport] = {}
    with warnings_shown(), opened_skillbook(place, is_dry_run=read_only, must_exist=True) as (book, used):
        report = test.report(book, author=_AUTHOR, note_results=not read_only, assume_yes=yes, quiet=as_json)
        if report.is_noted and book.store is None:
            save(book, used.location, author=_AUTHOR)
        if against is not None and not report.stopped_by:
            other = replace(test, settings=settings_against(settings, against))
            compared = {against: other.report(book, author=_AUTHOR, note_results=False, assume_yes=yes, quiet=as_json)}
        version = None if read_only else book.version
    if junit is not None:
        from ace.evaluation import junit_xml

        replace_file(junit, junit_xml(report, place.name).encode("utf-8"))
    if as_json:
        _print_json(report, compared, settings, place, version)
    else:
        _print(report, compared, settings, is_alone=alone)
    return _exit_code([report, *compared.values()], fail_under)


def _exit_code(reports: Sequence[SkillTestReport], fail_under: float | None) -> int:
    for report in reports:
        code = code_of_stop(report, "the same command with --changed asks what is left")
        if code:
            return code
    report = reports[0]
    if fail_under is not None:
        return WITH_FAILURES if report.share is not None and report.share < fail_under else DONE
    return WITH_FAILURES if any(case.is_wrong for case in report.cases) else DONE


def _print_json(
    report: SkillTestReport,
    compared: Mapping[str, SkillTestReport],
    settings: Settings,
    place: SkillbookPlace,
    version: int | None,
) -> None:
    print_json(
        {
            "command": "skillbook test",
            "skillbook": str(place),
            "version": version,
            "place": place_of_model(settings),
            **report.to_dict(),
            "model": chosen_model(settings),
            "against": {model: result.to_dict() for model, result in compared.items()},
        }
    )


def _print(
    report: SkillTestReport, compared: Mapping[str, SkillTestReport], settings: Settings, *, is_alone: bool
) -> None:
    print_text(_summary(report))
    wrong = [case for case in report.cases if case.result != "passed"]
    if wrong:
        print_text("")
        rows = [_case_row(case) for case in wrong]
        print_table(("result", "case", "skill", "question", "answer", "expected", "why"), rows, title="Cases:")
    if report.skills:
        print_text("")
        columns, rows = _skill_table(report, {chosen_model(settings): report, **compared})
        print_table(columns, rows, title="Which skills help which model:" if compared else "Skills:")
    if any(skill.verdict == "failing" for skill in report.skills) and not is_alone:
        note("ace: --alone tells whether other skills interfere with a failing one")
    if any(skill.verdict == "unneeded" for skill in report.skills) and not compared:
        note("ace: `ace skillbook prune --unneeded` removes the skills that are no longer needed")


def _summary(report: SkillTestReport) -> str:
    if not report.cases:
        return "no cases to test"
    share = "" if report.share is None else f" ({report.share:.0%})"
    parts = [f"{len(report.passed)} of {counted(len(report.cases), 'case')} passed{share}"]
    parts += [f"{len(report.failed)} failed"] if report.failed else []
    parts += [f"{len(report.not_run)} not run"] if report.not_run else []
    return ", ".join(parts)


def _case_row(test: CaseTest) -> list[str]:
    return [
        test.result.replace("_", " "),
        test.case.id,
        ", ".join(test.skill_ids),
        test.case.question,
        test.answer or "-",
        test.expected,
        test.reason or "-",
    ]


def _skill_table(report: SkillTestReport, by_model: Mapping[str, SkillTestReport]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and the rows: the verdict of one model with its reason, or those of several models."""
    results = {test.case.id: test.result for test in report.cases}

    def passed(skill: SkillVerdict) -> str:
        tested = [results[id] for id in skill.cases if id in results]
        return f"{tested.count('passed')} of {len(tested)}" if tested else "-"

    if len(by_model) == 1:
        rows = [
            [skill.skill_id, skill.verdict, passed(skill), skill.reason or "-", skill.content]
            for skill in report.skills
        ]
        return ["skill", "verdict", "passed", "why", "content"], rows
    verdicts = [{skill.skill_id: skill.verdict for skill in other.skills} for other in by_model.values()]
    rows = [
        [skill.skill_id, *(found.get(skill.skill_id, "-") for found in verdicts), skill.content]
        for skill in report.skills
    ]
    return ["skill", *by_model, "content"], rows

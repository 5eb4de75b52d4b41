"""`ace eval`: compares accuracy with and without the skills, on samples whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ace._internal.atomic_file import make_folder
from ace.cli.console import counted, note, print_json, print_table, print_text, warnings_shown
from ace.cli.errors import DONE, INTERRUPTED, WITH_FAILURES, UsageError, check_is_path, check_output_file
from ace.cli.inputs import run_filter
from ace.cli.learning.command_agent import CommandAgent
from ace.cli.learning.evaluation_questions import evaluation_questions
from ace.cli.learning.measurement import Measurement, MeasurementStopped
from ace.cli.learning.respondent import Respondent
from ace.cli.learning.split_evaluation import SplitEvaluation
from ace.cli.options import Flag, JsonFlag, SettingOptions, YesFlag, check_from_one
from ace.cli.settings import Settings, load_settings
from ace.cli.skillbooks.opened_book import SkillbookPlace, opened_skillbook
from ace.environments import Sample

if TYPE_CHECKING:
    from ace.evaluation import EvaluationReport, ValidationPoint
    from ace.skillbook import Skillbook

__all__ = ["command"]


class EvalOptions(SettingOptions, command="eval"):
    """The settings of `ace eval`."""


_DEFAULT_OWN = EvalOptions()
_COLUMNS = ("per sample", "without skills", "with skills", "difference", "p", "test")
_LONGEST = 60


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """Options of the evaluation."""

    repeats: int = 1
    """How many times each sample is answered; with 2 or more, pass^k is also reported."""
    seed: int = 0
    """The random seed of the confidence intervals and significance tests."""
    leave_one_out: Annotated[bool, Flag] = False
    """Also measure the effect of each skill by omitting it; this answers every sample once more per skill."""
    answers: Path | None = None
    """A file in which to cache the answers; a later run with the same file asks only for the missing ones."""
    report: Path | None = None
    """A folder to write report.html, report.md and report.json to."""
    split: float | None = None
    """Learn from this share of the runs, the oldest ones, into a skillbook of its own, and ask the questions of the
    others: without skills, with them, and with the older runs as they are (raw memory). 0.8 learns from four fifths."""
    learned: Path | None = None
    """With --split, keep the skillbook in this .db file; a later run with the same file does not learn again."""
    agent: str | None = None
    """Ask your own agent instead of the model: a command that is run for each question, without a shell, and prints
    the answer, such as 'my-agent {question}'. The skills precede the question in its argument or, if the command has
    an argument {skills_file}, are in the file with this path."""
    agent_timeout: float = 600.0
    """The time that the command of --agent may take for a question, in seconds."""


_DEFAULT_OPTIONS = EvaluationOptions()


def command(
    path: Annotated[list[str], Parameter(name="path...", negative="", allow_leading_hyphen=True)],
    /,
    *,
    skillbook: Annotated[list[str] | None, Parameter(name="--skillbook", negative="")] = None,
    own: EvalOptions = _DEFAULT_OWN,
    options: EvaluationOptions = _DEFAULT_OPTIONS,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Compare accuracy with and without the skills.

    Every sample is answered twice: without skills, and with the skills in the prompt. Of recorded runs, the questions
    are asked again whose right answer is known: from a correction, feedback or a score. Use samples and runs that no
    skill was learned from. A sample that fails counts as a wrong answer. The skillbook is not changed.

    For example:

        ace eval held-out.jsonl
        ace eval held-out.jsonl --repeats 3 --report report/
        ace eval logs/ --split 0.8
        ace eval traces/ --agent 'my-agent {question}'
        ace eval held-out.jsonl --skillbook first.db --skillbook second.db

    Args:
        path: Files, folders or glob patterns of samples, or of recorded runs.
        skillbook: The skillbook. Repeat the option to compare several skillbooks, as a group, with no skills.
            [env: ACE_SKILLBOOK] [default: skills.db]
        own: Options of this command.
        options: Options of the evaluation.
        yes: Do not ask for confirmation.
        as_json: Print the whole report as one JSON object.
    """
    _check_split(options, skillbook)
    settings = load_settings({**own.flags(), "skillbook": skillbook[0] if skillbook else None})
    targets = [SkillbookPlace(name) for name in dict.fromkeys(skillbook or [settings.skillbook])]
    _check(options, targets)
    respondent = _respondent(settings, options, assume_yes=yes, is_quiet=as_json)
    if options.split is not None:
        return _split_evaluation(path, settings, respondent, options).carry_out()
    left_out = frozenset[Path]().union(*(target.own_files() for target in targets))
    samples, problems = evaluation_questions(
        path,
        respondent.with_judgements,
        limit=settings.limit,
        shuffle=settings.run.shuffle,
        wanted=run_filter(settings, left_out),
    )
    if options.report is not None:
        make_folder(options.report)  # before anything is paid for what could not be written
    with warnings_shown(), _opened(targets) as books:
        measurement = Measurement(
            respondent.evaluator(samples, options.answers),
            samples,
            model=respondent.model,
            repeats=options.repeats,
            seed=options.seed,
            max_cost=settings.run.max_cost,
        )
        training = _training_of(targets[0]) if len(targets) == 1 else ()
        answers = measurement.answers_needed(books, leave_one_out=options.leave_one_out)
        doing = f"answering {counted(len(samples), 'sample')}, {counted(answers, 'answer')} in all,"
        respondent.announce(doing)
        respondent.check(samples)
        for target, book in zip(targets, books, strict=True):
            _warn_of_learned(samples, target, book)
        try:
            report = measurement.report(
                dict(zip(map(str, targets), books, strict=True)),
                training=training,
                leave_one_out=options.leave_one_out,
                quiet=as_json,
            )
        except MeasurementStopped as stopped:
            kept = (
                "the same command continues where it stopped" if options.answers else "--answers FILE would keep them"
            )
            note(f"ace: stopped after {stopped}; {kept}")
            return WITH_FAILURES if stopped.reason == "max_cost" else INTERRUPTED
    has_failures = respondent.report_failures([report.comparison.baseline, report.comparison.learned])
    _write(report, options.report)
    _print(report, respondent, as_json=as_json)
    return WITH_FAILURES if has_failures or problems else DONE


def _check(options: EvaluationOptions, targets: Sequence[SkillbookPlace]) -> None:
    check_from_one({"--repeats": options.repeats})
    if not options.agent_timeout > 0:
        raise UsageError(f"the option --agent-timeout must be more than 0 seconds, got {options.agent_timeout:g}")
    check_output_file("--answers", options.answers)
    check_is_path("--report", options.report)
    if options.leave_one_out and len(targets) > 1:
        raise UsageError("--leave-one-out works with one skillbook; give --skillbook only once")


def _check_split(options: EvaluationOptions, skillbook: Sequence[str] | None) -> None:
    if options.split is None:
        if options.learned is not None:
            raise UsageError("--learned requires --split")
        return
    if not 0 < options.split < 1:
        raise UsageError(f"the option --split must be between 0 and 1, such as 0.8, got {options.split:g}")
    unusable = {
        "--skillbook": skillbook,
        "--report": options.report,
        "--leave-one-out": options.leave_one_out or None,
    }
    for option, value in unusable.items():
        if value is not None:
            hint = "; --learned FILE.db keeps the skills that are learned" if option == "--skillbook" else ""
            raise UsageError(f"{option} cannot be used with --split{hint}")
    if options.learned is not None and not SkillbookPlace(str(options.learned)).keeps_history:
        raise UsageError(f"--learned needs a .db file, which records what was learned, got {str(options.learned)!r}")


def _split_evaluation(
    paths: Sequence[str],
    settings: Settings,
    respondent: Respondent,
    options: EvaluationOptions,
) -> SplitEvaluation:
    from ace.cli.commands.learn import Learn

    assert options.split is not None
    return SplitEvaluation(
        paths=paths,
        settings=settings,
        respondent=respondent,
        command=Learn(),
        share=options.split,
        learned=options.learned,
        answers=options.answers,
        repeats=options.repeats,
        seed=options.seed,
    )


@contextmanager
def _opened(targets: Sequence[SkillbookPlace]) -> Iterator[list[Skillbook]]:
    with ExitStack() as stack:
        yield [stack.enter_context(opened_skillbook(target, is_dry_run=True, must_exist=True))[0] for target in targets]


def _warn_of_learned(samples: Sequence[Sample], target: SkillbookPlace, book: Skillbook) -> None:
    """Warn of samples that a skill was learned from, because correct answers to them prove nothing."""
    taught = {source.sample_question for skill in book.skills() for source in skill.sources}
    learned = [sample for sample in samples if sample.question in taught]
    if learned:
        note(
            f"ace: warning: {len(learned)} of {len(samples)} samples taught a skill of {str(target)!r}, "
            f"such as {learned[0].id}; use samples that no skill was learned from"
        )


def _respondent(settings: Settings, options: EvaluationOptions, *, assume_yes: bool, is_quiet: bool) -> Respondent:
    command = None if options.agent is None else CommandAgent(options.agent, options.agent_timeout)
    return Respondent(settings, command, options.agent or "", assume_yes, is_quiet)


def _training_of(target: SkillbookPlace) -> Sequence[ValidationPoint]:
    """Return the validations of the last training of a skillbook, which `ace train --validate` keeps next to it."""
    from ace.evaluation import TrainingLog

    try:
        log = TrainingLog(target.validation_log)
    except ValueError as error:
        raise UsageError(f"{error}, or move this file away") from error
    return [] if log.last_run is None else log.points_of(log.last_run)


def _write(report: EvaluationReport, folder: Path | None) -> None:
    if folder is None:
        return
    from ace._internal.atomic_file import replace_file
    from ace.evaluation import html_page, json_report, markdown_report

    values = json.dumps(json_report(report), indent=2)
    texts = {"html": html_page(report), "md": markdown_report(report), "json": f"{values}\n"}
    for suffix, text in texts.items():
        replace_file(folder / f"report.{suffix}", text.encode("utf-8"))
    note(f"ace: the report is in {str(folder / 'report.html')!r}")


def _print(report: EvaluationReport, respondent: Respondent, *, as_json: bool) -> None:
    from ace.evaluation import json_report
    from ace.evaluation.report import measure_rows, percent_text

    if as_json:
        values = {name: value for name, value in json_report(report).items() if name != "schema"}
        print_json({"command": "eval", "place": respondent.place, **values})
        return
    print_text(report.summary)
    print_table(_COLUMNS, measure_rows(report.comparison))
    changed = [sample for sample in report.comparison.samples if sample.outcome in ("gained", "lost")]
    if changed:
        print_text("")
        rows = [
            [sample.outcome, sample.sample_id, *(_short(side[0].answer) for side in (sample.baseline, sample.learned))]
            for sample in changed
        ]
        print_table(("outcome", "sample", "without skills", "with skills"), rows, title="What changed:")
    if report.left_out:
        print_text("")
        effects = [
            [skill.skill_id, percent_text(skill.effect, signed=True), f"{skill.p_value:.3g}", _short(skill.content)]
            for skill in report.left_out
        ]
        print_table(("skill", "points lost without it", "p", "content"), effects, title="Accuracy without each skill:")
    unused = [skill.skill_id for skill in report.skills if skill.is_never_cited]
    if unused:
        print_text(f"\nShown and never cited: {', '.join(unused)}")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."

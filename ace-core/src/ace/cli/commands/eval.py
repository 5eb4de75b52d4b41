"""`ace eval`: what the skills of a skillbook are worth, on samples whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ace.cli.console import note, print_json, print_table, print_text
from ace.cli.errors import DONE, INTERRUPTED, WITH_FAILURES, UsageError
from ace.cli.fetch_model import fetch_if_missing
from ace.cli.learning.interruption import run_interruptibly
from ace.cli.learning.log_lines import warnings_shown
from ace.cli.learning.opened_skillbook import opened_skillbook, skillbook_files
from ace.cli.learning.sample_files import all_samples
from ace.cli.model_choice import answers_depend_on, check_model, chosen_model, client_from_settings
from ace.cli.options import Flag, JsonFlag, ModelOptions, SkillbookOption, YesFlag
from ace.cli.settings import Settings, load_settings
from ace.pipeline import CancellationToken

if TYPE_CHECKING:
    from ace.environments import Sample
    from ace.evaluation import Evaluation, EvaluationReport, Evaluator
    from ace.skillbook import Skillbook

__all__ = ["command"]

Environment = Literal["contains", "exact", "numeric", "regex"]
_DEFAULT_MODEL = ModelOptions()
_COLUMNS = ("per sample", "without skills", "with skills", "difference", "p", "test")
_LONGEST = 60


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """How it is measured, and where the report goes."""

    repeats: int = 1
    """How often each sample is answered; from 2 on, pass^k is measured too."""
    seed: int = 0
    """For intervals and tests."""
    limit: int | None = None
    """Take so many samples at most."""
    shuffle: int | None = None
    """Take the samples in a random order, which this seed determines."""
    workers: int | None = None
    """How many samples are answered at once."""
    max_cost: float | None = None
    """Begin nothing new when the answers have cost so many US dollars."""
    leave_one_out: Annotated[bool, Flag] = False
    """Also answer all samples without each single skill; that takes as many rounds as there are skills."""
    answers: Path | None = None
    """A file that keeps every answer; given again, only what is missing is asked."""
    report: Path | None = None
    """A folder for report.html, report.md and report.json."""


_DEFAULT_OPTIONS = EvaluationOptions()


class _Stopped(Exception):
    """The evaluation ended before all answers were there."""


def command(
    path: Annotated[list[str], Parameter(negative="", allow_leading_hyphen=True)],
    /,
    *,
    environment: Environment = "contains",
    skillbook: SkillbookOption = None,
    model_options: ModelOptions = _DEFAULT_MODEL,
    options: EvaluationOptions = _DEFAULT_OPTIONS,
    yes: YesFlag = False,
    as_json: JsonFlag = False,
) -> int:
    """Answer samples without skills and with them, and compare. The skillbook is only read.

    Give samples that nothing was learned from. A sample that fails is a wrong answer.

    Args:
        path: Files, folders or globs of samples.
        environment: How an answer is judged: it contains the ground truth, is exactly the same text, has the same
            number, or matches the ground truth as a pattern (regex).
        skillbook: The skillbook; skills.db by default.
        model_options: How the model is reached.
        options: How it is measured.
        yes: Answer every question with yes.
        as_json: Print the whole report as one JSON object.
    """
    flags = {**model_options.flags(), "workers": options.workers, "max_cost": options.max_cost}
    settings = load_settings({**flags, "skillbook": skillbook})
    if options.repeats < 1:
        raise UsageError(f"the option --repeats wants a whole number from 1, not {options.repeats}")
    target = Path(settings.skillbook)
    samples = all_samples(path, limit=options.limit, shuffle=options.shuffle, left_out=skillbook_files(target))
    client = client_from_settings(settings)
    with warnings_shown(), opened_skillbook(target, is_dry_run=True, must_exist=True) as (book, _):
        fetch_if_missing(chosen_model(settings), assume_yes=yes)
        check_model(client, settings)
        from ace.environments import SimpleEnvironment
        from ace.evaluation import Evaluator
        from ace.implementations.roles_for_client import agent_for

        evaluator = Evaluator(
            agent_for(client),
            SimpleEnvironment(environment),
            workers=settings.workers or 1,
            answers_path=options.answers,
            label=answers_depend_on(settings, environment),
        )
        try:
            report = _measured(evaluator, samples, book, settings, options, title=f"What {target.name} is worth")
        except _Stopped as stopped:
            kept = "the same command goes on where it stopped" if options.answers else "--answers FILE would keep them"
            note(f"ace: stopped after {stopped}; {kept}")
            return WITH_FAILURES if "max_cost" in str(stopped) else INTERRUPTED
    _write(report, options.report)
    _print(report, as_json=as_json)
    return WITH_FAILURES if report.comparison.baseline.failed or report.comparison.learned.failed else DONE


def _measured(
    evaluator: Evaluator,
    samples: Sequence[Sample],
    book: Skillbook,
    settings: Settings,
    options: EvaluationOptions,
    *,
    title: str,
) -> EvaluationReport:
    from ace.evaluation import EvaluationReport, compare, leave_one_out, skill_effects
    from ace.skillbook import Skillbook

    baseline = _evaluated(evaluator, samples, Skillbook(), "without skills", options.repeats, settings.max_cost)
    left = None if settings.max_cost is None else settings.max_cost - (baseline.cost or 0.0)
    if left is not None and left <= 0:
        raise _Stopped("the answers without skills (max_cost)")
    learned = _evaluated(evaluator, samples, book, "with skills", options.repeats, left)
    return EvaluationReport(
        title=title,
        comparison=compare(baseline, learned, seed=options.seed),
        settings={
            "model": chosen_model(settings),
            "skills": len(book.skills()),
            "samples": len(samples),
            "repeats": options.repeats,
            "seed": options.seed,
        },
        skills=skill_effects(learned, book, baseline),
        left_out=leave_one_out(evaluator, samples, book, repeats=options.repeats, seed=options.seed)
        if options.leave_one_out
        else (),
    )


def _evaluated(
    evaluator: Evaluator, samples: Sequence[Sample], book: Skillbook, name: str, repeats: int, max_cost: float | None
) -> Evaluation:
    token = CancellationToken()
    found: list[Evaluation] = []

    def run() -> None:
        found.append(
            evaluator.evaluate(samples, book, name=name, repeats=repeats, max_cost=max_cost, cancel_token=token)
        )

    def stop_softly() -> None:
        token.cancel()
        note("ace: stopping as soon as what is under way is answered; Ctrl-C again stops at once")

    run_interruptibly(run, on_first=stop_softly, on_second=lambda: None)
    evaluation = found[0]
    if not evaluation.is_complete:
        count = f"{len(evaluation.answers)} of {evaluation.planned} answers"
        raise _Stopped(f"{count} {name} ({evaluation.stopped_by})")
    return evaluation


def _write(report: EvaluationReport, folder: Path | None) -> None:
    if folder is None:
        return
    from ace.durable_file import replace_file
    from ace.evaluation import html_page, json_report, markdown_report

    values = json.dumps(json_report(report), indent=2)
    texts = {"html": html_page(report), "md": markdown_report(report), "json": f"{values}\n"}
    for suffix, text in texts.items():
        replace_file(folder / f"report.{suffix}", text.encode("utf-8"))
    note(f"ace: the report is in {str(folder / 'report.html')!r}")


def _print(report: EvaluationReport, *, as_json: bool) -> None:
    from ace.evaluation import json_report
    from ace.evaluation.report import measure_rows

    if as_json:
        values = {name: value for name, value in json_report(report).items() if name != "schema"}
        print_json({"command": "eval", **values})
        return
    print_text(report.summary)
    print_table(_COLUMNS, measure_rows(report.comparison))
    changed = [sample for sample in report.comparison.samples if sample.outcome in ("gained", "lost")]
    if changed:
        rows = [
            [sample.outcome, sample.sample_id, *(_short(side[0].answer) for side in (sample.baseline, sample.learned))]
            for sample in changed
        ]
        print_table(("outcome", "sample", "without skills", "with skills"), rows, title="What changed:")
    unused = [skill.skill_id for skill in report.skills if skill.is_never_cited]
    if unused:
        print_text(f"Shown and never cited: {', '.join(unused)}")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."

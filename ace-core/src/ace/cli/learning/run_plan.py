"""A run from its inputs to its exit code: which run it is, its progress, signals, limits and report."""

from __future__ import annotations

import hashlib
import json
import shlex
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ace._internal.options import keywords_of
from ace.calls.secrets import known_secrets
from ace.cli.console import counted, last_note, note, print_json, print_text, warnings_shown
from ace.cli.errors import DONE, INTERRUPTED, WITH_FAILURES, UsageError
from ace.cli.inputs import STANDARD_INPUT, GatheredTraces, gather_traces, run_filter
from ace.cli.inspection import confirm, formats_told, inspection_as_json, print_inspection
from ace.cli.learning.event_log import EventLog, older_logs
from ace.cli.learning.learning_command import LearningCommand, Results, RunFlags, reflector_from_settings
from ace.cli.learning.progress import run_progress_shown
from ace.cli.learning.run_report import RunCounts, epochs_of, print_report, report_as_json, write_results
from ace.cli.model_choice import announce, check_model, chosen_model, client_from_settings, place_of_model
from ace.cli.prompt_templates import read_templates
from ace.cli.settings import Settings
from ace.cli.signals import run_interruptibly
from ace.cli.skillbooks.opened_book import SkillbookPlace, check_place, location_of, opened_skillbook, saved_elsewhere
from ace.logs import Problem
from ace.pipeline import CancellationToken
from ace.protocols.observers import observing
from ace.redaction import Redactor
from ace.runners import RunInUseError, UnfinishedRun, give_up, unfinished_runs
from ace.runners.run_record import is_in_use, new_inputs
from ace.runners.run_session import SkillbookNotWrittenError

if TYPE_CHECKING:
    from ace.cli.learning.run_report import RunReport, SkillCounts
    from ace.protocols.llm import LLMClientLike
    from ace.protocols.roles import ReflectorLike
    from ace.runners import ACE, FailedSample, LearningOptions, RunOptions, TraceAnalyser
    from ace.skillbook import Skillbook

__all__ = ["REASONS", "RunPlan"]


@dataclass(frozen=True, slots=True)
class _Done:
    """The outcome of a run."""

    stopped_by: str = ""
    failed: Sequence[FailedSample] = ()
    further: Mapping[str, object] = field(default_factory=dict)
    problems: Sequence[Problem] = ()
    results: Results = ()


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What the user asked for."""

    command: LearningCommand
    paths: Sequence[str]
    settings: Settings
    options: RunFlags
    assume_yes: bool
    as_json: bool

    def carry_out(self) -> int:
        """Run, print the report, and return the exit code.

        The inputs, the place of the skillbook and, for a skillbook that does not exist yet, the model are checked
        before it is opened: a command that fails leaves no empty skillbook behind.

        Raises:
            UsageError: Something is wrong with what was asked for. Nothing was learned then.
        """
        target = SkillbookPlace(self.settings.skillbook)
        if self._resumes:
            self._check_resumable(target)
        client = client_from_settings(self.settings)
        templates = read_templates(self.settings.prompts, client)
        reflector = reflector_from_settings(self.settings, client, templates)
        counts = RunCounts()
        with warnings_shown(), self._gathered(target) as gathered, self.logged(client):
            inputs = self.command.inputs(gathered)
            if not inputs:
                first = gathered.problems[0]
                raise UsageError(f"nothing to learn from: {first.place}: {first.reason}")
            if self.command.reads_logs and (code := self._looked_at(gathered)) is not None:
                return code
            check_place(target, is_dry_run=self.options.dry_run)
            is_new = target.file is not None and not target.file.exists()
            if is_new:
                self._check_model(client, reflector, counts, len(inputs) * self.settings.epochs, gathered)
            is_dry_run = self.options.dry_run
            with opened_skillbook(target, is_dry_run=is_dry_run, quiet=True) as (book, place):
                run = self._chosen_run(book, resume=self._resumes)
                left = self._left(book, place, inputs, run)
                if left and not is_new:
                    self._check_model(client, reflector, counts, left, gathered)
                runner = self.command.runner(client, reflector, templates, self.learning_options(book, place))
                done = (
                    self._learn(runner, book, place, inputs, counts, run)
                    if left or run.is_resumed
                    else self._nothing_done()
                )
                if not left and not run.is_resumed:
                    counts.already_learned = len(inputs) * self.settings.epochs if not run.given_up else 0
                report = counts.report(
                    book, read=len(inputs), problems=[*gathered.problems, *done.problems], failed=done.failed
                )
                about, outcome = self._about(target, run, done), {**report_as_json(report), **done.further}
                if self.options.results is not None:
                    write_results(
                        self.options.results,
                        about=about,
                        settings=self.settings,
                        options=self._other_options(),
                        outcome=outcome,
                        epochs=epochs_of(done.results, len(inputs)),
                        book=book,
                    )
        if self.as_json:
            print_json({**about, **outcome})
        else:
            self.print_report(target, report, done.further, done.stopped_by)
        return _ending(
            done.stopped_by,
            self._way_on(target, done.stopped_by),
            noun=self.command.noun,
            failed=len(report.failures) - report.unreadable,
            has_problems=report.unreadable > 0 and not self.command.is_about_some_inputs,
        )

    def learn_into(
        self, book: Skillbook, place: SkillbookPlace, inputs: Sequence[Any], client: LLMClientLike, *, way_on: str
    ) -> tuple[RunReport, str]:
        """Learn from inputs into an open skillbook, for a command that does more than that.

        An unfinished run over the same inputs is resumed.

        Args:
            book: The skillbook that learns.
            place: Where it is open.
            inputs: What is learned from.
            client: The client of the model, which answers.
            way_on: What to do after the run was interrupted.

        Returns:
            The report, and what stopped the run.
        """
        counts = RunCounts()
        templates = read_templates(self.settings.prompts, client)
        reflector = reflector_from_settings(self.settings, client, templates)
        runner = self.command.runner(client, reflector, templates, self.learning_options(book, place))
        run = self._chosen_run(book, resume=bool(unfinished_runs(book)))
        done = self._learn(runner, book, place, inputs, counts, run, way_on)
        return counts.report(book, read=len(inputs), problems=(), failed=done.failed), done.stopped_by

    def _looked_at(self, gathered: GatheredTraces) -> int | None:
        """Ask where the runs are in doubt, before anything is paid for; return an exit code if none is learned from."""
        if not self.options.dry_run:
            is_wanted = confirm(gathered.summary, self.settings, assume_yes=self.assume_yes)
            return None if is_wanted else DONE
        if self.as_json:
            about = {
                "command": self.command.name,
                "dry_run": True,
                "skillbook": str(SkillbookPlace(self.settings.skillbook)),
            }
            print_json({**about, **inspection_as_json(gathered.summary, self.settings)})
        else:
            print_inspection(gathered.summary, self.settings)
            print_text("\nNothing was learned. --limit 3 tries a few.")
        return WITH_FAILURES if gathered.problems else DONE

    def _nothing_done(self) -> _Done:
        is_told = self.command.is_told_by_trace
        return _Done(further=self.command.further_results((), self.settings.epochs) if is_told else {})

    @property
    def _resumes(self) -> bool:
        return self.options.resume or self.options.give_up

    def _way_on(self, place: SkillbookPlace, stopped_by: str = "") -> str:
        return _how_to_go_on(
            place,
            can_resume=self.command.can_resume(place),
            is_dry_run=self.options.dry_run,
            stopped_by=stopped_by,
        )

    def _learn(
        self,
        runner: ACE | TraceAnalyser,
        book: Skillbook,
        place: SkillbookPlace,
        inputs: Sequence[Any],
        counts: RunCounts,
        run: _ChosenRun,
        way_on: str = "",
    ) -> _Done:
        results: list[Results] = []
        stopped_by = _run_learning(
            lambda token: results.append(self._run(runner, inputs, place, token, run)),
            book,
            place,
            counts,
            total=len(inputs) * self.settings.epochs,
            noun=self.command.noun,
            quiet=self.as_json or self.command.is_told_by_trace,
            way_on=way_on or self._way_on(place),
        )
        further = self.command.further_results(results[0], self.settings.epochs) if results else {}
        problems = self.command.problems(results[0]) if results else ()
        return _Done(stopped_by, runner.failures, further, problems, results[0] if results else ())

    def learning_options(self, book: Skillbook, place: SkillbookPlace) -> LearningOptions:
        """Return the settings of learning.

        Args:
            book: The skillbook that learns.
            place: Where it is open.
        """
        from ace.protocols.deduplication import DeduplicationConfig
        from ace.steps.checkpoint import SaveSkillbookStep

        settings = self.settings
        own: LearningOptions = {
            "skillbook": book,
            "dedup_config": DeduplicationConfig(enabled=settings.merge),
            "extra_steps": [
                *([SaveSkillbookStep(place.location, book)] if self.command.saves_after_each_input(place) else []),
                *self.command.further_steps(book),
            ],
            "failures_path": place.failures_file,
            **self.command.further_options(settings, place),
        }
        if self.options.dry_run:
            own["checkpoint_dir"] = None
        return {**keywords_of(settings.learning), **own}  # type: ignore[typeddict-item]  # the declared options

    def _about(self, target: SkillbookPlace, run: _ChosenRun, done: _Done) -> dict[str, object]:
        """Return what `--json` and `--results` say about the run."""
        return {
            "command": self.command.name,
            "skillbook": str(target),
            "dry_run": self.options.dry_run,
            "model": chosen_model(self.settings),
            "place": place_of_model(self.settings),
            "run": run.name,
            "stopped_by": done.stopped_by,
            "given_up": run.given_up,
        }

    def _other_options(self) -> dict[str, object]:
        """Return the options of the run that are not settings, and its inputs."""
        chosen = {name: value for name, value in vars(self.options).items() if name != "assign"}
        paths = {name: None if chosen[name] is None else str(chosen[name]) for name in ("config", "results", "log")}
        return {"paths": list(self.paths), **chosen, **paths}

    def logged(self, client: LLMClientLike) -> AbstractContextManager[None]:
        """Write the events of the run to the log while the block runs, if there is one.

        Args:
            client: The client, whose keys are redacted.
        """
        if self.options.log is None:
            return nullcontext()
        redactor = Redactor(known_secrets(client), allow=self.settings.learning.allow)
        return observing(EventLog(self.options.log, redactor, ids_only=self.settings.learning.provenance == "ids"))

    def print_report(
        self, target: SkillbookPlace, report: RunReport, further: Mapping[str, object], stopped_by: str = ""
    ) -> None:
        """Print the report for people.

        Args:
            target: The skillbook.
            further: What the command adds to it.
            stopped_by: Why the run was stopped; empty if it was not.
        """
        title = self._title(target, report, stopped_by)
        print_report(report, title=title, noun=self.command.noun, epochs=self.settings.epochs)
        for line in self.command.further_lines(further) if further else ():
            print_text(line)
        if not self.options.dry_run and (command := _next_command(target, report)):
            print_text(f"\nNext: {command}")

    def _title(self, target: SkillbookPlace, report: RunReport, stopped_by: str) -> str:
        if self.options.dry_run:
            return "Dry run: nothing was written"
        if stopped_by == "skillbook_not_written":
            return f"Stopped, because {target} cannot be written"
        if not report.skills.are_changed:
            return f"No skill of {target} was changed"
        return f"Learned into {target}: {_changes_told(report.skills)}"

    def _left(self, book: Skillbook, place: SkillbookPlace, inputs: Sequence[object], run: _ChosenRun) -> int:
        """Return how many inputs are left to learn from, over all epochs, and say why if that is not all of them."""
        everything = len(inputs) * self.settings.epochs
        noun = self.command.noun
        if run.given_up and not run.is_resumed:
            return 0
        if run.is_resumed and (self.settings.epochs > 1 or not self.command.learns_once(place)):
            return max(0, everything - run.done)
        if not self.command.learns_once(place):
            warning = self.command.why_not_once(place)
            if warning:
                note(f"ace: {warning}")
            return everything
        new = new_inputs(book, inputs)
        known = len(inputs) - new
        if known and not run.is_resumed:
            everything_known = f"the {noun}" if known == 1 else f"all {counted(known, noun)}"
            which = f"{known} of {counted(len(inputs), noun)}" if new else f"nothing to do: {everything_known}"
            note(f"ace: {which} had been learned before; --again learns them again")
        return new * self.settings.epochs

    def _check_model(
        self, client: LLMClientLike, reflector: ReflectorLike, counts: RunCounts, left: int, gathered: GatheredTraces
    ) -> None:
        """Say which model is used for how much and of what, fetch it where it is missing, and ask it for a word."""
        from ace.cli.fetch_model import fetch_if_missing  # not imported before the first line

        epochs = self.settings.epochs
        passes = f", {epochs} times each," if epochs > 1 else ""
        doing = f"{self.command.activity} {counted(-(-left // epochs), self.command.noun)}{passes}"
        of_attempts = reflector if self.command.is_told_by_trace else None
        announce(doing, self.settings, quiet=self.as_json, of_attempts=of_attempts)
        if self.command.reads_logs and not self.as_json and not self.command.is_told_by_trace:
            for line in formats_told(gathered.summary):
                note(f"ace: {line}")
        fetch_if_missing(self.settings, assume_yes=self.assume_yes)
        with observing(counts):
            check_model(client, self.settings)

    def _check_resumable(self, place: SkillbookPlace) -> None:
        if not place.keeps_history:
            raise UsageError("--resume needs a skillbook with a history: give --skillbook NAME.db")
        if not self.command.can_resume(place):
            raise UsageError(
                f"--resume needs the log of the validations, which is kept next to a file, and {str(place)!r} is "
                "not a file: omit --validate, or train into a .db file"
            )
        if self.options.dry_run and place.file is None:
            raise UsageError(
                f"a dry run on {str(place)!r} is made on a copy that does not know which runs are unfinished: "
                "omit --resume or --dry-run"
            )

    def _gathered(self, skillbook: SkillbookPlace) -> GatheredTraces:
        return gather_traces(
            self.paths,
            limit=self.settings.limit,
            shuffle=None if self.command.keeps_order else self.settings.run.shuffle,
            wanted=run_filter(self.settings, skillbook.own_files() | self._written_files()),
            accepts=self.command.accepts,
        )

    def _written_files(self) -> frozenset[Path]:
        """Return the files that commands write and that are not traces, even if they are in the folder of these."""
        older = older_logs(self.options.log) if self.options.log is not None else []
        written = [path for path in (self.options.results, self.options.log) if path is not None]
        artifacts = self.settings.artifacts
        of_loop = [self.settings.insights, *(artifacts.rglob("*") if artifacts.is_dir() else ())]
        return frozenset(path.resolve() for path in (*written, *older, *of_loop))

    def _chosen_run(self, book: Skillbook, *, resume: bool) -> _ChosenRun:
        same = {"epochs": self.settings.epochs, "shuffle": self.settings.run.shuffle, **self.command.run_identity}
        return _run_over_inputs(self.command.name, self.paths, same, book, resume=resume, gives_up=self.options.give_up)

    def _run(
        self,
        runner: ACE | TraceAnalyser,
        inputs: Sequence[Any],
        place: SkillbookPlace,
        token: CancellationToken,
        run: _ChosenRun,
    ) -> Results:
        own: RunOptions = {
            "workers": self.command.workers(self.settings),
            "cancel_token": token,
            "run_id": run.name,
            "resume": run.is_resumed,
            "once": self.command.learns_once(place),
        }
        options: RunOptions = {**keywords_of(self.settings.run), **own}  # type: ignore[typeddict-item]  # as declared
        if (lag := self.command.lag(self.settings)) is not None:
            options["max_in_flight"] = lag + 1
        return self.command.run(runner, inputs, self.settings, place, **options)


@dataclass(frozen=True, slots=True)
class _ChosenRun:
    """The run of a command."""

    name: str
    """Its name in the store."""
    is_resumed: bool = False
    """Whether an earlier command has begun it."""
    done: int = 0
    """How many inputs the earlier command has dealt with, over all epochs."""
    given_up: int = 0
    """How many failed inputs were given up just now."""


def _run_over_inputs(
    command: str,
    paths: Sequence[str],
    options: Mapping[str, object],
    book: Skillbook,
    *,
    resume: bool,
    gives_up: bool = False,
) -> _ChosenRun:
    """Return the run that the user wants: a new one, or an unfinished one over the same inputs.

    Args:
        command: The name of the command.
        paths: Its inputs.
        options: What else makes it another run, such as the number of epochs.
        book: The skillbook, which knows the runs that are not finished.
        resume: Whether the user wants to continue such a run.
        gives_up: Whether the failures of such runs are given up instead of being retried.

    Raises:
        UsageError: There is nothing to give up, or another process is working on the run.
    """
    beginning = f"{command}-{_hash_of(paths, options)}-"
    new = f"{beginning}{uuid.uuid4().hex[:12]}"
    if not resume:
        return _ChosenRun(new)
    in_use = [run.run_id for run in unfinished_runs(book) if _is_this(run, beginning) and is_in_use(book, run.run_id)]
    if in_use:
        raise UsageError(str(RunInUseError(in_use[-1])))
    given_up = _given_up(beginning, book) if gives_up else 0
    begun = [run for run in unfinished_runs(book) if _is_this(run, beginning)]
    if begun:
        return _ChosenRun(begun[-1].run_id, True, begun[-1].learned + given_up, given_up)
    if not gives_up:
        note("ace: no run over these inputs has anything left to resume, so a new one begins")
    return _ChosenRun(new, given_up=given_up)


def _is_this(run: UnfinishedRun, beginning: str) -> bool:
    return run.run_id.startswith(beginning)


def _given_up(beginning: str, book: Skillbook) -> int:
    """Give up what failed in the unfinished runs over the same inputs, and return how many inputs that were."""
    failed = [run.run_id for run in unfinished_runs(book) if _is_this(run, beginning) and run.failed]
    if not failed:
        raise UsageError("nothing to give up: no unfinished run over these inputs has failures")
    given_up = sum(give_up(book, run_id) for run_id in failed)
    note(f"ace: gave up {counted(given_up, 'input')} that failed; --again learns from them nevertheless")
    return given_up


def _hash_of(paths: Sequence[str], options: Mapping[str, object]) -> str:
    places = [path if path == STANDARD_INPUT else str(Path(path).absolute()) for path in paths]
    return hashlib.sha256(json.dumps([places, options], sort_keys=True).encode("utf-8")).hexdigest()[:12]


def _run_learning(
    run: Callable[[CancellationToken], object],
    book: Skillbook,
    place: SkillbookPlace,
    counts: RunCounts,
    *,
    total: int,
    noun: str,
    quiet: bool,
    way_on: str,
) -> str:
    """Run, show the progress, and end softly at the first signal and at once at the second.

    Args:
        run: Starts the run with a token, and returns when it is over.
        book: The skillbook that learns.
        place: Where it is open.
        counts: Counts what happens.
        total: How many inputs there are, over all epochs.
        noun: What one input is called.
        quiet: Whether to show no progress.
        way_on: What `_how_to_go_on` returned.

    Returns:
        What stopped the run: `cancelled` (a signal), `max_cost`, `fail_fast`, `authentication`, `server_failures`,
        `early_stopping`, `nothing_accepted`, `skillbook_not_written`, or nothing.
    """
    token = CancellationToken()
    with run_progress_shown(total, noun, quiet=quiet) as progress, observing(counts), observing(progress):

        def stop_softly() -> None:
            token.cancel()
            note("ace: stopping after the current step; press Ctrl-C again to stop immediately")

        def stop_at_once() -> None:
            progress.restore()
            if not place.keeps_history:
                book.save_to_file(place.location, merge=True)
            last_note(f"ace: stopped immediately; {way_on}")

        try:
            run_interruptibly(lambda: run(token), on_first=stop_softly, on_second=stop_at_once)
        except SkillbookNotWrittenError as error:
            progress.close()
            note(f"ace: {error.reason}")
            if place.file is not None and not (place.keeps_history and place.file.exists()):
                note(f"ace: a copy of what was learned is in {str(saved_elsewhere(book))!r}, until you move it")
            return "skillbook_not_written"
    return token.reason


def _changes_told(skills: SkillCounts) -> str:
    parts = {
        "added": skills.added,
        "pending": skills.pending,
        "updated": skills.updated,
        "tagged": skills.tagged,
        "merged": skills.merged,
        "removed": skills.removed,
    }
    (first, count), *others = ((what, number) for what, number in parts.items() if number)
    return ", ".join([f"{counted(count, 'skill')} {first}", *(f"{number} {what}" for what, number in others)])


def _next_command(place: SkillbookPlace, report: RunReport) -> str:
    """Return the command that shows what came out of a run; empty if it changed nothing."""
    is_default = place.location == location_of(None)
    if report.skills.pending:
        return shlex.join(["ace", "review", *([] if is_default else [str(place)])])
    if report.skills.are_changed:
        return shlex.join(["ace", "skillbook", "show", *([] if is_default else ["--skillbook", str(place)])])
    return ""


def _how_to_go_on(place: SkillbookPlace, *, can_resume: bool, is_dry_run: bool, stopped_by: str = "") -> str:
    """Return what to do after a run was stopped, or samples failed.

    Args:
        place: The skillbook.
        can_resume: Whether the run can be resumed.
        is_dry_run: Whether nothing was to be kept.
        stopped_by: What `_run_learning` returned.
    """
    if is_dry_run:
        return "this was a dry run, and nothing was written"
    if place.file is not None and stopped_by == "skillbook_not_written":
        if not place.keeps_history:
            return f"learn into the copy, or move it to {str(place)!r}"
        if not place.file.exists():
            return f"learn into the copy, or put {str(place)!r} back and continue with --resume"
    if can_resume:
        return "what was learned is kept; the same command with --resume continues the run"
    return f"what was learned is kept; a run into {place.name!r} cannot be resumed (one into a .db file can)"


def _ending(stopped_by: str, way_on: str, *, noun: str, failed: int, has_problems: bool) -> int:
    """Say how to continue, where there is something left, and return the exit code.

    Args:
        stopped_by: What `_run_learning` returned.
        way_on: What `_how_to_go_on` returned.
        noun: What one input is called.
        failed: How many inputs failed in the run.
        has_problems: Whether some of the chosen inputs could not be read.
    """
    has_failures = failed > 0 or has_problems
    if stopped_by == "nothing_accepted":
        note("ace: ended after an epoch that changed no skill")
        return WITH_FAILURES if has_failures else DONE
    if stopped_by == "early_stopping":
        note("ace: ended early, because validation found no improvement")
        return WITH_FAILURES if has_failures else DONE
    if stopped_by:
        note(f"ace: {REASONS[stopped_by]}; {way_on}")
    elif failed:
        note(f"ace: {counted(failed, noun)} failed; {way_on}")
    if stopped_by == "cancelled":
        return INTERRUPTED
    return WITH_FAILURES if stopped_by or has_failures else DONE


REASONS = {
    "cancelled": "stopped",
    "max_cost": "stopped, because the limit of --max-cost was reached",
    "fail_fast": "stopped at the first input that failed",
    "authentication": "stopped, because the server of the model refused the key; check the key",
    "server_failures": "stopped, because the model could not be reached for several inputs in a row",
    "skillbook_not_written": "stopped, because the skillbook cannot be written",
}

"""A run from its inputs to its exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ace.cli.console import note, print_json, print_text
from ace.cli.errors import UsageError
from ace.cli.fetch_model import fetch_if_missing
from ace.cli.inputs import GatheredTraces, gather_traces, readable_records
from ace.cli.learning.learning_command import LearningCommand, Results
from ace.cli.learning.log_lines import warnings_shown
from ace.cli.learning.opened_skillbook import check_place, opened_skillbook
from ace.cli.learning.report_output import print_report, report_as_json
from ace.cli.learning.run_counts import RunCounts
from ace.cli.learning.run_names import ChosenRun, chosen_run
from ace.cli.learning.run_options import RunOptions
from ace.cli.learning.session import ending, how_to_go_on, run_learning
from ace.cli.learning.skillbook_place import SkillbookPlace
from ace.cli.model_choice import announce, check_model, chosen_model, client_from_settings, place_of_model
from ace.cli.settings import Settings
from ace.cli.wording import counted
from ace.protocols.observers import observing
from ace.runners.once import new_inputs

if TYPE_CHECKING:
    from ace.cli.learning.run_report import RunReport
    from ace.pipeline import CancellationToken
    from ace.protocols.llm import LLMClientLike
    from ace.runners import ACE, FailedSample, TraceAnalyser
    from ace.skillbook import Skillbook

__all__ = ["RunPlan"]


@dataclass(frozen=True, slots=True)
class _Done:
    """What became of a run."""

    stopped_by: str = ""
    failed: Sequence[FailedSample] = ()
    further: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What the user asked for."""

    command: LearningCommand
    paths: Sequence[str]
    settings: Settings
    options: RunOptions
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
        counts = RunCounts()
        with warnings_shown(), self._gathered(target) as gathered, readable_records():
            inputs = self.command.inputs(gathered)
            if not inputs:
                first = gathered.problems[0]
                raise UsageError(f"there is nothing to learn from; {first.place}: {first.reason}")
            check_place(target, is_dry_run=self.options.dry_run)
            is_new = target.file is not None and not target.file.exists()
            if is_new:
                self._check_model(client, counts, len(inputs) * self.settings.epochs)
            with opened_skillbook(target, is_dry_run=self.options.dry_run) as (book, place):
                run = self._chosen_run(book)
                left = self._left(book, place, inputs, run)
                if left and not is_new:
                    self._check_model(client, counts, left)
                done = self._learn(client, book, place, inputs, counts, run) if left or run.is_resumed else _Done()
                if not left and not run.is_resumed:
                    counts.already_learned = len(inputs) * self.settings.epochs if not run.given_up else 0
                report = counts.report(book, read=len(inputs), problems=gathered.problems, failed=done.failed)
        self._report(target, report, run, done)
        return ending(
            done.stopped_by,
            self._way_on(target, done.stopped_by),
            noun=self.command.noun,
            failed=len(report.failures) - report.unreadable,
            has_problems=report.unreadable > 0,
        )

    @property
    def _resumes(self) -> bool:
        return self.options.resume or self.options.give_up

    def _way_on(self, place: SkillbookPlace, stopped_by: str = "") -> str:
        return how_to_go_on(
            place,
            can_resume=self.command.can_resume(place),
            is_dry_run=self.options.dry_run,
            stopped_by=stopped_by,
        )

    def _learn(
        self,
        client: LLMClientLike,
        book: Skillbook,
        place: SkillbookPlace,
        inputs: Sequence[Any],
        counts: RunCounts,
        run: ChosenRun,
    ) -> _Done:
        runner = self.command.runner(
            client,
            book,
            place,
            merge=not self.options.no_merge,
            allow=self.settings.allowed,
            provenance=self.settings.provenance,
            proofs=self.options.proofs,
        )
        results: list[Results] = []
        stopped_by = run_learning(
            lambda token: results.append(self._run(runner, inputs, place, token, run)),
            book,
            place,
            counts,
            total=len(inputs) * self.settings.epochs,
            noun=self.command.noun,
            quiet=self.as_json,
            way_on=self._way_on(place),
        )
        further = self.command.further_results(results[0], self.settings.epochs) if results else {}
        return _Done(stopped_by, runner.failures, further)

    def _report(self, target: SkillbookPlace, report: RunReport, run: ChosenRun, done: _Done) -> None:
        if self.as_json:
            about = {
                "command": self.command.name,
                "skillbook": str(target),
                "dry_run": self.options.dry_run,
                "model": chosen_model(self.settings),
                "place": place_of_model(self.settings),
                "run": run.name,
                "stopped_by": done.stopped_by,
                "given_up": run.given_up,
            }
            print_json({**about, **report_as_json(report), **done.further})
            return
        title = "Dry run: nothing was written" if self.options.dry_run else f"Learned into {target}"
        print_report(report, title=title, noun=self.command.noun, epochs=self.settings.epochs)
        for line in self.command.further_lines(done.further) if done.further else ():
            print_text(line)

    def _left(self, book: Skillbook, place: SkillbookPlace, inputs: Sequence[object], run: ChosenRun) -> int:
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
            which = f"{known} of {counted(len(inputs), noun)}" if new else f"nothing to do: all {counted(known, noun)}"
            note(f"ace: {which} had been learned before; --again learns them again")
        return new * self.settings.epochs

    def _check_model(self, client: LLMClientLike, counts: RunCounts, left: int) -> None:
        """Say which model is used for how much, fetch it where it is missing, and ask it for a word."""
        epochs = self.settings.epochs
        passes = f", {epochs} times each," if epochs > 1 else ""
        doing = f"{self.command.activity} {counted(-(-left // epochs), self.command.noun)}{passes}"
        announce(doing, self.settings, quiet=self.as_json)
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
            limit=self.options.limit,
            shuffle=self.options.shuffle,
            left_out=skillbook.own_files(),
            max_bytes=self.settings.max_input_bytes,
        )

    def _chosen_run(self, book: Skillbook) -> ChosenRun:
        same = {"epochs": self.settings.epochs, "shuffle": self.options.shuffle}
        return chosen_run(
            self.command.name, self.paths, same, book, resume=self._resumes, gives_up=self.options.give_up
        )

    def _run(
        self,
        runner: ACE | TraceAnalyser,
        inputs: Sequence[Any],
        place: SkillbookPlace,
        token: CancellationToken,
        run: ChosenRun,
    ) -> Results:
        return self.command.run(
            runner,
            inputs,
            self.settings,
            place,
            lag=self.settings.lag,
            shuffle=self.options.shuffle,
            max_cost=self.settings.max_cost,
            fail_fast=self.options.fail_fast,
            cancel_token=token,
            run_id=run.name,
            resume=run.is_resumed,
            once=self.command.learns_once(place),
            **self.command.run_arguments(self.settings),
        )

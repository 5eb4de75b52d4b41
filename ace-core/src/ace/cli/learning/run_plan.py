"""A run from its inputs to its exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ace.cli.console import print_json, print_text
from ace.cli.errors import UsageError
from ace.cli.fetch_model import fetch_if_missing
from ace.cli.inputs import GatheredTraces, gather_traces, readable_records
from ace.cli.learning.learning_command import LearningCommand, Results
from ace.cli.learning.log_lines import warnings_shown
from ace.cli.learning.opened_skillbook import opened_skillbook
from ace.cli.learning.report_output import print_report, report_as_json
from ace.cli.learning.run_counts import RunCounts
from ace.cli.learning.run_names import chosen_run
from ace.cli.learning.run_options import RunOptions
from ace.cli.learning.session import ending, how_to_go_on, run_learning
from ace.cli.learning.skillbook_place import SkillbookPlace
from ace.cli.model_choice import announce, check_model, chosen_model, client_from_settings, place_of_model
from ace.cli.settings import Settings
from ace.cli.wording import counted
from ace.protocols.observers import observing

if TYPE_CHECKING:
    from ace.pipeline import CancellationToken
    from ace.protocols.llm import LLMClientLike
    from ace.runners import ACE, TraceAnalyser
    from ace.skillbook import Skillbook

__all__ = ["RunPlan"]


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

        Raises:
            UsageError: Something is wrong with what was asked for. Nothing was learned then.
        """
        target = SkillbookPlace(self.settings.skillbook)
        if self.options.resume:
            self._check_resumable(target)
        way_on = how_to_go_on(target, can_resume=self.command.can_resume(target), is_dry_run=self.options.dry_run)
        client = client_from_settings(self.settings)
        counts = RunCounts()
        with (
            warnings_shown(),
            opened_skillbook(target, is_dry_run=self.options.dry_run) as (book, place),
            self._gathered(target) as gathered,
            readable_records(),
        ):
            inputs = self.command.inputs(gathered)
            if not inputs:
                first = gathered.problems[0]
                raise UsageError(f"there is nothing to learn from; {first.place}: {first.reason}")
            self._announce(len(inputs))
            name, resume = self._run_name(book)
            self._check(client, counts)
            runner = self.command.runner(
                client, book, place, merge=not self.options.no_merge, allow=self.settings.allowed
            )
            results: list[Results] = []
            stopped_by = run_learning(
                lambda token: results.append(self._run(runner, inputs, place, token, name, resume=resume)),
                book,
                place,
                counts,
                total=len(inputs) * self.settings.epochs,
                noun=self.command.noun,
                quiet=self.as_json,
                way_on=way_on,
            )
            report = counts.report(book, read=len(inputs), problems=gathered.problems, failed=runner.failures)
            further = self.command.further_results(results[0], self.settings.epochs) if results else {}
        if self.as_json:
            about = {
                "command": self.command.name,
                "skillbook": str(target),
                "dry_run": self.options.dry_run,
                "model": chosen_model(self.settings),
                "place": place_of_model(self.settings),
                "run": name,
                "stopped_by": stopped_by,
            }
            print_json({**about, **report_as_json(report), **further})
        else:
            title = "Dry run: nothing was written" if self.options.dry_run else f"Learned into {target}"
            print_report(report, title=title, noun=self.command.noun, epochs=self.settings.epochs)
            for line in self.command.further_lines(further) if further else ():
                print_text(line)
        return ending(
            stopped_by,
            way_on,
            noun=self.command.noun,
            failed=len(report.failures) - report.unreadable,
            has_problems=report.unreadable > 0,
        )

    def _announce(self, inputs: int) -> None:
        passes = f", {self.settings.epochs} times each," if self.settings.epochs > 1 else ""
        doing = f"{self.command.activity} {counted(inputs, self.command.noun)}{passes}"
        announce(doing, self.settings, quiet=self.as_json)

    def _check_resumable(self, place: SkillbookPlace) -> None:
        if not place.keeps_history:
            raise UsageError("--resume needs a skillbook that keeps what each run has done: give --skillbook NAME.db")
        if not self.command.can_resume(place):
            raise UsageError(
                f"--resume needs the log of the validations, which is kept beside a file, and {str(place)!r} is "
                "none: leave out --validate, or train into a .db file"
            )
        if self.options.dry_run and place.file is None:
            raise UsageError(
                f"a dry run on {str(place)!r} is made on a copy that does not know what was broken off: "
                "leave out --resume or --dry-run"
            )

    def _gathered(self, skillbook: SkillbookPlace) -> GatheredTraces:
        return gather_traces(
            self.paths,
            limit=self.options.limit,
            shuffle=self.options.shuffle,
            left_out=skillbook.own_files(),
            max_bytes=self.settings.max_input_bytes,
        )

    def _run_name(self, book: Skillbook) -> tuple[str, bool]:
        same = {"epochs": self.settings.epochs, "shuffle": self.options.shuffle}
        return chosen_run(self.command.name, self.paths, same, book, resume=self.options.resume)

    def _check(self, client: LLMClientLike, counts: RunCounts) -> None:
        fetch_if_missing(chosen_model(self.settings), assume_yes=self.assume_yes)
        with observing(counts):
            check_model(client, self.settings)

    def _run(
        self,
        runner: ACE | TraceAnalyser,
        inputs: Sequence[Any],
        place: SkillbookPlace,
        token: CancellationToken,
        name: str,
        *,
        resume: bool,
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
            run_id=name,
            resume=resume,
            **self.command.run_arguments(self.settings),
        )

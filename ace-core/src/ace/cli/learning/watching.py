"""`ace learn --watch`: learns from the attempts in a trace log as they are appended, until it is interrupted.

Each batch of attempts resumes the same run, so a restart continues it. If the model cannot be reached, the command
waits instead of ending, and retries the attempts that failed in the meantime when the model answers.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

from ace._internal.options import keywords_of
from ace.cli.console import counted, last_note, note, print_json, warnings_shown
from ace.cli.errors import DONE, WITH_FAILURES, UsageError
from ace.cli.fetch_model import fetch_if_missing
from ace.cli.learning.learning_command import reflector_from_settings
from ace.cli.learning.run_plan import REASONS, RunPlan
from ace.cli.learning.run_report import RunCounts, report_as_json
from ace.cli.model_choice import announce, chosen_model, client_from_settings, place_of_model
from ace.cli.prompt_templates import read_templates
from ace.cli.signals import run_interruptibly
from ace.cli.skillbooks.opened_book import SkillbookPlace, check_place, opened_skillbook
from ace.logs import Problem
from ace.loop import LoggedTrace, TraceLog, execution_to_trace, learning_turn, running_watcher, watching
from ace.pipeline import CancellationToken
from ace.protocols.errors import LLMCallError
from ace.protocols.observers import observing
from ace.runners import RecordedTrace, RunInUseError, TraceAnalyser
from ace.runners.failures import first_cause
from ace.runners.run_record import LearnedContents
from ace.runners.run_session import SkillbookNotWrittenError

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import SampleResult
    from ace.runners import RunOptions
    from ace.skillbook import Skillbook

__all__ = ["watch"]

_FAILURES_BEFORE_WAITING: Final = 5
_IN_ONE_TURN: Final = 10
_LONGEST_WAIT: Final = 60.0
"""In seconds."""
_LONGEST_PAUSE: Final = 0.1
"""The time after which an interrupted wait ends at the latest, in seconds."""


def watch(plan: RunPlan, journal: Callable[[Skillbook], None], tasks: Sequence[str]) -> int:
    """Learn from a log until the first signal, print the report, and return the exit code.

    Args:
        plan: The plan of the run; its only path is the log, which need not exist yet.
        journal: Called with the skillbook before the first attempt.
        tasks: The tasks whose attempts are learned from; all if it is empty.

    Raises:
        UsageError: The options or the log cannot be used. Nothing was learned.
    """
    path = Path(plan.paths[0])
    if path.exists() and not path.is_file():
        raise UsageError(f"--watch needs the file of a trace log, and {plan.paths[0]!r} is not a file")
    target = SkillbookPlace(plan.settings.skillbook)
    check_place(target)
    client = client_from_settings(plan.settings)
    templates = read_templates(plan.settings.prompts, client)
    reflector = reflector_from_settings(plan.settings, client, templates)
    with warnings_shown(), watching(path, target.location) as is_mine:
        if not is_mine:
            pid = running_watcher(path, target.location)
            process = "another process" if pid is None else f"the process {pid}"
            raise UsageError(f"{process} is already watching {str(path)!r} for this skillbook; end it first")
        doing = f"learning until Ctrl-C from the attempts in {path}"
        announce(doing, plan.settings, quiet=plan.as_json, of_attempts=reflector)
        fetch_if_missing(plan.settings, assume_yes=plan.assume_yes)
        counts = RunCounts()
        with plan.logged(client), opened_skillbook(target, quiet=plan.as_json) as (book, place), observing(counts):
            runner = plan.command.runner(client, reflector, templates, plan.learning_options(book, place))
            assert isinstance(runner, TraceAnalyser)
            journal(book)
            watcher = _Watcher(plan, runner, book, TraceLog(path), tasks, counts)
            stopped_by = _until_interrupted(watcher)
            problems = [Problem(str(path), problem.line, problem.reason) for problem in watcher.log.problems]
            report = counts.report(book, read=watcher.read, problems=problems, failed=runner.failures)
            further = plan.command.further_results((), 1)
            if plan.as_json:
                about = {"command": "learn", "skillbook": str(target), "model": chosen_model(plan.settings)}
                about |= {"place": place_of_model(plan.settings), "run": watcher.run_id, "stopped_by": stopped_by}
                print_json({**about, **report_as_json(report), **further})
            else:
                plan.print_report(target, report, further, stopped_by)
    if stopped_by == "cancelled":
        if runner.failures:
            note(f"ace: {counted(len(runner.failures), 'attempt')} failed; the next --watch tries what is left again")
        return DONE
    note(f"ace: {REASONS.get(stopped_by, stopped_by)}; what was learned is kept, and the next --watch continues")
    return WITH_FAILURES


def _until_interrupted(watcher: _Watcher) -> str:
    """Watch until the first signal, and return what ended it: `cancelled`, or a limit."""

    def stop_softly() -> None:
        watcher.token.cancel()
        note("ace: stopping after the current attempt; press Ctrl-C again to stop immediately")

    def stop_at_once() -> None:
        last_note("ace: stopped immediately; what was learned is kept, and the next --watch continues")

    try:
        run_interruptibly(watcher.work, on_first=stop_softly, on_second=stop_at_once)
    except SkillbookNotWrittenError as error:
        note(f"ace: {error.reason}")
        return "skillbook_not_written"
    except RunInUseError as error:
        raise UsageError(str(error)) from error
    return watcher.token.reason


@final
class _Watcher:
    """Learns from the attempts that a log contains, and then from those that are appended."""

    def __init__(
        self,
        plan: RunPlan,
        runner: TraceAnalyser,
        book: Skillbook,
        log: TraceLog,
        tasks: Sequence[str],
        counts: RunCounts,
    ) -> None:
        self.log = log
        self.token = CancellationToken()
        self.read = 0
        """How many attempts were found."""
        self.run_id = f"watch-{_hash_of(log.path, tasks)}"
        self._plan = plan
        self._runner = runner
        self._book = book
        self._tasks = tasks
        self._counts = counts
        self._failures = 0  # in a row
        self._failed: dict[str, RecordedTrace] = {}
        self._current: RecordedTrace | None = None
        self._problems_reported = 0

    def work(self) -> None:
        store = self._book.store
        assert store is not None, "a skillbook without a history is refused"
        # What was learned before is skipped here: a run looks through its whole record each time.
        learned = None if getattr(self._plan.command, "again", False) else LearnedContents(store, "")
        for batch in self.log.follow_batches(self._tasks, cancel_token=self.token):
            self._tell_problems()
            self.read += len(batch)
            traces = [_recorded(entry) for entry in batch]
            new = [trace for trace in traces if learned is None or not learned.knows(trace)]
            self._counts.already_learned += len(traces) - len(new)
            if new and not self._learn(new):
                return

    def _learn(self, traces: Sequence[RecordedTrace]) -> bool:
        """Learn from a batch, then from those that failed before if the model answers; return whether to continue."""
        settings = self._plan.settings
        waiting, self._failed = self._failed, {}
        for part in [*_parts(traces), *_parts(list(waiting.values()))]:
            if self._failures and part[0].place in waiting:
                self._failed = waiting | self._failed
                return True
            left = None if settings.run.max_cost is None else settings.run.max_cost - self._counts.use.cost
            if left is not None and left <= 0:
                self.token.cancel("max_cost")
                return False
            with learning_turn(settings.log_folder, settings.skillbook, cancel_token=self.token) as is_mine:
                if is_mine:
                    self._run(part, left)
            if self.token.is_cancelled:
                return False
        return True

    def _run(self, traces: Sequence[RecordedTrace], max_cost: float | None) -> None:
        settings = self._plan.settings
        own: RunOptions = {
            "run_id": self.run_id,
            "resume": "auto",
            "once": self._plan.command.learns_once(SkillbookPlace(settings.skillbook)),
            "max_in_flight": 1,
            "max_cost": max_cost,
            "max_consecutive_failures": sys.maxsize,
            "cancel_token": self.token,
            "on_sample_end": self._ended,
        }
        options: RunOptions = {**keywords_of(settings.run), **own}  # type: ignore[typeddict-item]  # as declared
        self._runner.run(self._paced(traces), **options)

    def _paced(self, traces: Sequence[RecordedTrace]) -> Iterator[RecordedTrace]:
        """Yield the attempts, after a wait if the model could not be reached for the last ones."""
        for trace in traces:
            beyond = self._failures - _FAILURES_BEFORE_WAITING
            if beyond >= 0:
                seconds = min(2.0 ** min(beyond, 10), _LONGEST_WAIT)
                note(
                    f"ace: the model could not be reached for {self._failures} attempts; trying again in {seconds:g} s"
                )
                self._wait(seconds)
            if self.token.is_cancelled:
                return
            self._current = trace
            yield trace

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.token.is_cancelled and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LONGEST_PAUSE))

    def _ended(self, result: SampleResult[ACEStepContext]) -> None:
        call = None if result.error is None else first_cause(result.error, LLMCallError)
        if call is not None and not call.concerns_one_request:
            self._failures += 1
            if self._current is not None:
                self._failed[self._current.place] = self._current
        elif result.output is not None or call is not None:
            self._failures = 0

    def _tell_problems(self) -> None:
        for problem in self.log.problems[self._problems_reported :]:
            note(f"ace: {self.log.path}:{problem.line}: {problem.reason}")
        self._problems_reported = len(self.log.problems)


def _parts(traces: Sequence[RecordedTrace]) -> list[Sequence[RecordedTrace]]:
    """Return the attempts in parts, between which other processes may learn."""
    return [traces[start : start + _IN_ONE_TURN] for start in range(0, len(traces), _IN_ONE_TURN)]


def _recorded(found: LoggedTrace) -> RecordedTrace:
    return RecordedTrace(execution_to_trace(found.trace), found.trace.place)


def _hash_of(path: Path, tasks: Sequence[str]) -> str:
    text = json.dumps([str(path.absolute()), sorted(tasks)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]

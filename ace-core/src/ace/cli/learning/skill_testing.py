"""Tests a skillbook for a command: with its model, its progress, and until a signal stops it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ace.cli.console import counted, note
from ace.cli.errors import DONE, INTERRUPTED, WITH_FAILURES, UsageError
from ace.cli.fetch_model import fetch_if_missing
from ace.cli.learning.progress import AnswerTally, displayed
from ace.cli.model_choice import announce, answers_depend_on, check_model, client_from_settings
from ace.cli.prompt_templates import read_templates
from ace.cli.settings import Settings, clock_from_environment
from ace.cli.signals import run_interruptibly
from ace.pipeline import CancellationToken

if TYPE_CHECKING:
    from ace.evaluation import SkillTestProgress, SkillTestReport, SkillTests
    from ace.protocols.llm import LLMClientLike
    from ace.skillbook import Skillbook

__all__ = ["BookTest", "code_of_stop", "settings_against"]

_STOPPED = {
    "cancelled": "by a signal",
    "max_cost": "after the limit of cost was reached",
    "authentication": "because the server refused the key",
    "server_failures": "because the model could not be reached",
}


@dataclass(frozen=True, kw_only=True)
class BookTest:
    """What of a skillbook is tested, and how."""

    settings: Settings
    """The model, the workers and the limit of cost."""
    only: Collection[str] | None = None
    """The ids of the skills and cases to test; None for all."""
    changed: bool = False
    """Whether only what changed is tested."""
    alone: bool = False
    """Whether each skill is also tested alone."""
    without: bool = False
    """Whether the cases are also asked without skills."""
    answers: Path | None = None
    """The file that keeps the answers."""

    def report(
        self, book: Skillbook, *, author: str, note_results: bool, assume_yes: bool, quiet: bool
    ) -> SkillTestReport:
        """Say what is done, do it, and return what was found.

        The model is asked for a word first, unless the file has all answers.

        Args:
            book: The skillbook.
            author: Who notes the results, for the history.
            note_results: Whether they are noted at all.
            assume_yes: Whether `--yes` was given.
            quiet: Whether only the result is printed.

        Raises:
            UsageError: There is no such skill or case, the answers file holds something else, or the model does not
                answer.
        """
        client = client_from_settings(self.settings)
        tests = self._tests(book, client)
        try:
            cases = tests.cases(only=self.only, changed=self.changed)
        except ValueError as error:
            raise UsageError(f"--only: {error}; `ace skillbook show` lists the skills") from error
        open_questions = tests.unanswered(only=self.only, changed=self.changed, alone=self.alone, without=self.without)
        ids = {case.id for case in cases}
        carriers = sum(any(case.id in ids for case in skill.cases) for skill in book.skills())
        doing = f"testing {counted(len(cases), 'case')} of {counted(carriers, 'skill')}, "
        announce(f"{doing}{counted(open_questions, 'answer')} to ask for,", self.settings, quiet=quiet)
        if open_questions:
            fetch_if_missing(self.settings, assume_yes=assume_yes)
            check_model(client, self.settings)
        token = CancellationToken()

        def stop_softly() -> None:
            token.cancel()
            note("ace: stopping after the current answers; press Ctrl-C again to stop immediately")

        with _shown(quiet=quiet) as on_progress:
            return run_interruptibly(
                lambda: tests.run(
                    only=self.only,
                    changed=self.changed,
                    alone=self.alone,
                    without=self.without,
                    note=note_results,
                    author=author,
                    max_cost=self.settings.run.max_cost,
                    cancel_token=token,
                    on_progress=on_progress,
                ),
                on_first=stop_softly,
                on_second=lambda: None,
            )

    def _tests(self, book: Skillbook, client: LLMClientLike) -> SkillTests:
        from ace.evaluation import SkillTests
        from ace.evaluation.evaluator import text_hash
        from ace.roles.small_models import agent_for

        agent = agent_for(client, read_templates(self.settings.prompts, client).agent)
        prompt = text_hash(type(agent).__name__, agent.prompt_template)
        try:
            return SkillTests(
                book,
                agent,
                judge=client,
                workers=self.settings.run.workers or 1,
                answers_path=self.answers,
                label=answers_depend_on(self.settings, f"cases {prompt}"),
                clock=clock_from_environment(),
            )
        except ValueError as error:
            raise UsageError(f"--answers: {error}") from error


def settings_against(settings: Settings, model: str) -> Settings:
    """Return the settings for another model; one on this machine has no address.

    Args:
        settings: The settings of the command.
        model: The other model.
    """
    return replace(settings, model=model, api_base=None if model.startswith("local/") else settings.api_base)


def code_of_stop(report: SkillTestReport, how_to_continue: str) -> int:
    """Say why a test was stopped, if it was, and return the exit code for that.

    Args:
        report: What was found.
        how_to_continue: What to do about it.
    """
    if not report.stopped_by:
        return DONE
    note(f"ace: the test was stopped {_STOPPED.get(report.stopped_by, report.stopped_by)}; {how_to_continue}")
    return INTERRUPTED if report.stopped_by == "cancelled" else WITH_FAILURES


@contextmanager
def _shown(*, quiet: bool) -> Iterator[Callable[[SkillTestProgress], None]]:
    """Show how far a test is while the block runs."""
    tally = AnswerTally()
    with displayed(tally, quiet=quiet) as display:

        def show(progress: SkillTestProgress) -> None:
            tally.ended, tally.total, tally.skipped, tally.failed = progress
            display.show()

        yield show

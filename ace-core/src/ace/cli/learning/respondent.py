"""`Respondent`: who answers the questions of an evaluation, ACE's agent with a model or the user's own command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ace.calls.secrets import redact
from ace.cli.console import counted, note, visible
from ace.cli.errors import UsageError
from ace.cli.fetch_model import fetch_if_missing
from ace.cli.learning.command_agent import CommandAgent
from ace.cli.model_choice import (
    announce,
    answers_depend_on,
    check_model,
    chosen_model,
    client_from_settings,
    place_of_model,
)
from ace.cli.prompt_templates import read_templates
from ace.environments import Sample, SimpleEnvironment

if TYPE_CHECKING:
    from ace.cli.learning.judgement_reader import JudgementReader
    from ace.cli.settings import Settings
    from ace.evaluation import Evaluation, Evaluator
    from ace.protocols.llm import LLMClientLike
    from ace.protocols.roles import Retrieval
    from ace.roles import Agent

__all__ = ["Respondent"]


@dataclass(frozen=True)
class Respondent:
    """Who answers questions, and what judges the answers."""

    settings: Settings
    """The settings, which choose the model."""
    command: CommandAgent | None = None
    """The user's own agent; by default, ACE's agent asks the model."""
    command_line: str = ""
    """Its command line."""
    assume_yes: bool = False
    """Whether `--yes` was given."""
    is_quiet: bool = False
    """Whether only the result is printed."""

    @cached_property
    def client(self) -> LLMClientLike:
        """The client of the model."""
        return client_from_settings(self.settings)

    @cached_property
    def _agent(self) -> Agent:
        from ace.roles.small_models import agent_for

        return agent_for(self.client, read_templates(self.settings.prompts, self.client).agent)

    @property
    def model(self) -> str:
        """The model, or the command."""
        return chosen_model(self.settings) if self.command is None else self.command_line

    @property
    def place(self) -> str:
        """Where the answers come from, as text."""
        return place_of_model(self.settings) if self.command is None else "from a command"

    def needs_model(self, questions: Sequence[Sample]) -> bool:
        """Return whether the model is asked: it answers, or it judges an answer of the command.

        Args:
            questions: What is asked.
        """
        from ace.evaluation import case_of

        cases = [case_of(question) for question in questions]
        return self.command is None or any(case is not None and case.check.kind == "judge" for case in cases)

    def evaluator(
        self, questions: Sequence[Sample], answers_path: Path | None, *, retrieval: Retrieval | None = None
    ) -> Evaluator:
        """Return what asks the questions and judges the answers.

        Args:
            questions: What is asked; it decides whether a model has to judge.
            answers_path: The file that keeps the answers; None for none.
            retrieval: Chooses the skills that are shown.

        Raises:
            UsageError: The file has something else.
        """
        from ace.evaluation import CaseEnvironment, Evaluator
        from ace.evaluation.evaluator import text_hash

        environment = CaseEnvironment(
            self.client if self.needs_model(questions) else None,
            otherwise=SimpleEnvironment(self.settings.environment),
        )
        if self.command is None:
            template = read_templates(self.settings.prompts, self.client).agent
            label = answers_depend_on(self.settings, self.settings.environment)
            label = label if template is None else f"{label} prompt={text_hash(template)}"
        else:
            judge = f" judge={chosen_model(self.settings)}" if self.needs_model(questions) else ""
            label = f"{self.command_line} {self.settings.environment}{judge}"
        try:
            return Evaluator(
                self._agent if self.command is None else self.command,
                environment,
                retrieval=retrieval,
                workers=self.settings.run.workers or 1,
                answers_path=answers_path,
                label=label,
            )
        except ValueError as error:
            raise UsageError(f"--answers: {error}") from error

    @property
    def shows_some(self) -> bool:
        """Whether the agent itself shows its model only the skills that fit the question."""
        from ace.protocols.roles import ShowsSkills

        return self.command is None and isinstance(self._agent, ShowsSkills)

    def announce(self, doing: str) -> None:
        """Print the first line: how much there is to do, and who does it.

        Args:
            doing: What is done, to how much.
        """
        if self.command is None:
            announce(doing, self.settings, quiet=self.is_quiet)
        elif not self.is_quiet:
            note(f"ace: {visible(doing)} with the command {visible(self.command_line)}")

    def check(self, questions: Sequence[Sample]) -> None:
        """Fetch the model if it is missing, and ask it for a word, where the questions need it.

        Args:
            questions: What is asked.

        Raises:
            UsageError: The model does not answer.
        """
        if not self.needs_model(questions):
            return
        if self.command is not None:
            announce("judging the answers that code cannot judge,", self.settings, quiet=self.is_quiet)
        self.fetch_and_check()

    def fetch_and_check(self) -> None:
        """Fetch the model if it is missing, and ask it for a word, once.

        Raises:
            UsageError: The model does not answer.
        """
        assert self._answers

    @cached_property
    def _answers(self) -> bool:
        fetch_if_missing(self.settings, assume_yes=self.assume_yes)
        check_model(self.client, self.settings)
        return True

    @cached_property
    def reader(self) -> JudgementReader:
        """What finds the judgements of persons."""
        from ace.cli.learning.judgement_reader import JudgementReader

        return JudgementReader(self.client, self.settings)

    def with_judgements(self, traces: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return recorded runs with what persons said about their answers, which the model finds where it has to.

        Args:
            traces: Standard traces.

        Raises:
            UsageError: The model does not answer.
        """
        from ace.cli.learning.judgement_reader import needs_reading

        places = [place for place, trace in enumerate(traces) if needs_reading(trace)]
        if not places:
            return list(traces)
        announce(f"reading what persons said in {counted(len(places), 'run')}", self.settings, quiet=self.is_quiet)
        self.fetch_and_check()
        found = dict(zip(places, self.reader.read([traces[place] for place in places]), strict=True))
        return [found.get(place, trace) for place, trace in enumerate(traces)]

    def report_failures(self, evaluations: Sequence[Evaluation]) -> bool:
        """Say how many answers failed, and return whether any did.

        Args:
            evaluations: What was answered.

        Raises:
            UsageError: The command has not answered any question.
        """
        if self.command is not None and self.command.failure:
            raise UsageError(f"the command of --agent has answered no question: {self.command.failure}")
        failed = [answer for evaluation in evaluations for answer in evaluation.failed]
        if failed:
            planned = sum(evaluation.planned for evaluation in evaluations)
            reason = visible(redact(str(failed[0].error)))
            note(f"ace: {len(failed)} of {planned} answers failed and count as wrong: {reason}")
        return bool(failed)

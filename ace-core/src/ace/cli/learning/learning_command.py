"""`LearningCommand`: what differs between the commands that learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ace.cli.inputs import GatheredTraces
from ace.cli.learning.skillbook_place import SkillbookPlace
from ace.cli.settings import Settings

if TYPE_CHECKING:
    from ace.cli.learning.run_options import ProofOptions
    from ace.context import ACEStepContext
    from ace.pipeline import SampleResult
    from ace.protocols.llm import LLMClientLike
    from ace.runners import ACE, TraceAnalyser
    from ace.skill import Provenance
    from ace.skillbook import Skillbook
    from ace.steps.copy_guard import GuardedKind

__all__ = ["LearningCommand", "Results"]

Results = Sequence["SampleResult[ACEStepContext]"]


class LearningCommand(ABC):
    """What differs between the commands that learn."""

    name = ""
    """The name of the command."""
    noun = "trace"
    """What one input is called."""
    activity = "learning from"
    """What is done with the inputs, for the first line."""

    def inputs(self, gathered: GatheredTraces) -> Sequence[object]:
        """Return what the runner takes. What turns out not to be an input is added to the problems.

        Args:
            gathered: What was found.
        """
        return gathered.traces

    def learns_once(self, place: SkillbookPlace) -> bool:
        """Tell whether what any earlier run has learned is skipped.

        Args:
            place: The skillbook that learns.
        """
        return False

    def why_not_once(self, place: SkillbookPlace) -> str:
        """Return why all inputs are learned although the user may expect otherwise; empty if there is no reason to.

        Args:
            place: The skillbook that learns.
        """
        return ""

    @abstractmethod
    def runner(
        self,
        client: LLMClientLike,
        book: Skillbook,
        place: SkillbookPlace,
        *,
        merge: bool,
        allow: Sequence[GuardedKind],
        provenance: Provenance,
        proofs: ProofOptions,
    ) -> ACE | TraceAnalyser:
        """Return the runner.

        Args:
            client: The client of its roles.
            book: The skillbook that learns.
            place: Where it is open.
            merge: Whether similar skills are merged.
            allow: What is learned although the guard would reject it.
            provenance: What is kept of an input besides its skills.
            proofs: Whether and how what is learned is proven.
        """

    def run(
        self,
        runner: ACE | TraceAnalyser,
        inputs: Sequence[Any],
        settings: Settings,
        place: SkillbookPlace,
        **arguments: Any,
    ) -> Results:
        """Run.

        Args:
            runner: What `runner` returned.
            inputs: What `inputs` returned.
            settings: The settings of the command line.
            place: Where the skillbook is open.
            **arguments: Those of the runner's `run`.
        """
        return runner.run(inputs, settings.epochs, **arguments)

    def run_arguments(self, settings: Settings) -> dict[str, Any]:
        """Return further arguments of `run`.

        Args:
            settings: The settings of the command line.
        """
        return {}

    def can_resume(self, place: SkillbookPlace) -> bool:
        """Return whether an interrupted run can be resumed.

        Args:
            place: The skillbook that learns.
        """
        return place.keeps_history

    def further_results(self, results: Results, epochs: int) -> Mapping[str, object]:
        """Return what this command adds to the report, as JSON values.

        Args:
            results: What `run` returned.
            epochs: The number of passes over the inputs.
        """
        return {}

    def further_lines(self, further: Mapping[str, object]) -> Sequence[str]:
        """Return the same as lines for people.

        Args:
            further: What `further_results` returned.
        """
        return []

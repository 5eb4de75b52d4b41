"""The keys in the metadata of a context with which `ApplyStep` and the steps of the loop pass on what they know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ace.context import ACEStepContext

__all__ = ["APPLIED", "ARTIFACT", "INSIGHTS", "REFUSED", "VERDICT", "AppliesOperations"]

INSIGHTS: Final = "insights"
"""The insights of a sample, from `InsightStep`."""

VERDICT: Final = "gate_verdict"
"""The verdict of a gate, from `GateStep`."""

REFUSED: Final = "refused_operations"
"""The reasons of refused operations by their index, from `GateStep`."""

ARTIFACT: Final = "artifact_draft"
"""The draft of a folder, from `ArtifactDraftStep`."""

APPLIED: Final = "update_report"
"""The `UpdateReport` of `ApplyStep`, if a later step needs it."""


class AppliesOperations(Protocol):
    """The step that applies the operations, as far as the steps before it ask what it will omit."""

    def with_omitted(self, ctx: ACEStepContext) -> ACEStepContext:
        """Return a context from which `omitted` takes its answer."""
        ...

    def omitted(self, ctx: ACEStepContext) -> Mapping[int, str]:
        """Return the reasons for which operations are not applied, by their index in the batch."""
        ...

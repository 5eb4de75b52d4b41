"""The hook of the plugin `opik`. The target is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import ExtraStepsSpec, hookimpl

__all__ = ["ACE_API", "ace_extra_steps"]

ACE_API = 1


@hookimpl
def ace_extra_steps() -> Iterator[ExtraStepsSpec]:
    """Yield the step that `ACELiteLLM.from_model(..., opik=True)` appends."""
    yield ExtraStepsSpec(
        name="opik",
        target="ace_opik.steps:extra_steps",
        options=("project", "tags"),
        requires=("opik>=2.2.103,<3",),
        summary="Send samples and model calls to Opik",
    )

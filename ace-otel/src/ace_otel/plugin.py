"""The hooks of the plugin `otel`. The targets are imported on first use."""

from __future__ import annotations

from collections.abc import Iterator

from ace.plugins import CommandSpec, ObserverOption, ObserverSpec, hookimpl

__all__ = ["ACE_API", "ace_commands", "ace_observers"]

ACE_API = 1


@hookimpl
def ace_observers() -> Iterator[ObserverSpec]:
    """Yield the observer, which is called if `--otel` or `ACE_OTEL` enables it."""
    yield ObserverSpec(
        name="otel",
        target="ace_otel.instrumentation:observe",
        summary="Send runs, samples, steps and model calls to an OpenTelemetry collector",
        options=(
            ObserverOption(
                name="otel",
                summary="Send spans, metrics and logs to the collector of the OTEL_... variables, or to a backend",
                values=("langfuse", "logfire", "mlflow", "opik", "phoenix"),
                required_variables={
                    "langfuse": ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"),
                    "logfire": ("LOGFIRE_TOKEN",),
                },
            ),
            ObserverOption(name="otel-content", summary="Also send the texts of prompts, answers and errors, redacted"),
        ),
    )


@hookimpl
def ace_commands() -> Iterator[CommandSpec]:
    """Yield the subcommand `ace otel`."""
    yield CommandSpec(
        name="otel",
        target="ace_otel.commands:app",
        summary="Check the connection to an OpenTelemetry collector",
    )

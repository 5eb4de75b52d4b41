"""The file of `--results`: what a run was asked for, what came of it, and the skillbook, as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ace.atomic_file import replace_file
from ace.cli.console import JSON_SCHEMA
from ace.cli.settings import FIELDS, Settings, shown_setting

if TYPE_CHECKING:
    from ace.context import ACEStepContext
    from ace.pipeline import SampleResult
    from ace.skillbook import Skillbook

__all__ = ["epochs_of", "write_results"]


def write_results(
    path: Path,
    *,
    about: Mapping[str, object],
    settings: Settings,
    options: Mapping[str, object],
    outcome: Mapping[str, object],
    epochs: Sequence[Mapping[str, object]],
    book: Skillbook,
) -> None:
    """Write the file atomically.

    Args:
        path: The file; an earlier one is replaced.
        about: What `--json` says about the run.
        settings: The settings of the run. Keys are hidden.
        options: The other options of the run.
        outcome: What `--json` says about the outcome.
        epochs: What `epochs_of` returned.
        book: The skillbook after the run.

    Raises:
        OSError: The file cannot be written; an earlier one is not changed.
    """
    configuration = {
        "settings": {
            field.name: {"value": shown_setting(field, settings), "from": settings.origins[field.name]}
            for field in FIELDS
        },
        "options": dict(options),
    }
    document = {
        "schema": JSON_SCHEMA,
        **about,
        "configuration": configuration,
        **outcome,
        "epochs": list(epochs),
        "version": book.version,
        "book": json.loads(book.dumps()),
    }
    replace_file(path, f"{json.dumps(document, indent=2)}\n".encode("ascii"))


def epochs_of(results: Sequence[SampleResult[ACEStepContext]], epochs: int) -> list[dict[str, object]]:
    """Return what came of the samples of each epoch: how many failed, and the mean of each of their metrics.

    Args:
        results: The results of all epochs, in order; fewer if the run was stopped.
        epochs: The number of passes over the inputs.
    """
    size = max(1, len(results) // epochs)
    parts = [results[epoch * size : (epoch + 1) * size] for epoch in range(epochs)]
    return [
        {
            "epoch": number,
            "samples": len(part),
            "learned": sum(result.error is None for result in part),
            "metrics": _means([_metrics_of(result) for result in part]),
        }
        for number, part in enumerate(parts, 1)
        if part
    ]


def _metrics_of(result: SampleResult[ACEStepContext]) -> Mapping[str, float]:
    trace = None if result.output is None else result.output.trace
    metrics = trace.get("metrics") if isinstance(trace, Mapping) else None
    found = metrics if isinstance(metrics, Mapping) else {}
    return {str(name): float(value) for name, value in found.items() if isinstance(value, int | float)}


def _means(found: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the mean of each metric, with the number of samples that have it."""
    names = dict.fromkeys(name for metrics in found for name in metrics)
    values = {name: [metrics[name] for metrics in found if name in metrics] for name in names}
    return {name: {"mean": sum(given) / len(given), "samples": len(given)} for name, given in values.items()}

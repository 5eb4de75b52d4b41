"""What was found in logs, for people and programs, and the question whether to learn from it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ace.cli.console import counted, note, print_table, print_text
from ace.cli.errors import UsageError
from ace.cli.model_choice import chosen_model
from ace.cli.questions import can_ask, says_yes

if TYPE_CHECKING:
    from ace.cli.settings import Settings
    from ace.logs.summary import FormatCounts, LogSummary

__all__ = ["confirm", "existing_places", "formats_told", "inspection_as_json", "print_inspection"]

_CALLS_PER_RUN: Final = 2
"""A run is reflected on once, and what was found becomes changes of the skillbook once."""
_PROMPT_TOKENS: Final = 2_500
"""What these calls send beside the trace, on average: instructions, skills and the findings."""
_ANSWER_TOKENS: Final = 600
_PROBLEMS_SHOWN: Final = 10
_DECIDES: Final = (
    "--yes learns from them as they are, --limit 3 tries a few, --format NAME or --map FILE says how to read them"
)


def formats_told(summary: LogSummary) -> Iterator[str]:
    """Yield a line for each format, for the beginning of a run.

    Args:
        summary: What was found.
    """
    for name, counts in sorted(summary.formats.items()):
        parts = [
            f"{counts.with_task} with a task",
            f"{counts.with_answer} with an answer",
            f"{counts.succeeded} succeeded" if counts.succeeded else "",
            f"{counts.failed} failed" if counts.failed else "",
            f"{counted(counts.calls, 'call')}, {counts.failed_calls} failed" if counts.calls else "",
        ]
        where = f"{counted(counts.runs, 'run')} in {counted(len(counts.files), 'file')}"
        yield f"{_title(name)}: {where}: {'; '.join(filter(None, parts))}"


def confirm(summary: LogSummary, settings: Settings, *, assume_yes: bool) -> bool:
    """Ask where the runs may not be what the user means, and return whether to learn from them.

    Args:
        summary: What was found.
        settings: The settings; a limit, a format or a mapping decides.
        assume_yes: Whether the user has decided already.

    Raises:
        UsageError: Nobody can be asked.
    """
    questions = list(summary.questions())
    if not questions or assume_yes or settings.limit is not None or settings.format is not None:
        return True
    told = "; ".join(questions[:_PROBLEMS_SHOWN])
    if not can_ask():
        raise UsageError(f"{told}. Nothing was learned: {_DECIDES}")
    for question in questions:
        note(f"ace: {question}")
    if says_yes("ace: Learn from them as they are?"):
        return True
    note(f"ace: nothing was learned; {_DECIDES}")
    return False


def estimate(summary: LogSummary, settings: Settings) -> dict[str, Any]:
    """Return what learning from the runs takes: calls, tokens, and the price where it is known.

    Args:
        summary: What was found.
        settings: The settings that choose the model.
    """
    from ace.providers import price_of_model

    calls = summary.runs * _CALLS_PER_RUN
    sent = sum(counts.tokens for counts in summary.formats.values()) + calls * _PROMPT_TOKENS
    written = calls * _ANSWER_TOKENS
    model = chosen_model(settings)
    price = price_of_model(model)
    usd = None if price is None else (sent * price.input_usd + written * price.output_usd) / 1e6
    return {"model": model, "calls": calls, "input_tokens": sent, "output_tokens": written, "cost_usd": usd}


def inspection_as_json(summary: LogSummary, settings: Settings) -> dict[str, Any]:
    """Return everything that `print_inspection` shows.

    Args:
        summary: What was found.
        settings: The settings that choose the model.
    """
    return {**summary.as_json(), "estimate": estimate(summary, settings)}


def print_inspection(summary: LogSummary, settings: Settings) -> None:
    """Print what was found, what learning from it would cost, and what was not understood.

    Args:
        summary: What was found.
        settings: The settings that choose the model.
    """
    for name, counts in sorted(summary.formats.items()):
        print_table(("", ""), list(_rows(counts)), title=_title(name))
    print_text(_estimate_told(estimate(summary, settings)))
    _print_not_understood(summary)


def _rows(counts: FormatCounts) -> Iterator[tuple[str, str]]:
    yield "runs", f"{counts.runs:,} in {counted(len(counts.files), 'file')}"
    yield "with a task", f"{counts.with_task:,}"
    yield "with an answer", f"{counts.with_answer:,}"
    known = counts.succeeded + counts.failed
    yield "with a known outcome", f"{known:,} ({counts.succeeded:,} succeeded, {counts.failed:,} failed)"
    yield "calls of tools", f"{counts.calls:,} ({counts.failed_calls:,} failed)"
    yield "turns of persons", f"{counts.turns:,}"
    if counts.first and counts.last:
        yield "dates", f"{counts.first:%Y-%m-%d} to {counts.last:%Y-%m-%d}"
    yield "size", f"about {counts.tokens:,} tokens"


def _estimate_told(found: Mapping[str, Any]) -> str:
    sent = f"about {found['input_tokens']:,} tokens in {counted(found['calls'], 'call')}"
    usd = found["cost_usd"]
    price = "a model whose price is not known" if usd is None else f"about {usd:.2f} USD" if usd else "no charge"
    return f"Learning from them with {found['model']}: {sent}, {price}."


def _print_not_understood(summary: LogSummary) -> None:
    lines = [
        f"{_title(name)}: fields that were not understood: {', '.join(keys)}"
        for name, counts in sorted(summary.formats.items())
        if (keys := counts.unread_keys())
    ]
    problems = [str(problem) for problem in summary.problems if problem.kind != "doubt"]
    lines += problems[:_PROBLEMS_SHOWN]
    if len(problems) > _PROBLEMS_SHOWN:
        lines.append(f"... and {len(problems) - _PROBLEMS_SHOWN} more")
    if summary.side_files:
        lines.append(f"{counted(summary.side_files, 'file')} beside the logs were skipped: they are no runs")
    lines += list(summary.questions())
    if lines:
        print_text("\nNot understood:")
    for line in lines:
        print_text(f"  {line}")


def _title(name: str) -> str:
    from ace.logs import readers

    return next((reader.title for reader in readers() if reader.name == name), name)


def existing_places(patterns: Sequence[str]) -> list[str]:
    """Return the folders and files that exist at the default places of the readers.

    Args:
        patterns: Paths that may begin with `~` or a variable, and patterns.

    Example:
        >>> existing_places(["$NOT_SET_ANYWHERE/sessions/*.jsonl"])
        []
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        path = Path(os.path.expandvars(pattern)).expanduser()
        if "$" in str(path):
            continue
        fixed = Path(*path.parts[: next((n for n, part in enumerate(path.parts) if set("*?[") & set(part)), None)])
        if fixed.exists() and fixed not in (Path.home(), Path(fixed.anchor)):
            found[str(fixed)] = None
    return list(found)

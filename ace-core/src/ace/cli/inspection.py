"""What was found in logs, for people and programs, and the question whether to learn from it."""

from __future__ import annotations

import glob
import os
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ace.cli.console import counted, is_terminal, note, print_text, result_stream
from ace.cli.errors import UsageError
from ace.cli.model_choice import chosen_model
from ace.cli.questions import can_ask, says_yes
from ace.logs.summary import problems_told

if TYPE_CHECKING:
    from ace.cli.settings import Settings
    from ace.logs import LogReader, Run
    from ace.logs.summary import FormatCounts, LogSummary

__all__ = [
    "confirm",
    "cost_told",
    "estimate_of",
    "existing_places",
    "formats_told",
    "has_logs",
    "inspection_as_json",
    "print_inspection",
    "run_as_text",
]

_CALLS_PER_RUN: Final = 2
"""A run is reflected on once, and what was found becomes changes of the skillbook once."""
_PROMPT_TOKENS: Final = 1_000
"""What a call sends beside the trace, as measured with an empty skillbook; each skill adds some thirty."""
_ANSWER_TOKENS: Final = 500
"""What a call writes. This is an assumption: it depends on the model."""
_LARGE: Final = 10_000
_NUMBERS: Final = ("runs", "task", "answer", "success", "failure", "calls", "errors", "turns", "tokens", "files")
_HEADINGS: Final = (*_NUMBERS, "dates")
"""The columns of the table, the most important first: a narrow terminal does not show the last ones."""
_FEWEST_COLUMNS: Final = 4
_MARGIN: Final = "  "
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
            f"{_of_all(counts.with_task, counts)} with a task",
            f"{_of_all(counts.with_answer, counts)} with an answer",
            f"{counts.succeeded} succeeded" if counts.succeeded else "",
            f"{counts.failed} failed" if counts.failed else "",
            f"{counted(counts.calls, 'call')} ({counts.failed_calls} failed)" if counts.calls else "",
        ]
        where = f"{counted(counts.runs, 'run')} in {counted(len(counts.files), 'file')}"
        yield f"{_title(name)}: {where}, {', '.join(filter(None, parts))}"


def _of_all(count: int, counts: FormatCounts) -> str:
    return "all" if count == counts.runs else str(count or "none")


def confirm(summary: LogSummary, settings: Settings, *, assume_yes: bool) -> bool:
    """Ask where the runs may not be what the user means, and return whether to learn from them.

    Args:
        summary: What was found.
        settings: The settings; a limit, a format or a mapping decides.
        assume_yes: Whether the user has decided already.

    Raises:
        UsageError: No one can be asked.
    """
    questions = list(summary.questions())
    is_decided = any(choice is not None for choice in (settings.limit, settings.format, settings.map))
    if not questions or assume_yes or is_decided:
        return True
    if not can_ask():
        raise UsageError(f"{'. '.join(questions)}. Nothing was learned: {_DECIDES}")
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
    return estimate_of(summary.runs, sum(counts.tokens for counts in summary.formats.values()), settings)


def estimate_of(runs: int, tokens: int, settings: Settings, *, answers: int = 0) -> dict[str, Any]:
    """Return what learning from runs and asking questions takes: calls, tokens, and the price where it is known.

    Args:
        runs: How many runs are learned from.
        tokens: Their size.
        settings: The settings that choose the model.
        answers: How many questions are asked.
    """
    calls = runs * _CALLS_PER_RUN + answers
    sent = tokens + calls * _PROMPT_TOKENS
    model = chosen_model(settings)
    written = calls * _ANSWER_TOKENS
    usd = _usd(model, sent, written)
    return {"model": model, "calls": calls, "input_tokens": sent, "output_tokens": written, "cost_usd": usd}


def _usd(model: str, sent: int, written: int) -> float | None:
    """Return what tokens cost; None if the price is not known."""
    from ace.providers import price_of_model

    price = price_of_model(model)
    return None if price is None else (sent * price.input_usd + written * price.output_usd) / 1e6


def cost_told(model: str, calls: int, sent: int, written: int) -> str:
    """Return what calls of a model take, as text: tokens, calls and the price.

    Args:
        model: Its name, which has the price.
        calls: The number of calls.
        sent: The tokens of all prompts.
        written: The tokens of all answers.
    """
    usd = _usd(model, sent, written)
    price = "at a price that is not known" if usd is None else f"about {usd:.2f} USD" if usd else "no charge"
    return f"about {sent:,} tokens in {counted(calls, 'call')}, {price}"


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
    for line in _table(summary):
        print_text(line)
    print_text(f"\n{_wrapped(_estimate_told(estimate(summary, settings)))}")
    _print_not_understood(summary)


def _table(summary: LogSummary) -> Iterator[str]:
    """Yield a line for each format. In a terminal, the last columns are omitted if they do not fit."""
    names = sorted(summary.formats)
    rows = [("format", *_HEADINGS), *((name, *_cells(summary.formats[name])) for name in names)]
    if len(names) > 1:
        rows.append(("all", *_cells(summary.total())))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = shutil.get_terminal_size().columns if is_terminal(result_stream()) else None
    while room is not None and len(widths) > _FEWEST_COLUMNS and sum(widths) + len(widths) > room:
        widths.pop()
    for name, *cells in rows:
        shown = [cell.rjust(width) for cell, width in zip(cells, widths[1 : len(_NUMBERS) + 1], strict=False)]
        dates = cells[len(_NUMBERS) : len(widths) - 1]
        yield " ".join((name.ljust(widths[0]), *shown, *dates))


def _cells(counts: FormatCounts) -> Iterator[str]:
    """Yield what the columns of `_HEADINGS` say about a format."""
    for count in (counts.runs, counts.with_task, counts.with_answer, counts.succeeded, counts.failed):
        yield str(count or "-")
    yield f"{counts.calls or '-'}"
    yield f"{counts.failed_calls or '-'}"
    yield f"{counts.turns or '-'}"
    yield _thousands(counts.tokens)
    yield str(len(counts.files))
    yield f"{counts.first:%Y-%m-%d} to {counts.last:%Y-%m-%d}" if counts.first and counts.last else "-"


def _thousands(tokens: int) -> str:
    return str(tokens) if tokens < _LARGE else f"{tokens / 1000:,.0f}k"


def _estimate_told(found: Mapping[str, Any]) -> str:
    cost = cost_told(found["model"], found["calls"], found["input_tokens"], found["output_tokens"])
    return f"Learning from them with {found['model']}: {cost}."


def _print_not_understood(summary: LogSummary) -> None:
    lines = [
        f"{name}: fields that were not understood: {', '.join(keys)}"
        for name, counts in sorted(summary.formats.items())
        if (keys := counts.unread_keys())
    ]
    lines += problems_told([problem for problem in summary.problems if problem.kind != "doubt"])
    if summary.side_files:
        lines.append(f"{counted(summary.side_files, 'file')} beside the logs were skipped: they are not runs")
    lines += list(summary.questions())
    if lines:
        print_text("\nNot understood:")
    for line in lines:
        print_text(_wrapped(line, _MARGIN))


def _wrapped(line: str, margin: str = "") -> str:
    """Return a line with a margin, broken where a terminal would break it, so that it can be told from the next one."""
    width = shutil.get_terminal_size().columns if is_terminal(result_stream()) else len(line) + len(margin)
    return textwrap.fill(
        line,
        width,
        initial_indent=margin,
        subsequent_indent=margin * 2,
        break_long_words=False,
        break_on_hyphens=False,
    )


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
    for path in _expanded(patterns):
        fixed = Path(*path.parts[: next((n for n, part in enumerate(path.parts) if set("*?[") & set(part)), None)])
        if fixed.exists() and fixed not in (Path.home(), Path(fixed.anchor)):
            found[str(fixed)] = None
    return list(found)


def has_logs(reader: LogReader, among: Sequence[LogReader]) -> bool:
    """Return whether a file at one of the default places of a reader is a log that this reader would read.

    The names of files and folders prove nothing: other programs write to `logs`, too.

    Args:
        reader: The reader whose places are looked at.
        among: All readers, of which the most certain one reads a file.
    """
    return any(_is_log_of(reader, path, among) for path in _files_at_places_of(reader))


def _files_at_places_of(reader: LogReader) -> Iterator[Path]:
    from ace.logs.finding import files_in

    for pattern in _expanded(reader.places):
        for name in glob.iglob(str(pattern), recursive=True):  # noqa: PTH207  # pathlib takes no absolute pattern
            yield from (found for found in files_in(Path(name), [reader]) if isinstance(found, Path))


def _is_log_of(reader: LogReader, path: Path, among: Sequence[LogReader]) -> bool:
    from ace.logs import NotALogError, file_source
    from ace.logs.reading import reader_for

    try:
        return reader_for(file_source(path).head, among) is reader
    except (OSError, NotALogError):
        return False


def _expanded(patterns: Sequence[str]) -> Iterator[Path]:
    """Yield the patterns without `~` and variables; those with a variable that is not set are skipped."""
    for pattern in patterns:
        path = Path(os.path.expandvars(pattern)).expanduser()
        if "$" not in str(path):
            yield path


def run_as_text(run: Run) -> str:
    """Return a run as the reflector sees it, redacted."""
    from ace.logs.trace import read_trace
    from ace.redaction import Redactor
    from ace.roles.rendering import sections_as_text, sections_of

    return Redactor().redact(sections_as_text(sections_of(read_trace(run))))

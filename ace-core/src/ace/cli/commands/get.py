"""`ace get`: prints the skills, or the insights from attempts at tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from ace.cli.console import counted, note, print_json, print_table, print_text, visible
from ace.cli.errors import DONE, UsageError
from ace.cli.inputs import task_ids
from ace.cli.options import TASK_OPTION, JsonFlag
from ace.cli.settings import load_settings
from ace.loop import Insight, InsightLog, InsightStatus, confidence_word

__all__ = ["app", "insights"]

_HELP_OF_SKILLS = """Show the skills of a skillbook. The same as ace skillbook show.

For example:

    ace get skills
    ace get bullets --section "Build & Test Patterns"
"""

app = App(name="get", help="Print the skills, or the insights from attempts at tasks.", help_format="markdown")
app.command(
    "ace.cli.commands.skillbook.show:command",
    name=["skills", "bullets"],
    help=_HELP_OF_SKILLS,
    usage="Usage: ace get skills [OPTIONS] [IDS...]",
)

_MOST_TASKS = 3


@app.command
def insights(
    *,
    min_confidence: float = 0.0,
    task: Annotated[list[str] | None, Parameter(name=TASK_OPTION, negative="")] = None,
    status: InsightStatus | None = None,
    logs: str | None = None,
    as_json: JsonFlag = False,
) -> int:
    """List the insights from attempts at tasks with their confidence and status, highest confidence first.

    The confidence depends on how many different tasks support an insight. A pending one is not supported by enough
    tasks yet.

    For example:

        ace get insights
        ace get insights --status pending --min-confidence 0.7
        ace get insights --task bd-42 --json

    Args:
        min_confidence: Show only insights with at least this confidence, from 0 to 1.
        task: Show only insights from attempts at these tasks; separate ids by commas, or repeat the option.
        status: Show only insights that are pending, that became a skill (accepted), or that did not (refused).
        logs: The folder of insights.jsonl. [env: ACE_LOGS] [default: logs]
        as_json: Print one JSON object.
    """
    if not 0 <= min_confidence <= 1:
        raise UsageError(f"--min-confidence must be from 0 to 1, got {min_confidence:g}")
    tasks = task_ids(task or [])
    log = InsightLog(load_settings({"logs": logs}).insights)
    everything = log.insights()
    found = log.insights(tasks=tasks, status=status, min_confidence=min_confidence)
    found.sort(key=lambda insight: -insight.confidence)
    if as_json:
        print_json(
            {
                "command": "get insights",
                "log": str(log.path),
                "total": len(everything),
                "insights": [insight.as_record() for insight in found],
                "problems": log.problems,
            }
        )
        return DONE
    _print(found, total=len(everything), path=log.path)
    if log.problems:
        note(visible(f"ace: {counted(len(log.problems), 'line')} cannot be read, the first: {log.problems[0]}"))
    return DONE


def _print(found: Sequence[Insight], *, total: int, path: Path) -> None:
    if not total:
        print_text("No insights yet; `ace learn --task ID` records the insights from the attempts at a task.")
        return
    if not found:
        print_text(f"None of the {counted(total, 'insight')} in {path} matches.")
        return
    rows = [
        [
            f"{insight.confidence:.2f}",
            confidence_word(insight.confidence),
            insight.status,
            _tasks(insight),
            insight.recommendation,
        ]
        for insight in found
    ]
    by_status = Counter(insight.status for insight in found)
    counts = ", ".join(
        f"{by_status[status]} {status}" for status in ("accepted", "pending", "refused") if by_status[status]
    )
    title = f"{path}: {len(found)} of {counted(total, 'insight')} ({counts})"
    print_table(["confidence", "", "status", "tasks", "insight"], rows, title=title)


def _tasks(insight: Insight) -> str:
    shown = ", ".join(insight.tasks[:_MOST_TASKS])
    further = len(insight.tasks) - _MOST_TASKS
    return f"{shown} and {further} more" if further > 0 else shown

"""Chooses the traces of tasks from trace logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ace.cli.console import note
from ace.cli.errors import UsageError
from ace.cli.inputs.stored_record import StoredRecord
from ace.runners import RecordedTrace
from ace.trace_log import check_task_id

__all__ = ["TaskChoice", "task_ids"]

_MOST_SHOWN = 10


def task_ids(given: Iterable[str], source: str = "--task") -> tuple[str, ...]:
    """Return the ids of tasks that an option names, without repetitions.

    Args:
        given: The values of the option; each may be several ids, separated by commas.
        source: The option, for the error.

    Raises:
        UsageError: One of them is not the id of a task.
    """
    found = dict.fromkeys(id.strip() for value in given for id in value.split(","))
    for id in found:
        try:
            check_task_id(id)
        except ValueError as error:
            raise UsageError(f"{source}: {error}") from error
    return tuple(found)


class TaskChoice:
    """Accepts the traces of some tasks, and remembers which tasks it has seen.

    Args:
        ids: The ids of the tasks; if it is empty, every trace is accepted.
    """

    def __init__(self, ids: Sequence[str] = ()) -> None:
        self.ids = ids
        self._seen: dict[str, None] = {}

    def accepts(self, trace: RecordedTrace) -> bool:
        """Return whether a trace is one of the tasks.

        Args:
            trace: A trace that was found.
        """
        if not self.ids:
            return True
        record = trace.record
        if not isinstance(record, StoredRecord) or record.converter != "execution_trace":
            return False
        task = trace.place.partition("/")[0]  # the place of a logged trace is TASK/TRACE_ID
        self._seen[task] = None
        return task in self.ids

    def check(self, *, is_complete: bool) -> None:
        """Report tasks without traces.

        Args:
            is_complete: Whether all inputs were looked at.

        Raises:
            UsageError: None of the tasks has a trace.
        """
        missing = [task for task in self.ids if task not in self._seen]
        if not missing or not is_complete:
            return
        named = ", ".join(missing)
        if len(missing) < len(self.ids):
            note(f"ace: no trace of {named}; the other tasks are learned from")
            return
        known = ", ".join(list(self._seen)[:_MOST_SHOWN])
        more = f" and {len(self._seen) - _MOST_SHOWN} more" if len(self._seen) > _MOST_SHOWN else ""
        has = f"has traces of {known}{more}" if known else "has no traces of tasks"
        raise UsageError(f"no trace of {named}; the input {has}")

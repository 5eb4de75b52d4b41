"""Recorded traces from files, folders, globs and standard input. They are streamed, and are untrusted input."""

from ace.cli.inputs.gathering import STANDARD_INPUT, GatheredTraces, event_files, gather_traces
from ace.cli.inputs.problems import LARGEST_INPUT, InputProblem
from ace.cli.inputs.stored_record import ChangedRecordError, StoredRecord, readable_records
from ace.cli.inputs.tasks import TaskChoice, task_ids

__all__ = [
    "LARGEST_INPUT",
    "STANDARD_INPUT",
    "ChangedRecordError",
    "GatheredTraces",
    "InputProblem",
    "StoredRecord",
    "TaskChoice",
    "event_files",
    "gather_traces",
    "readable_records",
    "task_ids",
]

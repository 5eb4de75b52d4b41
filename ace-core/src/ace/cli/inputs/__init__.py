"""Recorded traces from files, folders, globs and standard input. They are streamed, and are untrusted input."""

from ace.cli.inputs.gathering import STANDARD_INPUT, GatheredTraces, TaskChoice, event_files, gather_traces, task_ids
from ace.cli.inputs.problems import LARGEST_INPUT, InputProblem
from ace.cli.inputs.stored_record import ChangedRecordError, StoredRecord, readable_records

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

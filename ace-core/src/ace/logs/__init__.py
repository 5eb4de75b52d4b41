"""Reads the logs that agents and their tools leave: `read_runs` yields the runs in files of some fifty formats.

A reader of another format is a `LogReader`, which a plugin provides with the hook `ace_log_readers`; a format that
differs only in the names of its fields is a `LogMapping`. Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ace.logs.building import RunBuilder, fields_of, text_of, time_of
    from ace.logs.decoding import NotALogError
    from ace.logs.head import LogHead, Record, Shape
    from ace.logs.mapping import LogMapping, MappingError, StepMapping
    from ace.logs.messages import add_message, add_messages
    from ace.logs.outcomes import is_failed_output, number_of, success_of
    from ace.logs.reader import LogReader
    from ace.logs.reading import read_runs, readers, register_log_reader, unregister_log_reader
    from ace.logs.run import Problem, Run, Speaker, Step, Tokens
    from ace.logs.source import Source, file_source, live_source, text_source
    from ace.logs.speakers import spoken_by_user
    from ace.logs.trace import read_trace, runs_in, traces_in

__all__ = [
    "LogHead",
    "LogMapping",
    "LogReader",
    "MappingError",
    "NotALogError",
    "Problem",
    "Record",
    "Run",
    "RunBuilder",
    "Shape",
    "Source",
    "Speaker",
    "Step",
    "StepMapping",
    "Tokens",
    "add_message",
    "add_messages",
    "fields_of",
    "file_source",
    "is_failed_output",
    "live_source",
    "number_of",
    "read_runs",
    "read_trace",
    "readers",
    "register_log_reader",
    "runs_in",
    "spoken_by_user",
    "success_of",
    "text_of",
    "text_source",
    "time_of",
    "traces_in",
    "unregister_log_reader",
]


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "LogHead": "head",
        "LogMapping": "mapping",
        "LogReader": "reader",
        "MappingError": "mapping",
        "NotALogError": "decoding",
        "Problem": "run",
        "Record": "head",
        "Run": "run",
        "Shape": "head",
        "Speaker": "run",
        "RunBuilder": "building",
        "Source": "source",
        "Step": "run",
        "StepMapping": "mapping",
        "Tokens": "run",
        "add_message": "messages",
        "add_messages": "messages",
        "fields_of": "building",
        "file_source": "source",
        "is_failed_output": "outcomes",
        "live_source": "source",
        "number_of": "outcomes",
        "read_runs": "reading",
        "read_trace": "trace",
        "readers": "reading",
        "register_log_reader": "reading",
        "runs_in": "trace",
        "spoken_by_user": "speakers",
        "success_of": "outcomes",
        "text_of": "building",
        "text_source": "source",
        "time_of": "building",
        "traces_in": "trace",
        "unregister_log_reader": "reading",
    },
)

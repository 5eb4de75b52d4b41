"""Reads the logs that agents and their tools leave: `read_runs` yields the runs in files of some fifty formats."""

from ace.logs.building import RunBuilder, fields_of, text_of, time_of
from ace.logs.head import Head, Record, Shape
from ace.logs.mapping import LogMapping, MappingError, StepMapping
from ace.logs.messages import add_message, add_messages
from ace.logs.reader import LogReader
from ace.logs.reading import read_runs, readers, register_log_reader, unregister_log_reader
from ace.logs.run import Problem, Run, Speaker, Step, Tokens
from ace.logs.source import Source, file_source, live_source
from ace.logs.speakers import spoken_by_user

__all__ = [
    "Head",
    "LogMapping",
    "LogReader",
    "MappingError",
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
    "live_source",
    "read_runs",
    "readers",
    "register_log_reader",
    "spoken_by_user",
    "text_of",
    "time_of",
    "unregister_log_reader",
]

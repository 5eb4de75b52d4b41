"""Reads the logs that agents and their tools leave: `read_runs` yields the runs in files of some fifty formats."""

from ace.logs.head import Head, Record
from ace.logs.mapping import LogMapping, MappingError, StepMapping
from ace.logs.reader import LogReader
from ace.logs.reading import read_runs, readers, register_log_reader, unregister_log_reader
from ace.logs.run import Problem, Run, Step, Tokens
from ace.logs.source import Source

__all__ = [
    "Head",
    "LogMapping",
    "LogReader",
    "MappingError",
    "Problem",
    "Record",
    "Run",
    "Source",
    "Step",
    "StepMapping",
    "Tokens",
    "read_runs",
    "readers",
    "register_log_reader",
    "unregister_log_reader",
]

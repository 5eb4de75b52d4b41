"""The formats that differ only in the names of their fields: an entry for each."""

from __future__ import annotations

from typing import Final

from ace.logs.mapping import LogMapping, MappedReader

__all__ = ["READERS"]

_TABLE: Final = (
    LogMapping(
        name="dspy",
        title="DSPy evaluations",
        when="example && prediction",
        task="example.question || example.input || example.query",
        truth="example.answer || example.output",
        answer="prediction.answer || prediction.output",
        score="score",
    ),
)

READERS: Final = tuple(MappedReader(mapping) for mapping in _TABLE)

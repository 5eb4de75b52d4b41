"""The formats that differ only in the names of their fields: an entry for each."""

from __future__ import annotations

from typing import Final

from ace.logs.mapping import LogMapping, MappedReader

__all__ = ["READERS"]

_TABLE: Final = (
    LogMapping(
        name="amp",
        title="Amp threads",
        when="starts_with(id, 'T-') && messages",
        places=("~/.local/share/amp/threads/T-*.json",),
        side_files=("history.jsonl",),
        note="Only threads with finished calls were checked against a real file.",
        id="id",
        messages="messages",
        model="messages[].usage.model | [0]",
        input_tokens="sum(messages[].usage.inputTokens)",
        output_tokens="sum(messages[].usage.outputTokens)",
        started="created",
    ),
    LogMapping(
        name="ai-studio",
        title="Google AI Studio prompts",
        when="chunkedPrompt.chunks",
        note="Not checked against a real file.",
        messages="chunkedPrompt.chunks",
        model="runSettings.model",
    ),
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

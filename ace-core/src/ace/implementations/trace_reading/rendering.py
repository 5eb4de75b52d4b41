"""Render a standard trace as text for the reflector, within a budget."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ace.implementations.trace_reading.fitting import cut_middle, fit
from ace.implementations.trace_reading.reader import StandardTrace
from ace.implementations.trace_reading.text import as_text
from ace.traces import step_title, steps_as_text

__all__ = ["Section", "fitted_sections", "sections_as_text", "sections_of"]

_SHORTEST_PART = 400


class Section(NamedTuple):
    """A part of a rendered trace."""

    title: str
    text: str


def sections_of(trace: StandardTrace, *, without: Collection[str] = ()) -> list[Section]:
    """Return the sections of a trace, in a fixed order; empty ones are omitted.

    Args:
        trace: A standard trace.
        without: Fields that the reader sees elsewhere, such as `question`.
    """
    derived = bool(trace["steps"]) and trace["reasoning"] == steps_as_text(trace["steps"])
    fields = [
        ("question", trace["question"]),
        ("context", trace["context"]),
        ("ground_truth", trace["ground_truth"] or ""),
        ("feedback", trace["feedback"] or ""),
        ("success", "" if trace["success"] is None else str(trace["success"]).lower()),
        # Reasoning that was made from the steps would only repeat them.
        ("reasoning", "" if derived else trace["reasoning"]),
        ("answer", trace["answer"]),
        ("skill_ids", ", ".join(trace["skill_ids"])),
    ]
    sections = [Section(name, text) for name, text in fields if text and name not in without]
    if not (derived and "reasoning" in without):
        sections += [Section(step_title(step), step["content"]) for step in trace["steps"]]
    sections += [Section(name, as_text(value)) for name, value in trace["rest"].items()]
    return sections


def sections_as_text(sections: Collection[Section]) -> str:
    """Join sections, each under its title.

    Args:
        sections: The sections.
    """
    return "\n\n".join(f"## {section.title}\n{section.text}" for section in sections)


def fitted_sections(sections: list[Section], most_bytes: int) -> tuple[str, int]:
    """Return the sections as text that fits, and the number of characters that were cut.

    The longest sections are cut first, so that every step stays visible; where there are too many
    sections for that, the middle of the whole is cut.

    Args:
        sections: The sections.
        most_bytes: The size of the text in UTF-8 bytes.
    """
    whole = sections_as_text(sections)
    size = len(whole.encode("utf-8", "backslashreplace"))
    if size <= most_bytes:
        return whole, 0
    titles = size - sum(len(section.text.encode("utf-8", "backslashreplace")) for section in sections)
    if most_bytes - titles < _SHORTEST_PART * len(sections):
        return cut_middle(whole, most_bytes)
    fitted = fit([section.text for section in sections], most_bytes - titles)
    cut = [Section(section.title, text) for section, text in zip(sections, fitted.texts, strict=True)]
    return sections_as_text(cut), fitted.cut_characters

"""Render a standard trace as text for the reflector, within a budget: the longest parts are cut in the middle first."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ace.cases import failed_calls
from ace.logs.plain import as_text
from ace.logs.trace import StandardTrace
from ace.traces import step_title, steps_as_text

__all__ = [
    "Fitted",
    "Section",
    "cut_middle",
    "fit",
    "fitted_sections",
    "sections_as_text",
    "sections_of",
    "sections_of_first_failure",
    "size_in_bytes",
]

_SHORTEST_PART = 400


class Section(NamedTuple):
    """A part of a rendered trace."""

    title: str
    text: str


def sections_of(trace: StandardTrace, *, without: Collection[str] = ()) -> list[Section]:
    """Return the sections of a trace, in a fixed order; empty ones are omitted.

    Args:
        trace: A standard trace.
        without: Fields that are shown elsewhere, such as `question`.
    """
    derived = bool(trace["steps"]) and trace["reasoning"] == steps_as_text(trace["steps"])
    fields = [
        ("question", trace["question"]),
        ("context", trace["context"]),
        ("ground_truth", trace["ground_truth"] or ""),
        ("feedback", trace["feedback"] or ""),
        ("success", "" if trace["success"] is None else str(trace["success"]).lower()),
        # Reasoning that was derived from the steps would only repeat them.
        ("reasoning", "" if derived else trace["reasoning"]),
        ("answer", trace["answer"]),
        ("skill_ids", ", ".join(trace["skill_ids"])),
    ]
    sections = [Section(name, text) for name, text in fields if text and name not in without]
    if not (derived and "reasoning" in without):
        sections += [Section(step_title(step), step["content"]) for step in trace["steps"]]
    sections += [Section(name, as_text(value)) for name, value in trace["rest"].items()]
    return sections


def sections_of_first_failure(trace: StandardTrace) -> list[Section]:
    """Return the first failed call of a trace that teaches something, its error and the call that worked, if any.

    Args:
        trace: A standard trace.
    """
    call = next(iter(failed_calls(trace["steps"], trace["question"])), None)
    if call is None:
        return []
    shown = [("first failed call", call.failed), ("its error", call.error), ("the call that worked", call.worked)]
    return [Section(title, text) for title, text in shown if text]


def sections_as_text(sections: Collection[Section]) -> str:
    """Join sections, each under its title."""
    return "\n\n".join(f"## {section.title}\n{section.text}" for section in sections)


def fitted_sections(sections: list[Section], most_bytes: int) -> tuple[str, int]:
    """Return the sections as text within a budget, and the number of characters that were cut.

    The longest sections are cut first, so that every step remains visible; if there are too many sections for that, the
    middle of the whole text is cut.

    Args:
        sections: The sections to join.
        most_bytes: The maximum size of the text, in UTF-8 bytes.
    """
    whole = sections_as_text(sections)
    size = size_in_bytes(whole)
    if size <= most_bytes:
        return whole, 0
    titles = size - size_in_bytes(*(section.text for section in sections))
    if most_bytes - titles < _SHORTEST_PART * len(sections):
        return cut_middle(whole, most_bytes)
    fitted = fit([section.text for section in sections], most_bytes - titles)
    cut = [Section(section.title, text) for section, text in zip(sections, fitted.texts, strict=True)]
    return sections_as_text(cut), fitted.cut_characters


@dataclass(frozen=True, slots=True)
class Fitted:
    """Texts that were shortened to a common budget."""

    texts: tuple[str, ...]
    """The texts, in the order given, cut where necessary."""
    cuts: tuple[int, ...]
    """The number of characters that were cut out of each text."""

    @property
    def cut_characters(self) -> int:
        """The total number of characters that were cut."""
        return sum(self.cuts)


def fit(texts: Sequence[str], most_bytes: int) -> Fitted:
    """Cut the longest texts to the same length, so that all texts together fit into a budget.

    Args:
        texts: The texts to shorten.
        most_bytes: The maximum total size, in UTF-8 bytes.

    Example:
        >>> fit(["short", "x" * 500], 200).cut_characters
        350
    """
    sizes = [size_in_bytes(text) for text in texts]
    if sum(sizes) <= most_bytes:
        return Fitted(tuple(texts), (0,) * len(texts))
    cap = _common_cap(sizes, most_bytes)
    cut = [cut_middle(text, cap) if size > cap else (text, 0) for text, size in zip(texts, sizes, strict=True)]
    return Fitted(tuple(text for text, _ in cut), tuple(count for _, count in cut))


def cut_middle(text: str, most_bytes: int) -> tuple[str, int]:
    """Cut the middle out of a text and put a mark there.

    Args:
        text: The text to shorten.
        most_bytes: The maximum size of the result, in UTF-8 bytes, of which the mark takes about 40 in any case.

    Returns:
        The cut text, and the number of characters that were cut.
    """
    data = text.encode("utf-8", "backslashreplace")
    room = max(0, most_bytes - _MARK_SIZE)
    if len(data) <= most_bytes:
        return text, 0
    head = data[: room - room // 2].decode("utf-8", "ignore")
    tail = data[len(data) - room // 2 :].decode("utf-8", "ignore") if room // 2 else ""
    count = len(text) - len(head) - len(tail)
    return f"{head}\n[... {count} characters cut here ...]\n{tail}", count


_MARK_SIZE = 45


def size_in_bytes(*texts: str) -> int:
    """Return the total size of texts, in UTF-8 bytes."""
    return sum(len(text.encode("utf-8", "backslashreplace")) for text in texts)


def _common_cap(sizes: Sequence[int], most_bytes: int) -> int:
    """Return the length to which all longer texts must be cut, so that all of them fit."""
    left = most_bytes
    ordered = sorted(sizes)
    for place, size in enumerate(ordered):
        share = left // (len(ordered) - place)
        if size > share:
            return share
        left -= size
    return max(ordered, default=0)

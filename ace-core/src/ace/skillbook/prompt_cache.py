"""The text of the active skills in one format, kept up to date by line instead of written anew."""

from __future__ import annotations

from typing import final

from ace.skill import Skill
from ace.skillbook.line_formats import LineFormat
from ace.skillbook.state import BookState


@final
class PromptCache:
    """Lines by section. A change costs its own line and one join, not the whole book."""

    __slots__ = ("_format", "_lines", "_order_changes", "_pending", "_texts", "_whole")

    def __init__(self, format: LineFormat) -> None:
        self._format = format
        self._lines: dict[str, dict[str, str]] | None = None
        self._texts: dict[str, str] = {}
        self._pending: dict[str, None] = {}
        self._whole: str | None = None
        self._order_changes = 0

    def skill_changed(self, before: Skill | None, after: Skill | None) -> None:
        """Note a change of the book: the line is written at the next reading."""
        self._whole = None
        if self._lines is None:
            return
        if after is not None and after.is_active:
            if before is not None and not before.is_active:
                self.clear()  # it comes back in the middle of its section
                return
            self._pending[after.id] = None
            self._texts.pop(after.section, None)
        elif before is not None:
            self._pending.pop(before.id, None)
            self._texts.pop(before.section, None)
            lines = self._lines.get(before.section)
            if lines is not None:
                lines.pop(before.id, None)

    def clear(self) -> None:
        """Forget everything."""
        self._lines = None
        self._whole = None
        self._texts = {}
        self._pending = {}

    def whole(self, state: BookState) -> str:
        """Return all active skills, by section; empty if there are none."""
        if self._whole is None or self._order_changes != state.order_changes:
            lines = self._current_lines(state)
            self._whole = self._format.book(self._section_texts(state, lines), state.active_count)
            if not state.active_count:
                self._whole = ""
        return self._whole

    def _current_lines(self, state: BookState) -> dict[str, dict[str, str]]:
        lines_of = self._format.lines
        skills = state.ordered_skills()
        if self._order_changes != state.order_changes:
            self.clear()
            self._order_changes = state.order_changes
        if self._lines is None:
            self._lines = {name: lines_of([skills[id] for id in members]) for name, members in state.sections.items()}
            return self._lines
        for id in self._pending:
            skill = skills[id]
            self._lines.setdefault(skill.section, {}).update(lines_of([skill]))
        self._pending.clear()
        return self._lines

    def _section_texts(self, state: BookState, lines: dict[str, dict[str, str]]) -> list[str]:
        texts = []
        for name in state.ordered_sections():
            text = self._texts.get(name)
            if text is None:
                members = lines.get(name)
                if not members:
                    continue
                joined = self._format.separator.join(members.values())
                text = self._texts[name] = self._format.section(name, joined)
            texts.append(text)
        return texts

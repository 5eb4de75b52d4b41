"""Goes through the pending skills with a person at the terminal."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ace.cli.console import counted, result_stream
from ace.cli.errors import UsageError
from ace.cli.inspection import run_as_text
from ace.cli.questions import edited
from ace.cli.reviewing.decisions import AUTHOR, Decider
from ace.cli.reviewing.keyboard import END, Keyboard, keyboard
from ace.cli.reviewing.lesson import KEYS, origin_of, print_lesson, shown
from ace.cli.reviewing.trial import asked_again, with_accepted
from ace.cli.settings import load_settings
from ace.cli.skillbooks.described_history import place_of, undo_decisions_command
from ace.cli.skillbooks.opened_book import save
from ace.skill import InsightSource, Skill

if TYPE_CHECKING:
    from rich.console import Console

    from ace.plugins import KeptSkillbook

__all__ = ["review_in_terminal"]

_CONTEXT_LINES = 2
_PAGE_MARGIN = 2


def review_in_terminal(decider: Decider, kept: KeptSkillbook) -> None:
    """Show the pending skills one at a time, and do what the person decides about each, until they stop.

    Args:
        decider: Makes the decisions. Each is saved at once.
        kept: The skillbook, which knows what else acceptance changes.
    """
    from rich.console import Console

    console = Console(file=result_stream(), highlight=False)
    with keyboard() as keys:
        screen = _Screen(decider, kept, console, keys)
        screen.show_all()
    screen.say(screen.summary())
    if screen.accepted and decider.book.store is not None:
        screen.say(f"`{undo_decisions_command(decider.location, screen.accepted)}` undoes what you accepted.")


@dataclass
class _Screen:
    """The lessons, the terminal, and what was decided so far."""

    decider: Decider
    kept: KeptSkillbook
    console: Console
    keys: Keyboard
    counts: Counter[str] = field(default_factory=Counter)
    accepted: list[str] = field(default_factory=list)

    def show_all(self) -> None:
        """Show one lesson after the other."""
        lessons = [skill.id for skill in self.decider.book.pending_skills()]
        for number, id in enumerate(lessons, start=1):
            if not self._show(id, f"Lesson {number} of {len(lessons)}"):
                return

    def summary(self) -> str:
        """Return what was decided, as a sentence."""
        done = [f"{self.counts[verb]} {verb}" for verb in ("accepted", "rejected", "edited") if self.counts[verb]]
        left = len(self.decider.book.pending_skills())
        return ", ".join([*done, f"{counted(left, 'skill')} still pending"])

    def say(self, text: str) -> None:
        """Print a sentence below the lesson."""
        from rich.text import Text

        self.console.print(Text(f"  {shown(text, self.console)}"))

    def _show(self, id: str, title: str) -> bool:
        """Show a lesson until it is decided, and return whether to continue with the next one."""
        is_again = False
        while (skill := self._still_pending(id)) is not None:
            self._print(skill, title, is_again=is_again)
            try:
                key = self._decision_key(skill)
                if key in (END, "q"):
                    return False
                if key == "l" or (key == "a" and self._accept(skill)) or (key == "r" and self._reject(skill)):
                    return True
                is_again = is_again or (key == "e" and self._edit(skill))
            except UsageError as error:
                self.say(f"{error}.")
        return True

    def _still_pending(self, id: str) -> Skill | None:
        """Return a skill as it is now; None if another process has decided about it."""
        self.decider.book.refresh()
        skill = self.decider.book.get_skill(id)
        return skill if skill is not None and skill.is_pending else None

    def _print(self, skill: Skill, title: str, *, is_again: bool) -> None:
        landing = self.decider.landing
        block = None if landing is None else landing.file
        print_lesson(self.console, skill, title, location=self.decider.location, block=block, is_again=is_again)

    def _decision_key(self, skill: Skill) -> str:
        """Return the next key that decides something; the other keys show more about the lesson."""
        while (key := self.keys.key()) not in (END, *"areql"):
            if key == "s":
                self._print_pages(self._session(skill))
            elif key == "d":
                self._print_diff(skill)
            if key in "sd":
                self.say(KEYS)
        return key

    def _accept(self, skill: Skill) -> bool:
        self.decider.decide([skill], [])
        self.accepted.append(skill.id)
        self.counts["accepted"] += 1
        self.say(f"accepted {skill.id}")
        return True

    def _reject(self, skill: Skill) -> bool:
        """Reject a skill with a reason, and return whether the person gave one."""
        because = ""
        while not because:
            answer = self.keys.line("  Why? Later reflections are shown the reason (Ctrl-D goes back):")
            if answer is None:
                return False
            because = answer
        self.decider.decide([], [skill], because)
        self.counts["rejected"] += 1
        self.say(f"rejected {skill.id}: {because}")
        return True

    def _edit(self, skill: Skill) -> bool:
        """Let the person change the text, ask the cases again, and return whether the text has changed."""
        text = self._new_text(skill)
        if text in ("", skill.content):
            self.say("The text was not changed.")
            return False
        book = self.decider.book
        source = InsightSource(
            trace_id=AUTHOR,
            integration="review",
            error_identification=f"A reviewer changed the text: {skill.content}",
            learning_text=text,
            evidence="person",
        )
        with book.deferred_commits():
            changed = book.update_skill(skill.id, content=text, insight_source=source)
            save(book, self.decider.location, author=AUTHOR)
        self.counts["edited"] += 1
        if changed is not None:
            with self.keys.usual():
                outcome = asked_again(book, changed, load_settings({}), AUTHOR)
            if book.store is None:
                save(book, self.decider.location, author=AUTHOR)
            self.say(outcome)
        return True

    def _new_text(self, skill: Skill) -> str:
        """Return the text that the person wants, from their editor if they have one; empty if they want none."""
        if not (os.environ.get("VISUAL") or os.environ.get("EDITOR")):
            return self.keys.line("  New text (Ctrl-D goes back; set EDITOR to use an editor):") or ""
        with self.keys.usual(), edited(skill.content) as text:
            return text

    def _session(self, skill: Skill) -> Iterator[str]:
        """Yield the lines of what the skill recorded, and of the runs that are still where they were."""
        yield from origin_of(skill)
        for place in dict.fromkeys(place_of(source.trace_id) for source in skill.sources):
            run = recorded_run(place)
            if run is not None:
                yield from ("", f"  {place}", "", *(f"  {line}" for line in run.splitlines()))

    def _print_pages(self, lines: Iterator[str]) -> None:
        """Print lines, and wait for a key after each page."""
        from rich.text import Text

        room = max(1, self.console.height - _PAGE_MARGIN)
        printed = 0
        for line in lines:
            wrapped = Text(shown(line, self.console)).wrap(self.console, self.console.width)
            for part in wrapped:
                if printed == room:
                    self.say("-- more: any key, [q] ends --")
                    if self.keys.key() in (END, "q"):
                        return
                    printed = 0
                self.console.print(part)
                printed += 1

    def _print_diff(self, skill: Skill) -> None:
        from rich.text import Text

        styles = {"+": "green", "-": "red", "@": "dim"}
        for name, before, after in self._texts(skill):
            lines = difflib.unified_diff(
                before.splitlines(), after.splitlines(), name, f"{name} if accepted", n=_CONTEXT_LINES, lineterm=""
            )
            for line in lines:
                self.console.print(Text(f"  {shown(line, self.console)}", styles.get(line[:1], "")))

    def _texts(self, skill: Skill) -> list[tuple[str, str, str]]:
        """Return the names of what agents are shown, with the texts now and if the skill is accepted."""
        try:
            changes = self.kept.preview(skill.id)
        except (OSError, ValueError) as error:
            raise UsageError(f"agents could not be shown it: {error}") from error
        if changes:
            return [(_near(change.path), change.before, change.after) for change in changes]
        after = with_accepted(self.decider.book, skill).as_markdown()
        landing = self.decider.landing
        if landing is None:
            return [("what agents are shown", self.decider.book.as_markdown(), after)]
        landing.check()
        return [(landing.file.name, *landing.preview(after))]


def _near(path: Path) -> str:
    """Return a path relative to the current folder if it is in that."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def recorded_run(place: str) -> str | None:
    """Return the run at a place as text; None if it is not there any more.

    Args:
        place: Such as `logs/a.jsonl#12`.
    """
    from ace.cli.inputs import FoundRuns, run_filter
    from ace.logs import Problem

    file = place.rpartition("#")[0] or place
    if not Path(file).is_file():
        return None
    with FoundRuns([file], run_filter(load_settings({}))) as found:
        for run in found:
            if not isinstance(run, Problem) and run.place == place:
                return run_as_text(run)
    return None

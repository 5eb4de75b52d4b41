"""Shows a pending skill to a person who decides about it: the text, what shows that it is right, and where it lands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ace._internal.hidden_characters import first_hidden, with_hidden_shown
from ace.cli.console import counted, shown_time
from ace.cli.skillbooks.described_history import place_of
from ace.skill import InsightSource, Skill, SkillCase
from ace.skillbook.line_formats import plain_line
from ace.skillbook.locations import has_scheme, shown_location
from ace.skillbook.selection import estimate_tokens

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["KEYS", "origin_of", "print_lesson", "shown"]

KEYS: Final = "[a]ccept  [r]eject + why  [e]dit  [s]how session  [d]iff  [l]ater  [q]uit"
_WIDEST: Final = 100
"""Longer lines are hard to read."""
_LONGEST: Final = 600
"""The number of characters after which a text is cut on the screen of a lesson."""
_MOST_LINES: Final = 8
_NOTHING: Final = ("", "")
"""An empty line."""


def shown(text: str, console: Console) -> str:
    """Return a text as it can be printed: with characters that no one sees, or that the terminal lacks, as codes."""
    return with_hidden_shown(text).encode(console.encoding, "backslashreplace").decode(console.encoding)


def print_lesson(
    console: Console, skill: Skill, title: str, *, location: str, block: Path | None, is_again: bool = False
) -> None:
    """Print a lesson, what shows that it is right, and the keys.

    Args:
        console: The terminal.
        skill: The lesson.
        title: Its number.
        location: The skillbook.
        block: The file whose managed block shows the skills.
        is_again: Whether it was just edited.
    """
    from rich.padding import Padding
    from rich.text import Text

    width = min(console.width, _WIDEST)
    console.print()
    console.rule(Text(f"{title}, edited" if is_again else title, "bold"), align="left", style="dim")
    console.print(Padding(Text(shown(skill.content, console), "bold"), (1, 2, 1, 2)), width=width)
    _print_facts(console, [*_about(skill, location, block), *_evidence(skill)], width)
    console.print(Text(f"\n  {KEYS}"), width=width)


def origin_of(skill: Skill) -> Iterator[str]:
    """Yield the lines of everything that a skill has recorded about the runs that taught it, without cutting it."""
    facts = [fact for source in skill.sources for fact in (_NOTHING, *_source_facts(source))]
    facts += [_NOTHING, *_reasons(skill)]
    facts += [fact for case in skill.cases for fact in (_NOTHING, *_case_facts(case))]
    for name, value in facts:
        first, *others = value.splitlines() or [""]
        yield f"  {name:<14}{first}"
        yield from (f"{'':16}{line}" for line in others)


def _print_facts(console: Console, facts: Iterable[tuple[str, str]], width: int) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(f"  {name}", "dim"), Text(_cut(shown(value, console))))
    console.print(table, width=width)


def _cut(text: str) -> str:
    beginning = "\n".join(text[:_LONGEST].splitlines()[:_MOST_LINES]).rstrip()
    left = len(text.rstrip()) - len(beginning)
    return f"{beginning} ... ({left:,} more characters: [s])" if left > 0 else beginning


def _about(skill: Skill, location: str, block: Path | None) -> Iterator[tuple[str, str]]:
    hidden = first_hidden(skill.content)
    if hidden is not None:
        yield "caution", f"the text contains invisible characters such as {hidden}, which are shown as codes"
    yield "id", f"{skill.id}, in section {skill.section!r}" if skill.section else skill.id
    yield "pending", skill.reason
    yield "evidence", ", ".join(skill.evidences) or "none: only the model says so"
    yield "asked again", _results(skill)
    yield "lands in", _short(location)
    if block is not None:
        tokens = estimate_tokens(f"{plain_line(skill)}\n")
        yield "", f"{_short(str(block))} (managed block), about {tokens} more tokens in each session"


def _evidence(skill: Skill) -> Iterator[tuple[str, str]]:
    """Yield what the skill carries of the runs that taught it; of several sources and cases, the first one."""
    yield _NOTHING
    if not skill.sources:
        yield "learned from", "no recorded source"
    for number, source in enumerate(skill.sources[:1]):
        yield from _source_facts(source, others=len(skill.sources) - number - 1, has_case=bool(skill.cases))
    yield from _reasons(skill)
    for case in skill.cases[:1]:
        yield from _case_facts(case)
    if len(skill.cases) > 1:
        yield "", f"and {counted(len(skill.cases) - 1, 'more question')}: [s]"


def _reasons(skill: Skill) -> Iterator[tuple[str, str]]:
    for name, value in (("because", skill.justification), ("in the run", skill.evidence)):
        if value:
            yield name, value


def _source_facts(source: InsightSource, *, others: int = 0, has_case: bool = False) -> Iterator[tuple[str, str]]:
    place = place_of(source.trace_id) or source.integration or "-"
    yield "learned from", f"{place}, and {counted(others, 'more run')}: [s]" if others else place
    if source.sample_question and not has_case:
        yield "question", source.sample_question
    if source.error_identification:
        yield "went wrong", source.error_identification
    if source.learning_text:
        yield "learned", source.learning_text


def _case_facts(case: SkillCase) -> Iterator[tuple[str, str]]:
    facts = (
        ("question", case.question),
        ("answer", case.wrong),
        ("correction", case.correction),
        ("right answer", case.expected or " ".join(case.check.value.splitlines())),
        ("answer now", case.answer),
    )
    yield from ((name, value) for name, value in facts if value)


def _results(skill: Skill) -> str:
    """Say what asking the cases again has shown. An answer is not called a proof here."""
    if not skill.cases:
        return "no: it has no question that could be asked"
    asked = [case for case in skill.cases if case.last_result != "not_run"]
    if not asked:
        return f"not yet ({counted(len(skill.cases), 'question')})"
    passed = sum(case.last_result == "passed" for case in asked)
    last = max(asked, key=lambda case: case.last_run_at)
    when = f", last {shown_time(last.last_run_at)} UTC" if last.last_run_at else ""
    model = f" by {last.model}" if last.model else ""
    return f"{passed} of {counted(len(skill.cases), 'question')} answered rightly{model}{when}"


def _short(place: str) -> str:
    """Return a skillbook or a file relative to the current folder, if it is inside."""
    inside = not has_scheme(place) and Path(place).is_relative_to(Path.cwd())
    return str(Path(place).relative_to(Path.cwd())) if inside else shown_location(place)

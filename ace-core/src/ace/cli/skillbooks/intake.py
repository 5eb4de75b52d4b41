"""Imports skills from files of ACE, of other frameworks and of coding agents."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ace._internal.managed_block import ManagedBlockError, read_managed_block
from ace.cli.console import note, print_table, print_text, visible
from ace.cli.errors import UsageError, near_file
from ace.cli.settings import clock_from_environment
from ace.cli.skillbooks.opened_book import is_store
from ace.cli.skillbooks.selection import part_of
from ace.skill import Skill, missing_cases
from ace.skillbook import Skillbook, SkillbookFileError
from ace.skillbook.json_file import whole_file
from ace.skillbook.locations import has_scheme, shown_location
from ace.skillbook.skill_folders import SKILL_FILE
from ace.skillbook.text_formats import bullet_lines_in, has_skills

__all__ = [
    "FileReport",
    "Intake",
    "LeftOut",
    "SourceBook",
    "carry_decisions",
    "join_known",
    "print_reports",
    "read_source_books",
    "read_start",
    "report_as_json",
    "start_from_file",
    "take_new",
    "taken_ids",
]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A skill that was skipped."""

    skill: Skill
    """The skill, as in its file."""
    reason: str
    """The reason, as text."""
    known: Skill | None = None
    """The existing skill with the same section and text."""


@dataclass(frozen=True, slots=True)
class Intake:
    """The result of importing one book."""

    taken: tuple[Skill, ...]
    """The new skills, as in their file; their ids in the skillbook may differ."""
    left: tuple[LeftOut, ...]
    """The skipped skills."""


def take_new(target: Skillbook, source: Skillbook, *, with_invalid: bool) -> Intake:
    """Add the skills unless the book has one with the same section and text.

    Args:
        target: The book that is added to. A skill whose id it has already gets a new one.
        source: The other book; it is not changed.
        with_invalid: Whether removed skills are added, as removed ones, or skipped.
    """
    known = {_key(skill): skill for skill in target.skills(include_invalid=True)}
    taken: dict[tuple[str, str], Skill] = {}
    left = []
    for skill in source.skills(include_invalid=True):
        if (same := known.get(_key(skill))) is not None:
            is_kept = same.is_active or same.is_pending
            reason = "already exists as" if is_kept else "was removed from the skillbook:"
            left.append(LeftOut(skill, f"{reason} {same.id}", same))
        elif not (with_invalid or skill.is_active or skill.is_pending):
            left.append(LeftOut(skill, "was removed in the file"))
        elif _key(skill) in taken:
            left.append(LeftOut(skill, f"duplicates {taken[_key(skill)].id} in the file"))
        else:
            taken[_key(skill)] = skill
    if taken:
        target.import_skills(part_of(source, {skill.id for skill in taken.values()}))
    return Intake(tuple(taken.values()), tuple(left))


def taken_ids(book: Skillbook, intake: Intake) -> dict[str, str]:
    """Return the ids of the imported skills in the book, by their ids in the file.

    Args:
        book: The book, after its changes were committed, because ids may change before.
        intake: The result of `take_new`.
    """
    ids = {_key(skill): skill.id for skill in book.skills(include_invalid=True)}
    return {skill.id: ids[_key(skill)] for skill in intake.taken if _key(skill) in ids}


def join_known(target: Skillbook, intake: Intake) -> list[str]:
    """Add the information in the other book to the skills that already exist.

    That is: higher counters, further sources and cases.

    Args:
        target: The book.
        intake: The result of `take_new`.

    Returns:
        The ids of the changed skills.
    """
    changed = []
    for skipped in intake.left:
        ours = None if skipped.known is None else target.get_skill(skipped.known.id)
        if ours is not None and ours.is_active and skipped.skill.is_active and _join(target, ours, skipped.skill):
            changed.append(ours.id)
    return changed


def carry_decisions(target: Skillbook, source: Skillbook, intake: Intake) -> None:
    """Copy the decisions of the other book that two skills differ, for pairs with a skill that already existed.

    Args:
        target: The book, after `take_new`.
        source: The other book.
        intake: The result of `take_new`.
    """
    ids = taken_ids(target, intake) | {
        skipped.skill.id: skipped.known.id for skipped in intake.left if skipped.known is not None
    }
    for (first, second), decision in source.similarity_decisions().items():
        pair = ids.get(first), ids.get(second)
        if pair[0] is None or pair[1] is None or pair[0] == pair[1]:
            continue
        if target.get_similarity_decision(pair[0], pair[1]) is None:
            target.set_similarity_decision(pair[0], pair[1], decision)


def _join(target: Skillbook, ours: Skill, theirs: Skill) -> bool:
    higher = {tag: count - ours.counts()[tag] for tag, count in theirs.counts().items() if count > ours.counts()[tag]}
    for tag, increment in higher.items():
        target.tag_skill(ours.id, tag, increment)
    further = [source for source in theirs.sources if source not in ours.sources]
    for source in further:
        target.update_skill(ours.id, insight_source=source)
    cases = missing_cases(ours, theirs)
    if cases:
        target.put_cases(ours.id, cases)
    return bool(higher or further or cases)


def _key(skill: Skill) -> tuple[str, str]:
    return skill.section, skill.content


@dataclass(frozen=True, slots=True)
class SourceBook:
    """The skills of one file, in memory."""

    place: str
    """The file."""
    book: Skillbook
    """The skills in it."""
    notes: tuple[str, ...] = ()
    """Notes on other contents of the file, which are not imported."""


def read_source_books(location: str) -> list[SourceBook]:
    """Read a file, or a folder of skills for coding agents.

    Args:
        location: A skillbook of any format, a store, a text with a managed block, or a folder with `SKILL.md` files.

    Raises:
        UsageError: It does not exist, or contains no readable skill. The text says why, and what to do.
    """
    path = Path(location)
    if not has_scheme(location) and path.is_dir():
        return [_read(str(file)) for file in _skill_files(path)]
    if not has_scheme(location) and not path.exists():
        raise UsageError(
            f"no such file: {shown_location(location)!r}{near_file(path) or ';'} "
            "give the path of a skillbook, a playbook or a Markdown list"
        )
    return [_read(location)]


def _skill_files(folder: Path) -> Sequence[Path]:
    found = [folder / SKILL_FILE] if (folder / SKILL_FILE).is_file() else sorted(folder.glob(f"*/{SKILL_FILE}"))
    if not found:
        raise UsageError(f"the folder {str(folder)!r} and its subfolders have no {SKILL_FILE}; give a file")
    return found


def _read(location: str) -> SourceBook:
    try:
        with _warnings() as notes:
            book = _copy_of_store(location) if is_store(location) else _read_file(Path(location), notes)
    except (SkillbookFileError, ManagedBlockError) as error:
        raise UsageError(f"{error}; nothing was imported from any file") from error
    except OSError as error:
        where = shown_location(location)
        raise UsageError(f"{where}: {error.strerror or error}; check that you may read it") from error
    return SourceBook(shown_location(location), book, tuple(notes))


def _copy_of_store(location: str) -> Skillbook:
    with Skillbook.open(location) as store:
        return Skillbook.loads(store.dumps())


def _read_file(path: Path, notes: list[str]) -> Skillbook:
    data = whole_file(path)
    try:
        if data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b""):
            return Skillbook.loads(data.decode("utf-8-sig"))
        block = read_managed_block(data)
        text = _without_head(data.decode("utf-8-sig")) if block is None else block
        if block is not None:
            notes.append("only the managed block of ace was read")
        # Where a file has such lines, its other lists are not skills.
        return Skillbook.from_text(bullet_lines_in(text) or text, clock=clock_from_environment())
    except UnicodeDecodeError as error:
        raise SkillbookFileError("the file is not UTF-8", path=path, place=f"byte {error.start}") from error
    except SkillbookFileError as error:
        raise error.at(path) from error
    except ManagedBlockError as error:
        raise ManagedBlockError(f"{path}: {error}") from error


def read_start(path: Path) -> Skillbook | None:
    """Return the skills in a file such as AGENTS.md, from which a skillbook without any version starts.

    They are those of the managed block, else the `[Bullet #ID, ...] text` lines; other lists in it are not skills.

    Args:
        path: The file, which may not exist.

    Returns:
        The skills, in memory; None if there are none.

    Raises:
        UsageError: The file cannot be read, or its block is damaged.
    """
    if not path.exists():
        return None
    try:
        data = whole_file(path)
        block = read_managed_block(data)
        text = bullet_lines_in(data.decode("utf-8-sig")) if block is None else block
        return Skillbook.from_text(text, clock=clock_from_environment()) if has_skills(text) else None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: the file is not UTF-8 (byte {error.start})") from error
    except (SkillbookFileError, ManagedBlockError) as error:
        raise UsageError(f"{path}: {error}") from error
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def start_from_file(target: Skillbook, path: Path) -> int:
    """Add the skills of a file such as AGENTS.md to a skillbook without any version and skill; see `read_start`.

    Args:
        target: The skillbook. If it has a version or a skill, the file is not read.
        path: The file, which may not exist.

    Returns:
        The number of skills that were added, as one version.

    Raises:
        UsageError: The file cannot be read, or its block is damaged.
    """
    if target.version or target.skills(include_invalid=True):
        return 0
    source = read_start(path)
    if source is None:
        return 0
    with target.deferred_commits(author=f"start from {path.name}"):
        return len(target.import_skills(source))


def _without_head(text: str) -> str:
    """Return a text without the YAML head of a `SKILL.md`, whose lists are not skills. The lines keep their numbers."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        return text
    end = next((number for number, line in enumerate(lines[1:], 1) if line.strip() == "---"), None)
    return text if end is None else "\n".join([""] * (end + 1) + lines[end + 1 :])


class _Collector(logging.Handler):
    """Keeps the warnings of the reader, which say which parts of a file a skillbook does not support."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def _warnings() -> Iterator[list[str]]:
    loggers = [logging.getLogger(f"ace.skillbook.{name}") for name in ("json_read", "state")]
    messages: list[str] = []
    collector = _Collector(messages)
    were_passed_on = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(collector)
        logger.propagate = False
    try:
        yield messages
    finally:
        for logger, was_passed_on in zip(loggers, were_passed_on, strict=True):
            logger.propagate = was_passed_on
            logger.removeHandler(collector)


@dataclass(frozen=True, slots=True)
class FileReport:
    """The result of importing the skills of one file."""

    place: str
    """The file."""
    intake: Intake
    """The imported and the skipped skills."""
    ids: Mapping[str, str]
    """The ids in the skillbook, by the ids in the file."""
    joined: Sequence[str] = ()
    """The existing skills to which information was added."""
    notes: Sequence[str] = ()
    """Notes on other contents of the file."""


def report_as_json(report: FileReport) -> dict[str, object]:
    """Return a report as JSON values."""
    return {
        "path": report.place,
        "imported": [
            {"id": report.ids.get(skill.id), "id_in_file": skill.id, "section": skill.section, "content": skill.content}
            for skill in report.intake.taken
        ],
        "updated": list(report.joined),
        "skipped": [
            {"id_in_file": skipped.skill.id, "content": skipped.skill.content, "reason": skipped.reason}
            for skipped in report.intake.left
        ],
        "notes": list(report.notes),
    }


def print_reports(reports: Sequence[FileReport], *, verbose: bool) -> None:
    """Print the number of skills imported from each file, and notes on its other contents.

    Args:
        verbose: Whether to list every skill that was imported or skipped.
    """
    print_table(
        ["file", "imported", "updated", "skipped"],
        [
            [report.place, str(len(report.intake.taken)), str(len(report.joined)), str(len(report.intake.left))]
            for report in reports
        ],
    )
    if verbose:
        _print_skills(reports)
    for report in reports:
        for text in report.notes:
            note(visible(f"{report.place}: {text}"))


def _print_skills(reports: Sequence[FileReport]) -> None:
    taken = [
        [report.ids.get(skill.id, "-"), skill.section, skill.content, f"{report.place}: {skill.id}"]
        for report in reports
        for skill in report.intake.taken
    ]
    if taken:
        print_text("")
        print_table(["imported", "section", "content", "from"], taken)
    skipped = [
        [omission.skill.id, report.place, omission.reason, omission.skill.content]
        for report in reports
        for omission in report.intake.left
    ]
    if skipped:
        print_text("")
        print_table(["skipped", "file", "why", "content"], skipped)

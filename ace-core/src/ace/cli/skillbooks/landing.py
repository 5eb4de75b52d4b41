"""Where the skills of a skillbook land besides it: the managed block of the file that the setting `block` names.

An acceptance writes the block, as a run with that setting does. So that undoing it restores every byte, the store
records what the block replaced, until all acceptances since then are undone or something else has written the block.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ace._internal.atomic_file import check_can_write, folder_lock, real_path, write_durably
from ace._internal.managed_block import (
    BlockBefore,
    ManagedBlockError,
    block_before,
    replace_managed_block,
    restore_block,
)
from ace.cli.errors import UsageError
from ace.cli.settings import load_settings
from ace.skillbook import Skillbook
from ace.skillbook.locations import has_scheme
from ace.skillbook.store import SampleKey

__all__ = ["Landing", "landing_of"]

_RECORDS = "ace review"
"""The name under which a store keeps what was replaced, among the progress of runs."""


@dataclass(frozen=True, slots=True)
class _Replaced:
    """What acceptances have replaced in a file."""

    before: BlockBefore
    """The block before the first of them."""
    is_new_file: bool
    """Whether the file did not exist."""
    written: str
    """The digest of the block that the last of them wrote."""
    ids: tuple[str, ...]
    """The skills that were accepted."""

    def to_json(self) -> str:
        """Return the record as a text for a store."""
        block = None if self.before.block is None else base64.b64encode(self.before.block).decode("ascii")
        return json.dumps([block, self.before.has_line_end, self.is_new_file, self.written, self.ids])

    @classmethod
    def from_json(cls, text: str) -> _Replaced | None:
        """Return the record in a text that `to_json` returned; None for the empty one."""
        if not text:
            return None
        block, has_line_end, is_new_file, written, ids = json.loads(text)
        before = BlockBefore(None if block is None else base64.b64decode(block), has_line_end)
        return cls(before, is_new_file, written, tuple(ids))


@dataclass(frozen=True, slots=True)
class Landing:
    """The file whose managed block shows the skills of a skillbook to agents."""

    file: Path

    def check(self) -> None:
        """Check that the block can be written.

        Raises:
            UsageError: The file cannot be read or written, or its block is damaged.
        """
        try:
            block_before(self._contents() or b"")
            check_can_write(self.file)
        except ManagedBlockError as error:
            raise UsageError(f"{self.file}: {error}; nothing was changed") from error
        except OSError as error:
            raise UsageError(f"{self.file}: {error.strerror or error}, so nothing was changed") from error

    def preview(self, skills: str) -> tuple[str, str]:
        """Return the text of the file now, and as it would be with these skills; call `check` first.

        Args:
            skills: The skills as Markdown.
        """
        original = self._contents() or b""
        changed = replace_managed_block(original, skills)
        return original.decode("utf-8", "replace"), changed.decode("utf-8", "replace")

    def decided(self, book: Skillbook, accepted: Collection[str]) -> None:
        """Write the block after skills were accepted or rejected; call `check` before the decision.

        Args:
            book: The skillbook, with the decisions.
            accepted: The ids of the accepted skills. Without any, a file without a block is not changed.
        """
        with folder_lock(self.file):
            original = self._contents()
            if not accepted and (original is None or block_before(original).block is None):
                return
            known = self._replaced(book, original)
            changed = self._write(book, original or b"")
            if known is None and accepted:
                known = _Replaced(block_before(original or b""), original is None, "", ())
            if known is not None:
                self._record(book, replace(known, written=_digest(changed), ids=(*known.ids, *accepted)))

    def undone(self, book: Skillbook, ids: Collection[str]) -> None:
        """Write the block after decisions were undone, or restore what it replaced; nothing if the file has no block.

        Args:
            book: The skillbook, without the decisions.
            ids: The ids of the skills.
        """
        with folder_lock(self.file):
            original = self._contents()
            if original is None or block_before(original).block is None:
                return
            known = self._replaced(book, original)
            if known is None:  # a run has written the block, or the user
                self._write(book, original)
                return
            left = tuple(id for id in known.ids if id not in ids)
            if left:
                changed = self._write(book, original)
                self._record(book, replace(known, written=_digest(changed), ids=left))
                return
            restored = restore_block(original, known.before)
            if known.is_new_file and not restored:
                self.file.unlink()
            else:
                write_durably(self.file, restored)
            self._record(book, None)

    def _contents(self) -> bytes | None:
        try:
            return self.file.read_bytes()
        except FileNotFoundError:
            return None

    def _write(self, book: Skillbook, original: bytes) -> bytes:
        changed = replace_managed_block(original, book.as_markdown())
        if changed != original:
            write_durably(self.file, changed)
        return changed

    def _replaced(self, book: Skillbook, original: bytes | None) -> _Replaced | None:
        """Return what acceptances have replaced, if the block is still what the last of them wrote."""
        if book.store is None or original is None:
            return None
        notes = {row.key.sample: row.note for row in book.store.progress(_RECORDS)}
        found = _Replaced.from_json(notes.get(self._key().sample, ""))
        return found if found is not None and found.written == _digest(original) else None

    def _record(self, book: Skillbook, replaced: _Replaced | None) -> None:
        if book.store is not None:
            at = datetime.now(UTC).isoformat("T", "microseconds")
            book.store.note_progress(self._key(), replaced.to_json() if replaced else "", at)

    def _key(self) -> SampleKey:
        return SampleKey(_RECORDS, 0, str(real_path(self.file)))


def _digest(contents: bytes) -> str:
    """Return the digest of the block of a file; of an empty text if it has none."""
    return hashlib.sha256(block_before(contents).block or b"").hexdigest()


def landing_of(location: str) -> Landing | None:
    """Return where the skills of a skillbook land; None if the settings name no file, or another skillbook.

    Args:
        location: The skillbook of a command.

    Raises:
        UsageError: A setting is unknown or out of range.
    """
    settings = load_settings({})
    if settings.block is None or _place(location) != _place(settings.skillbook):
        return None
    return Landing(Path(settings.block))


def _place(location: str) -> str | Path:
    return location if has_scheme(location) else real_path(location)

"""A block of ours in somebody else's file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace._internal.managed_block import (
    BEGIN_MARK,
    END_MARK,
    ManagedBlockError,
    block_before,
    read_managed_block,
    replace_managed_block,
    restore_block,
    write_managed_block,
)

BLOCK = f"{BEGIN_MARK}\n- one\n{END_MARK}"


def test_a_missing_file_is_created(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "CLAUDE.md"
    write_managed_block(path, "- one")
    assert path.read_text(encoding="utf-8") == BLOCK + "\n"
    assert [file.name for file in path.parent.iterdir()] == ["CLAUDE.md"]


@pytest.mark.parametrize(
    ("original", "expected"),
    [
        ("# Notes\n", f"# Notes\n\n{BLOCK}\n"),
        ("# Notes", f"# Notes\n\n{BLOCK}\n"),
        (
            "# Notes\r\nmore\r\n",
            f"# Notes\r\nmore\r\n\r\n{BLOCK}\n".replace(BLOCK + "\n", "") + (BLOCK + "\n").replace("\n", "\r\n"),
        ),
        ("\ufeff", f"\ufeff{BLOCK}\n"),
    ],
)
def test_a_file_without_a_block_gets_one_at_its_end(original: str, expected: str) -> None:
    assert replace_managed_block(original.encode(), "- one") == expected.encode()


def test_only_the_block_changes_and_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    head, tail = (
        b"\xef\xbb\xbf# caf\xe9 \xff\x00\r\n  mixed\n\t\r\n",
        b"\r\nafter \xfe\n\n\n   end without line end",
    )
    path.write_bytes(head + BLOCK.replace("\n", "\r\n").encode() + tail)
    path.chmod(0o600)
    write_managed_block(path, "- two\n- three")
    changed = path.read_bytes()
    assert changed.startswith(head) and changed.endswith(tail)
    assert changed[len(head) : -len(tail)].splitlines()[1:-1] == [b"- two", b"- three"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_unchanged_block_does_not_touch_the_file(tmp_path: Path) -> None:
    path = tmp_path / "AGENTS.md"
    write_managed_block(path, "- one")
    before = path.stat()
    write_managed_block(path, "- one")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize(
    "text",
    [
        BEGIN_MARK + "\n",
        END_MARK + "\n",
        f"{END_MARK}\n{BEGIN_MARK}\n",
        f"{BLOCK}\n{BLOCK}\n",
        f"{BEGIN_MARK}\n{BLOCK}\n",
    ],
)
def test_broken_marks_are_an_error_and_the_file_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "CLAUDE.md"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ManagedBlockError, match=r"CLAUDE\.md: .*correct or delete the marks"):
        write_managed_block(path, "- one")
    assert path.read_text(encoding="utf-8") == text


def test_a_mark_inside_a_sentence_is_no_mark() -> None:
    original = f"The mark `{BEGIN_MARK}` begins a block.\n".encode()
    assert replace_managed_block(original, "- one").startswith(original)


@given(before=st.binary(max_size=60), after=st.binary(max_size=60), first=st.text(), second=st.text())
def test_content_cannot_leave_its_block(before: bytes, after: bytes, first: str, second: str) -> None:
    evil = f"{first}\n{END_MARK}\n{BEGIN_MARK}\n{second}"
    try:
        start = replace_managed_block(before, first)
    except ManagedBlockError:
        return
    start += after if after[:1] in (b"\n", b"\r") or not after else b"\n" + after
    changed = replace_managed_block(start, evil)
    assert changed.startswith(before) and changed.endswith(after)
    assert replace_managed_block(changed, first) == start
    inside = read_managed_block(changed)
    assert inside is not None and END_MARK not in inside


@given(original=st.binary(max_size=60), content=st.text(), later=st.text())
def test_a_file_gets_back_every_byte_that_it_had_before_the_block(original: bytes, content: str, later: str) -> None:
    before = block_before(original)
    changed = replace_managed_block(replace_managed_block(original, content), later)
    assert restore_block(changed, before) == original


def test_a_block_of_another_form_is_restored_as_it_was() -> None:
    original = b"# Notes\r\n  <!-- ace:skills begin -->\r\n- mine\n<!-- ace:skills end -->  \r\nRun make.\r\n"
    changed = replace_managed_block(original, "- other")
    assert changed != original and restore_block(changed, block_before(original)) == original

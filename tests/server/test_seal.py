"""Sealing: what the database holds reveals nothing, keys can be replaced while servers run, and wrong keys are told."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ace.integrations import UsageError
from ace_server.seal import KEYS_FILE, Seal, SealError, key_id, new_key

KEY = new_key()
OTHER = new_key()


@given(st.text(st.characters(exclude_categories=())))
def test_every_text_can_be_opened_again(text: str) -> None:
    seal = Seal([KEY])
    assert seal.open(seal.seal(text)) == text


def test_the_text_is_not_in_what_is_stored_and_the_same_text_is_never_stored_alike() -> None:
    seal = Seal([KEY])
    first, second = seal.seal("marker-4711"), seal.seal("marker-4711")
    assert first != second
    assert b"marker" not in first


def test_the_first_key_seals_and_all_open() -> None:
    before = Seal([KEY]).seal("old")
    both = Seal([OTHER, KEY])
    assert both.open(before) == "old"
    assert both.seal("new").startswith(f"{key_id(OTHER)}:".encode())
    assert both.first_key_id == key_id(OTHER)


def test_a_key_that_is_not_there_is_named_by_its_identifier() -> None:
    with pytest.raises(SealError, match=f"with the key {key_id(KEY)}, which is not among the keys .{key_id(OTHER)}"):
        Seal([OTHER]).open(Seal([KEY]).seal("text"))


def test_a_changed_text_is_not_opened() -> None:
    sealed = Seal([KEY]).seal("text")
    changed = sealed[:30] + (b"A" if sealed[30:31] != b"A" else b"B") + sealed[31:]
    with pytest.raises(SealError, match="was changed"):
        Seal([KEY]).open(changed)
    with pytest.raises(SealError, match="not sealed correctly"):
        Seal([KEY]).open(b"plain text")


@pytest.mark.parametrize("given_keys", [[], ["short"], [KEY, "ü" * 44], [KEY, KEY[:-2]]])
def test_keys_of_the_wrong_form_are_errors_that_do_not_quote_them(given_keys: list[str]) -> None:
    with pytest.raises(SealError) as raised:
        Seal(given_keys)
    assert isinstance(raised.value, UsageError)  # the command line exits with 2
    assert not any(key in str(raised.value) for key in given_keys)


def test_keys_come_from_the_environment_before_the_file(tmp_path: Path) -> None:
    Seal.create(tmp_path)
    loaded = Seal.load(tmp_path, environ={"ACE_SERVER_KEYS": f"{OTHER}, {KEY}"})
    assert loaded is not None
    assert loaded.key_ids == (key_id(OTHER), key_id(KEY))
    assert loaded.file is None
    with pytest.raises(SealError, match="ACE_SERVER_KEYS"):
        loaded.add_first_key()


def test_without_keys_there_is_no_seal(tmp_path: Path) -> None:
    assert Seal.load(tmp_path, environ={}) is None
    assert Seal.load(None, environ={"ACE_SERVER_KEYS": " "}) is None


def test_the_file_is_only_for_its_owner_and_is_created_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        seals = list(threads.map(lambda _: Seal.create(tmp_path), range(16)))
    assert len({seal.first_key_id for seal in seals}) == 1
    file = tmp_path / KEYS_FILE
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    with pytest.raises(SealError, match=re.escape(f"other users can read {str(file)!r}")):
        Seal.load(tmp_path, environ={})


def test_a_running_process_uses_the_keys_that_another_puts_into_the_file(tmp_path: Path) -> None:
    running = Seal.create(tmp_path)
    before = running.seal("before")
    rotating = Seal.load(tmp_path, environ={})
    assert rotating is not None
    new = rotating.add_first_key()
    assert running.open(rotating.seal("from the other")) == "from the other"
    assert running.first_key_id == new
    assert running.seal("now").startswith(new.encode())
    assert (tmp_path / KEYS_FILE).stat().st_mode & 0o777 == 0o600
    assert rotating.open(before) == "before"
    rotating.drop_keys([key_id_of(before), new])
    assert running.key_ids == (new,)
    with pytest.raises(SealError, match="not among the keys"):
        running.open(before)


def test_a_lost_file_is_an_error_and_never_a_new_key(tmp_path: Path) -> None:
    seal = Seal.create(tmp_path)
    (tmp_path / KEYS_FILE).unlink()
    with pytest.raises(SealError, match="is missing; restore it from a backup"):
        seal.seal("text")


def key_id_of(sealed: bytes) -> str:
    return sealed.partition(b":")[0].decode()

"""Seals what users wrote, so that a copy of the database reveals nothing without the keys.

A sealed text is the identifier of its key, a colon and a Fernet token (AES-128 in CBC mode, with HMAC-SHA256). The
first key seals and all keys open, so a key can be replaced while servers run: see `ace_server.rotation`. The identifier
is the beginning of the hash of the key. It tells which rows still have an older key without opening them, and makes the
error about a wrong key exact.

The keys come from the variable `ACE_SERVER_KEYS`, or from the file `seal.keys` in the data folder. Other processes may
replace that file at any time: it is read again before a text is sealed if it has changed, and before a text is opened
whose key is not known.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ace.integrations import UsageError, folder_lock, write_durably

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

__all__ = ["KEYS_FILE", "KEYS_VARIABLE", "KEY_ID_LENGTH", "Seal", "SealError", "key_id", "new_key"]

KEYS_VARIABLE: Final = "ACE_SERVER_KEYS"
"""The environment variable with the keys, separated by commas or spaces; the first one seals."""
KEYS_FILE: Final = "seal.keys"
"""The file in the data folder with the keys, one in a line; the first one seals."""
KEY_ID_LENGTH: Final = 8
"""The length of the identifier of a key, in characters."""

_SEALED: Final = re.compile(rb"([0-9a-f]{%d}):([\w=-]+)" % KEY_ID_LENGTH)


class SealError(UsageError):
    """A key is missing, wrong or insecure. The text says which, and what to do; it never quotes a key.

    As an error of usage, it ends a command with exit code 2.
    """


class Seal:
    """Seals and opens texts. Its methods may be called from any thread.

    Args:
        keys: The keys, as `new_key` makes them; the first one seals.
        file: The file from which they were read, if another process may change it.

    Raises:
        SealError: There is no key, or one has the wrong form.

    Example:
        >>> old, new = new_key(), new_key()
        >>> sealed = Seal([old]).seal("My name is Ann.")
        >>> b"Ann" in sealed
        False
        >>> Seal([new, old]).open(sealed)
        'My name is Ann.'
        >>> Seal([new]).open(sealed)
        Traceback (most recent call last):
        ...
        ace_server.seal.SealError: a text is sealed with the key ..., which is not among the keys (...); ...
    """

    def __init__(self, keys: Sequence[str], *, file: Path | None = None) -> None:
        self._file = file
        self._changed = None if file is None else _state_of(file)
        self._ring = _key_ring(keys, "keys" if file is None else str(file))

    @classmethod
    def load(cls, folder: Path | None = None, *, environ: Mapping[str, str] | None = None) -> Seal | None:
        """Return a seal with the keys of the environment or the data folder, or None if neither has keys.

        Args:
            folder: The data folder, if there is one.
            environ: The environment; by default that of this process.

        Raises:
            SealError: A key has the wrong form, or others can read the file.
        """
        value = (os.environ if environ is None else environ).get(KEYS_VARIABLE, "")
        if keys := _keys_in(value):
            return cls(keys)
        if folder is None or not (folder / KEYS_FILE).exists():
            return None
        file = folder / KEYS_FILE
        return cls(_read_keys(file), file=file)

    @classmethod
    def create(cls, folder: Path) -> Seal:
        """Create the file with a new key, readable only by its owner, and return its seal.

        If another process has created it in the meantime, that one is used.

        Args:
            folder: The data folder.
        """
        file = folder / KEYS_FILE
        with folder_lock(file):
            if not file.exists():
                _write_keys(file, [new_key()])
        return cls(_read_keys(file), file=file)

    @property
    def first_key_id(self) -> str:
        """The identifier of the key that seals."""
        return self._current().ids[0]

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The identifiers of all keys; the first one seals."""
        return self._current().ids

    @property
    def file(self) -> Path | None:
        """The file with the keys; None if they come from elsewhere."""
        return self._file

    def seal(self, text: str) -> bytes:
        """Return a text sealed with the first key.

        Args:
            text: Any text. Its length can be seen in the result.
        """
        ring = self._current()
        return f"{ring.ids[0]}:".encode() + ring.fernets[0].encrypt(text.encode("utf-8", "surrogatepass"))

    def open(self, sealed: bytes) -> str:
        """Return the text that was sealed.

        Args:
            sealed: What `seal` returned.

        Raises:
            SealError: Its key is not known, or it was changed.
        """
        from cryptography.fernet import InvalidToken

        found = _SEALED.fullmatch(sealed)
        if found is None:
            raise SealError("a text in the database is not sealed correctly; restore the database from a backup")
        wanted = found[1].decode()
        ring = self._ring if wanted in self._ring.ids else self._current()
        if wanted not in ring.ids:
            raise SealError(
                f"a text is sealed with the key {wanted}, which is not among the keys ({', '.join(ring.ids)}); "
                f"add that key to {KEYS_VARIABLE} or {KEYS_FILE}"
            )
        try:
            opened = ring.fernets[ring.ids.index(wanted)].decrypt(found[2])
        except InvalidToken:
            raise SealError(
                f"a text that is sealed with the key {wanted} was changed; restore the database from a backup"
            ) from None
        return opened.decode("utf-8", "surrogatepass")

    def signing_keys(self, purpose: str) -> list[bytes]:
        """Return signing keys, one derived from each key, the newest last. They reveal nothing about the keys.

        Args:
            purpose: What is signed; what is signed for one purpose is not valid for another.
        """
        return [hmac.digest(key, purpose.encode(), "sha256") for key in reversed(self._current().signing)]

    def add_first_key(self) -> str:
        """Put a new key before the others in the file, and return its identifier.

        Raises:
            SealError: The keys do not come from a file.
        """
        return self._change(lambda keys: [new_key(), *keys])

    def drop_keys(self, ids: Sequence[str]) -> None:
        """Remove keys from the file. The first one always remains.

        Args:
            ids: The identifiers of keys with which nothing is sealed any more.

        Raises:
            SealError: The keys do not come from a file.
        """
        self._change(lambda keys: [keys[0], *(key for key in keys[1:] if key_id(key) not in ids)])

    def _change(self, change: Callable[[list[str]], list[str]]) -> str:
        if self._file is None:
            raise SealError(f"the keys come from {KEYS_VARIABLE}; change them there and restart the server")
        with folder_lock(self._file):
            _write_keys(self._file, change(_read_keys(self._file)))
        return self._current().ids[0]

    def _current(self) -> _KeyRing:
        """Return the keys, read again if the file has changed."""
        if self._file is not None and (state := _state_of(self._file)) != self._changed:
            self._ring = _key_ring(_read_keys(self._file), str(self._file))
            self._changed = state
        return self._ring


def new_key() -> str:
    """Return a new random key: 32 bytes in URL-safe base 64.

    Example:
        >>> len(new_key())
        44
    """
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def key_id(key: str) -> str:
    """Return the identifier of a key, which does not reveal it.

    Example:
        >>> key_id("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
        '51643eac'
    """
    return hashlib.sha256(key.encode()).hexdigest()[:KEY_ID_LENGTH]


class _KeyRing(NamedTuple):
    """A snapshot of the keys. It is replaced as a whole, so that no thread sees half of a change."""

    ids: tuple[str, ...]
    fernets: tuple[Fernet, ...]
    signing: tuple[bytes, ...]


def _key_ring(keys: Sequence[str], source: str) -> _KeyRing:
    from cryptography.fernet import Fernet

    if not keys:
        raise SealError(f"{source} has no key; restore the file from a backup, or set {KEYS_VARIABLE}")
    fernets = []
    for place, key in enumerate(keys, start=1):
        try:
            fernets.append(Fernet(key))
        except ValueError:
            raise SealError(
                f"key {place} of {source} is not a key; keys are 32 bytes in URL-safe base 64 (44 characters)"
            ) from None
    signing = tuple(hmac.digest(key.encode(), b"signing", "sha256") for key in keys)
    return _KeyRing(tuple(map(key_id, keys)), tuple(fernets), signing)


def _keys_in(text: str) -> list[str]:
    lines = [line.partition("#")[0] for line in text.splitlines()]
    return [key for key in re.split(r"[\s,]+", "\n".join(lines)) if key]


def _read_keys(file: Path) -> list[str]:
    try:
        if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SealError(f"other users can read {str(file)!r}; run `chmod 600` on it")
        return _keys_in(file.read_text(encoding="ascii"))
    except FileNotFoundError:
        raise SealError(f"{str(file)!r} is missing; restore it from a backup, or set {KEYS_VARIABLE}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SealError(f"{str(file)!r} cannot be read: {error}") from error


def _write_keys(file: Path, keys: Sequence[str]) -> None:
    """Replace the file. A new one gets mode 0600. The caller holds the lock of the folder."""
    write_durably(file, "".join(f"{key}\n" for key in keys).encode())


def _state_of(file: Path) -> tuple[int, int] | None:
    """Return a value that changes when the file is replaced; None if it is missing."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns

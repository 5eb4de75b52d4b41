"""Opens a log as UTF-8, whatever its encoding and compression, and rejects files that cannot be logs."""

from __future__ import annotations

import codecs
import importlib
import io
import os
import re
import stat
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ace.logs.damage import NOT_UTF_8, UNPACKED_IN_PART, Damage

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = [
    "HEAD_SIZE",
    "NotALogError",
    "decoded",
    "kind_of_bytes",
    "kind_of_text",
    "opened",
    "opened_bytes",
    "signature_of",
    "suffix_of",
]

HEAD_SIZE: Final = 256 * 1024
"""How many bytes are read at a time, and at first."""

_COMPRESSIONS: Final = (
    (re.compile(rb"\x1f\x8b"), ("gzip",), "gzip -d"),
    (re.compile(rb"BZh[1-9]1AY&SY"), ("bz2",), "bzip2 -d"),
    (re.compile(rb"\xfd7zXZ\x00"), ("lzma",), "xz -d"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), ("compression.zstd", "backports.zstd", "zstandard"), "zstd -d"),
)
"""How compressed files begin, the modules that open them, the first that is installed, and what unpacks them."""
_COMPRESSED_SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst")
_SIGNATURES: Final = (
    (re.compile(rb"\x89PNG|\xff\xd8\xff|GIF8|RIFF....WEBP", re.DOTALL), "an image"),
    (re.compile(rb"%PDF"), "a PDF document"),
    (re.compile(rb"PAR1"), "a Parquet file; export it as JSON Lines"),
    (re.compile(rb"ARROW1|\xff\xff\xff\xff.\x00\x00\x00\x10", re.DOTALL), "an Arrow file; export it as JSON Lines"),
    (re.compile(rb"\x37\x7f\x06[\x82\x83]"), "the write-ahead log of an SQLite database"),
    (re.compile(rb".{257}ustar", re.DOTALL), "a tar archive; unpack it first"),
    (re.compile(rb"7z\xbc\xaf\x27\x1c"), "a 7z archive; unpack it first"),
    (re.compile(rb"\s*(<!doctype html|<html)", re.IGNORECASE), "an HTML page"),
)
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_STRANGE: Final = re.compile(r"[\x01-\x07\x0e-\x1a\x1c-\x1f\x7f\x81\x8d\x8f\x90\x9d]")
_MOST_STRANGE: Final = 0.05
"""Which part of a text may be control characters. They are a tenth of random bytes, and hardly occur in logs."""
_SAMPLE: Final = 512


class NotALogError(ValueError):
    """A file is of a type that cannot be a log, such as an image."""


def _as_windows_1252(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    # In Windows-1252, five bytes have no meaning; they stay what they are in Latin-1.
    byte = error.object[error.start : error.start + 1]
    try:
        return byte.decode("cp1252"), error.start + 1
    except UnicodeDecodeError:
        return byte.decode("latin-1"), error.start + 1


codecs.register_error("ace.windows-1252", _as_windows_1252)


def decoded(data: bytes, damage: Damage, line: int | None = None) -> str:
    """Return the text of bytes which may not be UTF-8 throughout, without NUL characters.

    Args:
        data: The bytes.
        damage: Where bytes of another encoding are noted.
        line: The line at which they begin.
    """
    data = data.replace(b"\x00", b"")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        # The line as a whole is known to its reader; in a larger part, count on.
        damage.note(NOT_UTF_8, None if line is None else line + data.count(b"\n", 0, error.start))
        return data.decode("utf-8", "ace.windows-1252")


def signature_of(path: Path) -> bytes:
    """Return the first bytes of a file, as they are stored.

    Args:
        path: The file.

    Raises:
        OSError: It cannot be read.
        NotALogError: It has no end, such as a pipe.
    """
    with _stored(path) as file:
        return file.read(_SAMPLE)


def _stored(path: Path) -> BinaryIO:
    file = open(path, "rb", buffering=0, opener=_opened_at_once)  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise NotALogError("not a regular file")
    return file


def _opened_at_once(path: str, flags: int) -> int:
    """Open a file without waiting for a writer, in case it is a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def suffix_of(path: Path) -> str:
    """Return the ending of a name in lower case, without that of a compression.

    Example:
        >>> suffix_of(Path("a/rollout-1.JSONL.zst"))
        '.jsonl'
    """
    plain = path.with_suffix("") if path.suffix.lower() in _COMPRESSED_SUFFIXES else path
    return plain.suffix.lower()


def opened(path: Path, damage: Damage, most: int | None = None) -> BufferedReader:
    """Open a file of text, as UTF-8 without a byte order mark.

    Args:
        path: The file.
        damage: Where damage of the compressed data is noted.
        most: How many bytes are read at most; None for all.

    Raises:
        OSError: It cannot be read.
        NotALogError: It has no end, or is compressed in a way for which no module is installed.
    """
    stored = _stored(path)
    start = stored.read(_SAMPLE)
    stored.seek(0)
    size: int | None = os.fstat(stored.fileno()).st_size
    for signature, modules, command in _COMPRESSIONS:
        if signature.match(start):
            stored.close()
            start = _first(_unpacked(path, modules, command))
            # Opened again: a file that is damaged at its beginning cannot go back.
            stored, size = _unpacked(path, modules, command), None
            break
    return _log_file(stored, start, size, damage, most)


def opened_bytes(data: bytes, damage: Damage) -> BufferedReader:
    """Open a text in memory.

    Args:
        data: The text in any of the encodings of files.
        damage: Where damage is noted.
    """
    return _log_file(io.BytesIO(data), data[:_SAMPLE], len(data), damage)


def _log_file(
    stored: BinaryIO, start: bytes, size: int | None, damage: Damage, most: int | None = None
) -> BufferedReader:
    mark, encoding = next(((mark, name) for mark, name in _MARKS if start.startswith(mark)), (b"", _guessed(start)))
    stored.read(len(mark))
    raw = _Utf8(stored, encoding, None if size is None else size - len(mark), damage, most)
    return BufferedReader(raw, HEAD_SIZE)


def _unpacked(path: Path, modules: tuple[str, ...], command: str) -> BinaryIO:
    for name in modules:
        try:
            file: BinaryIO = importlib.import_module(name).open(path, "rb")
        except ImportError:
            continue
        return file
    raise NotALogError(f"compressed; unpack it first: {command} {path.name}")


def _first(file: BinaryIO) -> bytes:
    """Return the first bytes of unpacked data; damage is noted when they are read again."""
    with file:
        try:
            return file.read(_SAMPLE)
        except Exception:  # every module has an error of its own
            return b""


def _guessed(start: bytes) -> str:
    """Return the encoding of a text without a byte order mark: in UTF-16, half of the bytes of plain text are NUL."""
    pairs = len(start) // 2
    first, second = start[::2].count(0), start[1::2].count(0)
    if pairs > 1 and second * 2 > pairs and not first:
        return "utf-16-le"
    return "utf-16-be" if pairs > 1 and first * 2 > pairs and not second else "utf-8"


class _Utf8(io.RawIOBase):
    """The content of a file as UTF-8. It ends where the file ended when it was opened, as a log may grow."""

    def __init__(
        self, file: BinaryIO, encoding: str, size: int | None, damage: Damage, most: int | None = None
    ) -> None:
        self._file = file
        self._decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)("replace")
        self._left = size
        self._damage = damage
        self._waiting = b""
        self._most = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)[: self._most]
        data = self._waiting or self._next(len(view))
        count = min(len(data), len(view))
        view[:count] = data[:count]
        self._waiting = data[count:]
        self._most = None if self._most is None else self._most - count
        return count

    def _next(self, size: int) -> bytes:
        """Return some more of the content; nothing at its end."""
        if self._decoder is None:
            return self._stored(size)
        while data := self._stored(size):
            if text := self._decoder.decode(data):
                return text.encode()
        return self._decoder.decode(b"", final=True).encode()

    def _stored(self, size: int) -> bytes:
        if self._left is not None:
            data = self._file.read(min(size, self._left))
            self._left -= len(data)
            return data
        try:
            # A larger read would lose what comes before the damage in it.
            return self._part(size)
        except Exception:  # every module has an error of its own
            self._damage.note(UNPACKED_IN_PART)
            self._left = 0
            return b""

    def _part(self, size: int) -> bytes:
        file: Any = self._file
        data: bytes = file.read1(size)
        return data

    def close(self) -> None:
        self._file.close()
        super().close()


def kind_of_bytes(start: bytes) -> str:
    """Return the type of a file that cannot be a log, such as an image; an empty text for other files.

    Args:
        start: How it begins.

    Example:
        >>> kind_of_bytes(b"GIF89a..."), kind_of_bytes(b"<html>502</html>"), kind_of_bytes("naïve".encode())
        ('an image', 'an HTML page', '')
    """
    return next((kind for signature, kind in _SIGNATURES if signature.match(start)), "")


def kind_of_text(start: str) -> str:
    """Return why a text cannot be a log: it is empty, or no text; an empty text if it can be one.

    Args:
        start: How it begins, without NUL characters.

    Example:
        >>> kind_of_text("\x01\x02\x03"), kind_of_text("User: hello")
        ('binary data', '')
    """
    if not start.strip():
        return "an empty file"
    return "binary data" if len(_STRANGE.findall(start)) > _MOST_STRANGE * len(start) else ""

"""`WordVectors`: static vectors for texts, from the data files of the package `wordllama`; imports numpy when used."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["WordVectors", "word_vectors"]

_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_LONGEST_TEXT = 20_000
"""Texts are cut to this number of characters: a vector of more says nothing about its parts."""


@final
class WordVectors:
    """The mean of the vectors of a text's tokens, 256 numbers. It is thread-safe.

    The package itself is not imported, which would take longer than reading its two data files: the table is mapped
    into memory, and only the rows of tokens that occur are read.

    Raises:
        LookupError: The package is not installed, or its files are missing.
    """

    def __init__(self) -> None:
        found = find_spec("wordllama")
        if found is None or found.origin is None:
            raise LookupError("the package 'wordllama' is not installed; it is a dependency of ace-core")
        folder = Path(found.origin).parent
        for name in (_WEIGHTS, _TOKENIZER):
            if not (folder / name).is_file():
                raise LookupError(f"{folder} has no file {name}")
        import numpy as np
        from tokenizers import Tokenizer

        sizes = [(folder / name).stat() for name in (_WEIGHTS, _TOKENIZER)]
        self.identity = [[status.st_size, status.st_mtime_ns] for status in sizes]
        """What tells these vectors from those of another release of the package."""
        self._tokenizer: Any = Tokenizer.from_file(str(folder / _TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        with (folder / _WEIGHTS).open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            table = json.loads(file.read(size))["embedding.weight"]
        start = 8 + size + table["data_offsets"][0]
        self._table = np.memmap(folder / _WEIGHTS, dtype="<f2", mode="r", offset=start, shape=tuple(table["shape"]))

    def rows(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row for each text, of length 1, or of zeros for a text without tokens."""
        import numpy as np

        rows = np.zeros((len(texts), self._table.shape[1]), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            encoded = self._tokenizer.encode(text[:_LONGEST_TEXT], add_special_tokens=False)
            tokens = list(dict.fromkeys(encoded.ids))  # once each: what a text repeats does not make it another subject
            if tokens:
                row[:] = self._table[tokens].sum(axis=0, dtype=np.float32)
        lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        lengths[lengths == 0] = 1
        rows /= lengths[:, np.newaxis]
        return rows


_loading = threading.Lock()


def word_vectors() -> WordVectors:
    """Return the word vectors of this process, which are loaded once.

    Raises:
        LookupError: See `WordVectors`.
    """
    with _loading:
        return _loaded()


@cache
def _loaded() -> WordVectors:
    return WordVectors()

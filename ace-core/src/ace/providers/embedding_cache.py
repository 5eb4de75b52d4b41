"""`CachedEmbedder`, which embeds each text only once, even across processes."""

from __future__ import annotations

import hashlib
import logging
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ace._internal.arguments import checked_class
from ace._internal.atomic_file import create_private, own_file

if TYPE_CHECKING:
    import sqlite3

from ace.protocols.deduplication import EmbedderLike

__all__ = ["CachedEmbedder"]

_logger = logging.getLogger(__name__)
_SCHEMA = """
CREATE TABLE IF NOT EXISTS vector (
    model TEXT NOT NULL, digest BLOB NOT NULL, numbers BLOB NOT NULL, PRIMARY KEY (model, digest)
) WITHOUT ROWID
"""


@checked_class
class CachedEmbedder:
    """Caches the vectors of texts by the hash of their content. The texts themselves are not stored.

    A cache file that cannot be used is logged and otherwise ignored.

    Args:
        embedder: Computes the vectors.
        model: The name of its model; vectors of different models never mix.
        path: The cache file, which several processes may share; missing folders are created.

    Example:
        >>> import tempfile
        >>> class Counting:
        ...     def embed(self, texts):
        ...         print("embedding", list(texts))
        ...         return [[float(len(text))] for text in texts]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cached = CachedEmbedder(Counting(), model="length", path=Path(folder) / "vectors.db")
        ...     first, second = cached.embed(["one"]), cached.embed(["one", "three"])
        embedding ['one']
        embedding ['three']
        >>> second
        [[3.0], [5.0]]
    """

    def __init__(self, embedder: EmbedderLike, *, model: str, path: str | Path) -> None:
        self.embedder = embedder
        self.model = model
        self.path = Path(path)

    @property
    def similarity_threshold(self) -> float | None:
        """The cosine from which the embedder counts texts as similar, if it defines one."""
        threshold: float | None = getattr(self.embedder, "similarity_threshold", None)
        return threshold

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in order; only texts that are not in the cache go to the model.

        Args:
            texts: The texts; at least one.

        Raises:
            LLMError: The model could not be reached.
        """
        digests = {text: hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts}
        known = self._known(digests.values())
        new = [text for text in digests if digests[text] not in known]
        if new:
            vectors = self.embedder.embed(new)
            made = {digests[text]: list(vector) for text, vector in zip(new, vectors, strict=True)}
            self._keep(made)
            known = {**known, **made}
        return [known[digests[text]] for text in texts]

    def _known(self, digests: Iterable[bytes]) -> Mapping[bytes, list[float]]:
        import sqlite3  # not with `ace.providers`, which every client loads

        try:
            with closing(self._connection()) as connection:
                found = {}
                for digest in digests:
                    row = connection.execute(
                        "SELECT numbers FROM vector WHERE model = ? AND digest = ?", (self.model, digest)
                    ).fetchone()
                    if row is not None:
                        found[digest] = array("d", row[0]).tolist()
                return found
        except (sqlite3.Error, OSError) as error:
            self._complain(error)
            return {}

    def _keep(self, vectors: Mapping[bytes, Sequence[float]]) -> None:
        import sqlite3

        rows = [(self.model, digest, array("d", vector).tobytes()) for digest, vector in vectors.items()]
        try:
            with closing(self._connection()) as connection, connection:
                connection.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?, ?)", rows)
        except (sqlite3.Error, OSError) as error:
            self._complain(error)

    def _connection(self) -> sqlite3.Connection:
        import sqlite3

        self.path.parent.mkdir(parents=True, exist_ok=True)
        path = own_file(self.path)
        create_private(path)  # texts can be guessed from their vectors
        connection = sqlite3.connect(path, timeout=10)
        try:
            connection.execute(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _complain(self, error: Exception) -> None:
        _logger.warning(
            "%s: the cache of embeddings cannot be used: %s; delete it to start with an empty cache", self.path, error
        )

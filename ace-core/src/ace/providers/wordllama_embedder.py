"""`WordLlamaEmbedder`: word vectors that come with a package, without a key and without a network."""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ace.arguments import checked_class
from ace.protocols.errors import LLMError

__all__ = ["WordLlamaEmbedder"]


@checked_class
class WordLlamaEmbedder:
    """Turns texts into vectors of 256 numbers, thousands of texts in a second.

    It needs the extra `ace-core[embeddings]`. The vectors are loaded on the first call.

    Args:
        model: None; the package has one set of vectors.

    Raises:
        ValueError: A model is named.

    Example:
        >>> WordLlamaEmbedder()
        WordLlamaEmbedder()
    """

    similarity_threshold = 0.6
    """Rewordings of one skill have a cosine of 0.55 to 0.95, skills about different things one of up to 0.4."""

    def __init__(self, model: str | None = None) -> None:
        if model is not None:
            raise ValueError(f"there are no word vectors {model!r}; leave embedding_model out")
        self._lock = threading.Lock()
        self._model: Any = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @staticmethod
    def is_installed() -> bool:
        """Tell whether the package with the vectors is installed; it is not imported."""
        return importlib.util.find_spec("wordllama") is not None

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in order.

        Args:
            texts: The texts.

        Raises:
            LLMError: The package is not installed.
        """
        if not texts:
            return []
        return [[float(number) for number in row] for row in self._loaded().embed(list(texts))]

    def _loaded(self) -> Any:
        with self._lock:
            if self._model is None:
                if not self.is_installed():
                    raise LLMError(
                        "vectors on this machine need the package 'wordllama'; install it with: "
                        "pip install 'ace-core[embeddings]'"
                    )
                package = importlib.import_module("wordllama")
                # The package looks for its own tokenizer in a folder that it does not have, and then wants to
                # download it. As a cache its folder is right.
                folder = Path(str(package.__file__)).parent
                self._model = package.WordLlama.load(cache_dir=folder, disable_download=True)
            return self._model

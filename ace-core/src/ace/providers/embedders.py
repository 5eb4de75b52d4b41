"""`LiteLLMEmbedder`: vectors from any embedding model that LiteLLM knows; `WordLlamaEmbedder`: word vectors."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from ace._internal.arguments import checked_class, http_address, instance_of, real_number
from ace.protocols.errors import LLMCallError
from ace.protocols.llm import Usage
from ace.providers import litellm_library
from ace.providers.litellm_library import Vectors, placeholder_key
from ace.providers.request_outcomes import RetryPolicy, UsageAccount
from ace.retrieval.word_vectors import word_vectors

__all__ = ["LiteLLMEmbedder", "WordLlamaEmbedder"]

_logger = logging.getLogger(__name__)
_TEXTS_PER_REQUEST = 100


@checked_class
class LiteLLMEmbedder:
    """Turns texts into vectors. LiteLLM is imported on the first call.

    Args:
        model: A LiteLLM model string, such as `text-embedding-3-small`.
        api_base: The address of your own server.
        api_key: The key; by default LiteLLM takes it from the environment.
        timeout: How long to wait for the server, in seconds.
        retries: When and after what delay a request is retried.

    Example:
        >>> LiteLLMEmbedder("text-embedding-3-small", api_key="sk-very-secret")
        LiteLLMEmbedder('text-embedding-3-small')
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        retries: RetryPolicy | None = None,
    ) -> None:
        argument: object = model
        if not isinstance(argument, str) or not argument:
            raise ValueError("model must be a LiteLLM model string, such as 'text-embedding-3-small'")
        if api_base:
            http_address("api_base", api_base)
        real_number("timeout", timeout, above=0, of="seconds")
        if retries is not None:
            instance_of("retries", retries, RetryPolicy)
        self.model = model
        self._api_base = api_base
        self._api_key = api_key
        self._timeout = timeout
        self._retries = retries if retries is not None else RetryPolicy()
        self._account = UsageAccount()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    @property
    def usage(self) -> Usage:
        """The usage of all calls so far."""
        return self._account.total

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in order.

        Args:
            texts: The texts; a long list is sent in several requests.

        Raises:
            LLMCallError: The server returned no vectors.
        """
        vectors: list[Sequence[float]] = []
        for start in range(0, len(texts), _TEXTS_PER_REQUEST):
            vectors += self._embed_some(list(texts[start : start + _TEXTS_PER_REQUEST]))
        return vectors

    def _embed_some(self, texts: list[str]) -> Sequence[Sequence[float]]:
        attempt = 0
        while True:
            attempt += 1
            outcome = litellm_library.embed(self._request(texts))
            if isinstance(outcome, Vectors):
                self._account.add(outcome.usage)
                return outcome.rows
            self._account.add(Usage(failed_requests=1))
            worth_it = not outcome.is_authentication and self._retries.is_worth_retrying(outcome.status_code)
            if not worth_it or attempt > self._retries.max_retries:
                raise LLMCallError(
                    f"embedding model {self.model!r} returned no vectors after {attempt} request(s): {outcome.reason}",
                    model=self.model,
                    status_code=outcome.status_code,
                    attempts=attempt,
                )
            _logger.info("embedding model %r: %s; trying again", self.model, outcome.reason)
            time.sleep(self._retries.delay(attempt, outcome.retry_after))

    def _request(self, texts: list[str]) -> dict[str, object]:
        request: dict[str, object] = {
            "model": self.model,
            "input": texts,
            "api_base": self._api_base,
            "api_key": self._api_key or placeholder_key(self.model, self._api_base),
            "timeout": self._timeout,
            "encoding_format": "float",
        }
        return {name: value for name, value in request.items() if value is not None}


@checked_class
class WordLlamaEmbedder:
    """Turns texts into vectors of 256 numbers with the static word vectors of the package `wordllama`.

    It embeds tens of thousands of texts per second. The vectors are loaded on the first call.

    Args:
        model: Must be None, since the package has only one set of vectors.

    Raises:
        ValueError: A model is given.

    Example:
        >>> len(WordLlamaEmbedder().embed(["Check the units."])[0])
        256
    """

    similarity_threshold = 0.66
    """Calibrated on 100 labelled pairs: of the pairs above it, 96 % are rewordings of one skill, and it finds 92 % of
    all rewordings."""

    def __init__(self, model: str | None = None) -> None:
        if model is not None:
            raise ValueError(f"no such word vectors: {model!r}; omit embedding_model")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in order.

        Raises:
            LookupError: The package is not installed, or its files are missing.
        """
        rows: list[list[float]] = word_vectors().rows(texts).tolist() if texts else []
        return rows

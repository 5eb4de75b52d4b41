"""`LLMClientConformance` and `EmbedderConformance`: the checks for model clients and embedders of a plugin."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import BaseModel

from ace.plugins import EmbedderSpec, LLMClientSpec
from ace.protocols import LLMError, LLMResponse, UnusableAnswerError
from ace.testing.scripted_model import FailingModel, MeetingModel, ScriptedModel, code_word, code_words
from ace.testing.suite import Conformance, demand, must_be_given, resolved, spec_of

__all__ = ["EmbedderConformance", "LLMClientConformance", "MakeClient"]

MakeClient = Callable[[ScriptedModel], Any]

AT_ONCE = 8
PROMPT = "Repeat the code word {}."


class CodeWord(BaseModel):
    """The answer that the structured checks request."""

    code_word: str


class JsonModel(ScriptedModel):
    """A model that answers with an object as `CodeWord` describes it."""

    def _answer(self, prompt: str) -> str:
        return CodeWord(code_word=code_words(prompt)[0]).model_dump_json()


class LLMClientConformance(Conformance, is_suite=True):
    """Checks the client of a language model. Fixtures: `plugin_name`, `make_client`.

    A client that has only `complete` or only `complete_structured` skips the checks of the other.
    """

    @pytest.fixture
    def make_client(self) -> MakeClient:
        """A function that takes a `ScriptedModel` and returns a client whose provider is that model."""
        made: MakeClient = must_be_given(self, "make_client")
        return made

    def test_made_from_a_model_string(self, plugin_name: str) -> None:
        """The target accepts the rest of the model string and settings, and rejects unknown settings."""
        spec = spec_of(plugin_name, LLMClientSpec)
        target = resolved(plugin_name, spec.target, spec.requires)
        try:
            inspect.signature(target).bind("some-model", max_tokens=16, temperature=0.0)  # type: ignore[arg-type]  # any object
        except (TypeError, ValueError) as error:
            pytest.fail(
                f"{spec.target!r} cannot be called with a model, max_tokens and temperature: {error}", pytrace=False
            )

    def test_complete(self, make_client: MakeClient) -> None:
        """`complete` returns an `LLMResponse` with the text of the answer, and a call may set `max_tokens`."""
        client = _with_method(make_client(ScriptedModel()), "complete")
        answer = _settled(client.complete(PROMPT.format(code_word(1)), max_tokens=64))
        demand(isinstance(answer, LLMResponse), f"complete returned a {type(answer).__name__}, not an LLMResponse")
        demand(
            code_word(1) in answer.text, f"the text of the answer is {answer.text!r}; the model said {code_word(1)!r}"
        )

    def test_complete_structured(self, make_client: MakeClient) -> None:
        """`complete_structured` returns an instance of the requested class."""
        client = _with_method(make_client(JsonModel()), "complete_structured")
        answer = _settled(client.complete_structured(PROMPT.format(code_word(2)), CodeWord))
        demand(isinstance(answer, CodeWord), f"complete_structured returned a {type(answer).__name__}, not a CodeWord")
        demand(answer.code_word == code_word(2), f"the answer holds {answer.code_word!r}, not {code_word(2)!r}")

    def test_unusable_answer(self, make_client: MakeClient) -> None:
        """An answer that does not validate results in `UnusableAnswerError`, not in a made-up answer."""
        client = _with_method(make_client(ScriptedModel()), "complete_structured")
        try:
            answer = _settled(client.complete_structured(PROMPT.format(code_word(3)), CodeWord))
        except UnusableAnswerError:
            return
        except Exception as error:
            pytest.fail(
                f"an answer that does not validate raised {type(error).__name__}; raise UnusableAnswerError, which "
                "keeps what the model said",
                pytrace=False,
            )
        pytest.fail(f"an answer that does not validate was returned as {answer!r}", pytrace=False)

    def test_failure_is_told(self, make_client: MakeClient) -> None:
        """A failure of the provider results in an `LLMError`, which runs count, retry and report."""
        client = make_client(FailingModel())
        method = "complete" if hasattr(client, "complete") else "complete_structured"
        arguments = (PROMPT.format(code_word(4)), *([CodeWord] if method == "complete_structured" else []))
        try:
            answer = _settled(getattr(client, method)(*arguments))
        except LLMError:
            return
        except Exception as error:
            pytest.fail(
                f"a provider that fails raised {type(error).__name__}; raise LLMCallError from it", pytrace=False
            )
        pytest.fail(f"the provider failed, and {method} returned {answer!r}", pytrace=False)

    def test_eight_at_once(self, make_client: MakeClient) -> None:
        """The answers to eight concurrent calls of one client are not mixed up."""
        client = _with_method(make_client(MeetingModel(AT_ONCE)), "complete")
        words = [code_word(number) for number in range(1, AT_ONCE + 1)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            answers = list(pool.map(lambda word: _settled(client.complete(PROMPT.format(word))), words))
        for word, answer in zip(words, answers, strict=True):
            demand(code_words(answer.text) == [word], f"the call with {word} was answered {answer.text!r}")

    def test_async_twins(self, make_client: MakeClient) -> None:
        """`acomplete` and `acomplete_structured`, if present, are awaitable and answer like the blocking methods."""
        twins = [name for name in ("acomplete", "acomplete_structured") if hasattr(make_client(JsonModel()), name)]
        if not twins:
            pytest.skip("the client has no asynchronous methods; it is called in a thread")
        for name in twins:
            arguments = (PROMPT.format(code_word(5)), *([CodeWord] if name == "acomplete_structured" else []))
            returned = getattr(make_client(JsonModel()), name)(*arguments)
            demand(
                inspect.isawaitable(returned), f"{name} returned a {type(returned).__name__}, which is not awaitable"
            )
            answer = _settled(returned)
            said = answer.code_word if isinstance(answer, CodeWord) else getattr(answer, "text", "")
            demand(code_word(5) in said, f"{name} answered {answer!r}; the model said {code_word(5)!r}")


class EmbedderConformance(Conformance, is_suite=True):
    """Checks an embedding model. Fixtures: `plugin_name`, `make_embedder`."""

    @pytest.fixture
    def make_embedder(self, plugin_name: str) -> Callable[[], Any]:
        """A function that returns an embedder; by default it calls the target with None."""
        spec = spec_of(plugin_name, EmbedderSpec)
        target: Any = resolved(plugin_name, spec.target, spec.requires)
        return lambda: target(None)

    def test_one_vector_for_each_text(self, make_embedder: Callable[[], Any]) -> None:
        """Every text, whatever its contents, gets a vector of finite numbers, and all vectors have the same length."""
        texts = ["Check the units.", "", "Prüfe die Einheiten. 单位", "x " * 5_000]
        vectors = _vectors(make_embedder(), texts)
        demand(len(vectors) == len(texts), f"{len(texts)} texts got {len(vectors)} vectors")
        lengths = {len(vector) for vector in vectors}
        demand(len(lengths) == 1 and 0 not in lengths, f"the vectors have the lengths {sorted(lengths)}")
        demand(all(math.isfinite(number) for vector in vectors for number in vector), "a vector holds inf or nan")

    def test_deterministic(self, make_embedder: Callable[[], Any]) -> None:
        """A text always gets the same vector, alone or in a batch: stored vectors are compared with new ones."""
        texts = ["Check the units.", "Ask for the date."]
        together = _vectors(make_embedder(), texts)
        alone = [_vectors(make_embedder(), [text])[0] for text in texts]
        for text, one, other in zip(texts, together, alone, strict=True):
            same = all(math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4) for a, b in zip(one, other, strict=True))
            demand(same, f"{text!r} gets another vector alone than beside other texts")

    def test_similar_texts_are_near(self, make_embedder: Callable[[], Any]) -> None:
        """A text is more similar to a version with one changed word than to an unrelated text."""
        asked, near, far = _vectors(
            make_embedder(),
            ["Check the units of the answer.", "Check the units of an answer.", "Penguins breed in colonies."],
        )
        demand(
            _cosine(asked, near) > _cosine(asked, far),
            "'Check the units of the answer.' is nearer to a sentence about penguins than to its own rewording",
        )

    def test_eight_at_once(self, make_embedder: Callable[[], Any]) -> None:
        """One embedder may be called from eight threads at the same time."""
        embedder = make_embedder()
        texts = [f"Text {number} of the kit" for number in range(AT_ONCE)]
        wanted = _vectors(embedder, texts)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            found = list(pool.map(lambda text: _vectors(embedder, [text])[0], texts))
        for text, one, other in zip(texts, wanted, found, strict=True):
            same = all(math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4) for a, b in zip(one, other, strict=True))
            demand(same, f"{text!r} gets another vector when several threads ask")


def _with_method(client: Any, method: str) -> Any:
    if not hasattr(client, method):
        pytest.skip(f"the client has no method {method!r}")
    return client


def _settled(returned: Any) -> Any:
    """Return the result of a method, awaited if it is awaitable."""
    return asyncio.run(_awaited(returned)) if inspect.isawaitable(returned) else returned


async def _awaited(returned: Awaitable[Any]) -> Any:
    return await returned


def _vectors(embedder: Any, texts: Sequence[str]) -> list[list[float]]:
    return [[float(number) for number in vector] for vector in embedder.embed(texts)]


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    lengths = math.hypot(*one) * math.hypot(*other)
    return product / lengths if lengths else 0.0

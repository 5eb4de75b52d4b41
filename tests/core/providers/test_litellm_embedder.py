"""`LiteLLMEmbedder` against a server on loopback."""

from __future__ import annotations

from typing import Any

import pytest

from ace.protocols import LLMCallError
from ace.providers import LiteLLMEmbedder
from tests.support.clients import KEY
from tests.support.scripted_server import ScriptedServer, in_turn


def embedder_for(server: ScriptedServer) -> LiteLLMEmbedder:
    return LiteLLMEmbedder("openai/vectors", api_base=server.api_base, api_key=KEY)


def test_vectors_come_in_the_order_of_the_texts_and_are_counted() -> None:
    texts = [f"text {number}" for number in range(250)]
    with ScriptedServer(in_turn("")) as server:
        embedder = embedder_for(server)
        vectors = embedder.embed(texts)
        assert vectors[137] == embedder.embed(["text 137"])[0] != vectors[138]
    assert len(vectors) == 250
    assert (embedder.usage.calls, embedder.usage.input_tokens) == (4, 502)


@pytest.mark.parametrize(
    "row",
    [{"embedding": [1.0]}, {"index": 0}, {"index": 0, "embedding": None}],
    ids=str,
)
def test_what_is_no_vector_is_an_error_of_the_call(row: dict[str, Any]) -> None:
    with (
        ScriptedServer(in_turn(""), embedding_rows=[row]) as server,
        pytest.raises(LLMCallError, match="gave 0 usable vectors for 1 texts"),
    ):
        embedder_for(server).embed(["a text"])

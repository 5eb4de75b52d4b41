"""What a stream yields is gathered to what the call would have returned."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
from langchain_core.runnables import RunnableGenerator
from pydantic import BaseModel

from tests.langchain.steps import run


class Tide(BaseModel):
    name: str


def test_a_parser_that_yields_ever_more_of_its_object_ends_with_the_whole() -> None:
    answer = AIMessage('{"tide": "ebb", "by": {"rule": "[sea-00001]"}}')
    model = GenericFakeChatModel(messages=iter([answer]))
    result = run(model | JsonOutputParser(), "Which tide?", call="stream")
    assert (result.success, result.error) == (True, None)
    assert result.output == '{"tide": "ebb", "by": {"rule": "[sea-00001]"}}'
    assert (result.skill_ids, result.usage["model_calls"]) == (("sea-00001",), 1)


def test_of_chunks_that_cannot_be_added_the_last_one_counts() -> None:
    def parts(inputs: Iterator[Any]) -> Iterator[Tide]:
        yield from (Tide(name="e"), Tide(name="ebb"))

    async def later(inputs: AsyncIterator[Any]) -> AsyncIterator[Tide]:
        for part in parts(iter(())):
            yield part

    assert run(RunnableGenerator(parts, later), "Which?", call="stream").output == '{"name": "ebb"}'


@pytest.mark.parametrize("call", ["async", "stream"])
def test_a_text_is_put_together(call: Any) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("It is the ebb.")]))
    assert run(model | StrOutputParser(), "Which?", call=call).output == "It is the ebb."

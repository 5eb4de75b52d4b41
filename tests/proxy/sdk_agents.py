"""Agents on the real SDKs. Each asks for the weather, and returns what it got, so that two runs can be compared."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import anthropic
import openai
from pydantic import BaseModel

from tests.proxy.world import KEY

__all__ = ["AGENTS", "QUESTION"]

QUESTION = "How is the weather in Paris?"
_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TOOL: Any = {"type": "function", "function": {"name": "weather", "description": "The weather", "parameters": _SCHEMA}}
_RESPONSES_TOOL: Any = {"type": "function", "name": "weather", "parameters": _SCHEMA, "strict": False}
_ANTHROPIC_TOOL: Any = {"name": "weather", "input_schema": _SCHEMA}
_RESULT = json.dumps({"weather": "rain"})
_IMAGE = "data:image/png;base64,iVBORw0KGgo="


class Weather(BaseModel):
    weather: str
    degrees: int


def _openai(url: str) -> openai.OpenAI:
    return openai.OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0)


def _anthropic(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key=KEY, base_url=url, max_retries=0)


def openai_chat(url: str) -> object:
    messages: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    return _openai(url).chat.completions.create(model="m", messages=messages, temperature=0.7).model_dump()


def openai_image(url: str) -> object:
    parts = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": _IMAGE}}]
    messages: Any = [{"role": "user", "content": parts}]
    return _openai(url).chat.completions.create(model="m", messages=messages).model_dump()


def openai_tools(url: str) -> object:
    client = _openai(url)
    messages: Any = [{"role": "user", "content": QUESTION}]
    asked = client.chat.completions.create(model="m", messages=messages, tools=[_TOOL]).choices[0].message
    messages += [asked.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": "call_1", "content": _RESULT}]
    return client.chat.completions.create(model="m", messages=messages, tools=[_TOOL]).model_dump()


def openai_streamed_tools(url: str) -> object:
    client = _openai(url)
    messages: Any = [{"role": "user", "content": QUESTION}]
    with client.chat.completions.stream(model="m", messages=messages, tools=[_TOOL]) as stream:
        asked = stream.get_final_completion().choices[0].message
    messages += [asked.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": "call_1", "content": _RESULT}]
    with client.chat.completions.stream(model="m", messages=messages, tools=[_TOOL]) as stream:
        return [event.model_dump() for event in stream if event.type == "chunk"]


def openai_structured(url: str) -> object:
    messages: Any = [{"role": "user", "content": QUESTION}]
    done = _openai(url).chat.completions.parse(model="m", messages=messages, response_format=Weather)
    return done.choices[0].message.parsed


def openai_async(url: str) -> object:
    async def ask() -> object:
        async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0) as client:
            messages: Any = [{"role": "user", "content": QUESTION}]
            stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
            return [chunk.model_dump() async for chunk in stream]

    return asyncio.run(ask())


def openai_responses(url: str) -> object:
    client = _openai(url)
    items: Any = [{"role": "user", "content": QUESTION}]
    asked = client.responses.create(model="m", instructions="Be brief.", input=items, tools=[_RESPONSES_TOOL])
    items += [item.model_dump(exclude_none=True) for item in asked.output]
    items.append({"type": "function_call_output", "call_id": "call_1", "output": _RESULT})
    with client.responses.stream(model="m", instructions="Be brief.", input=items, tools=[_RESPONSES_TOOL]) as stream:
        return [event.model_dump(warnings=False) for event in stream]


def openai_continued_responses(url: str) -> object:
    client = _openai(url)
    asked = client.responses.create(model="m", input=QUESTION, tools=[_RESPONSES_TOOL])
    result: Any = [{"type": "function_call_output", "call_id": "call_1", "output": _RESULT}]
    done = client.responses.create(model="m", input=result, previous_response_id=asked.id, tools=[_RESPONSES_TOOL])
    return [asked.model_dump(), done.model_dump()]


def anthropic_messages(url: str) -> object:
    messages: Any = [{"role": "user", "content": QUESTION}]
    return _anthropic(url).messages.create(model="m", max_tokens=99, system="Be brief.", messages=messages).model_dump()


def anthropic_tools(url: str) -> object:
    client = _anthropic(url)
    system: Any = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    messages: Any = [{"role": "user", "content": QUESTION}]
    asked = client.messages.create(model="m", max_tokens=99, system=system, messages=messages, tools=[_ANTHROPIC_TOOL])
    block = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": _RESULT,
        "cache_control": {"type": "ephemeral"},
    }
    messages += [{"role": "assistant", "content": asked.content}, {"role": "user", "content": [block]}]
    with client.messages.stream(
        model="m", max_tokens=99, system=system, messages=messages, tools=[_ANTHROPIC_TOOL]
    ) as stream:
        events = [event.model_dump(warnings=False) for event in stream]
    return [events, stream.get_final_message().model_dump(warnings=False)]


def anthropic_async(url: str) -> object:
    async def ask() -> object:
        async with anthropic.AsyncAnthropic(api_key=KEY, base_url=url, max_retries=0) as client:
            messages: Any = [{"role": "user", "content": QUESTION}]
            async with client.messages.stream(model="m", max_tokens=99, messages=messages) as stream:
                return [text async for text in stream.text_stream]

    return asyncio.run(ask())


def gemini(url: str) -> object:
    with _gemini(url) as client:
        return client.models.generate_content(model="m", contents=QUESTION).text


def gemini_tools(url: str) -> object:
    from google.genai import types

    declaration: Any = {"name": "weather", "parameters_json_schema": _SCHEMA}
    tool = types.Tool(function_declarations=[declaration])
    config = types.GenerateContentConfig(system_instruction="Be brief.", tools=[tool])
    with _gemini(url) as client:
        chat = client.chats.create(model="m", config=config)
        asked = [chunk.function_calls for chunk in chat.send_message_stream(QUESTION)]
        result = types.Part.from_function_response(name="weather", response={"output": _RESULT})
        return [asked, [chunk.text for chunk in chat.send_message_stream(result)]]


def _gemini(url: str) -> Any:
    from google import genai
    from google.genai import types

    return genai.Client(api_key=KEY, vertexai=False, http_options=types.HttpOptions(base_url=url))


def langchain_openai(url: str) -> object:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    def weather(city: str) -> str:
        """Return the weather."""
        return _RESULT

    llm = ChatOpenAI(model="m", api_key=SecretStr(KEY), base_url=f"{url}/v1", max_retries=0)
    agent = create_agent(llm, [weather], system_prompt="Be brief.")
    found = agent.invoke({"messages": [{"role": "user", "content": QUESTION}]})
    return [message.content for message in found["messages"]]


AGENTS: dict[str, Callable[[str], object]] = {
    agent.__name__: agent
    for agent in (
        *(openai_chat, openai_image, openai_tools, openai_streamed_tools, openai_structured, openai_async),
        *(openai_responses, openai_continued_responses),
        *(anthropic_messages, anthropic_tools, anthropic_async, gemini, gemini_tools, langchain_openai),
    )
}
"""The agents by their names."""

"""A model for the four APIs that calls the tool `weather` once, where there are tools, and then answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

from tests.proxy.world import Raw, Seen, in_events, in_json

ANSWER = "It rains in Paris."
ARGUMENTS = {"city": "Paris"}


def model(seen: Seen) -> Raw:
    """Answer a request, as a stream if it asks for one."""
    body = seen.data
    if seen.path.partition("?")[0].endswith("/chat/completions"):
        return _chat(body)
    if "/models/" in seen.path:
        return _gemini(body, seen.path)
    return _responses(body) if seen.path.endswith("/responses") else _anthropic(body)


def _answer(body: dict[str, Any]) -> str:
    wants_json = body.get("response_format") or (body.get("text") or {}).get("format", {}).get("type") == "json_schema"
    return json.dumps({"weather": "rain", "degrees": 7}) if wants_json else ANSWER


def _chat(body: dict[str, Any]) -> Raw:
    message: dict[str, Any] = {"role": "assistant", "content": _answer(body)}
    reason = "stop"
    if body.get("tools") and body["messages"][-1]["role"] != "tool":
        function = {"name": "weather", "arguments": json.dumps(ARGUMENTS)}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        }
        reason = "tool_calls"
    head: dict[str, Any] = {"id": "chat_1", "created": 1, "model": "m-2026", "system_fingerprint": "fp"}
    usage = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        return in_json({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if message["content"] is None:
        [call] = message["tool_calls"]
        deltas.append({"tool_calls": [{**call, "index": 0, "function": {"name": "weather", "arguments": ""}}]})
        deltas += [
            {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in _pieces(json.dumps(ARGUMENTS))
        ]
    else:
        deltas += [{"content": piece} for piece in _pieces(message["content"])]
    chunks: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    chunks.append({"index": 0, "delta": {}, "finish_reason": reason})
    head["object"] = "chat.completion.chunk"
    events: list[object] = [{**head, "choices": [chunk]} for chunk in chunks]
    return in_events(*events, {**head, "choices": [], "usage": usage}, "[DONE]")


def _responses(body: dict[str, Any]) -> Raw:
    items = body["input"] if isinstance(body["input"], list) else [{"role": "user"}]
    if body.get("tools") and items[-1].get("type") != "function_call_output":
        item: dict[str, Any] = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather"}
        item |= {"arguments": json.dumps(ARGUMENTS), "status": "completed"}
    else:
        text = {"type": "output_text", "text": _answer(body), "annotations": [], "logprobs": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    id = f"resp_{len(items)}{len(str(body.get('previous_response_id') or ''))}"
    response = {"id": id, "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [item]}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "metadata": {}}
    if not body.get("stream"):
        return in_json(response)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"status": "in_progress"}},
        *_item_events(item),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return in_events(*({**event, "sequence_number": number} for number, event in enumerate(events)))


def _item_events(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    place: dict[str, Any] = {"item_id": item["id"], "output_index": 0}
    if item["type"] == "function_call":
        yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}
        return
    [part] = item["content"]
    place["content_index"] = 0
    yield {"type": "response.content_part.added", **place, "part": part | {"text": ""}}
    for piece in _pieces(part["text"]):
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": part}


def _anthropic(body: dict[str, Any]) -> Raw:
    last = body["messages"][-1]["content"]
    has_result = isinstance(last, list) and any(block["type"] == "tool_result" for block in last)
    block: dict[str, Any] = {"type": "text", "text": _answer(body)}
    if body.get("tools") and not has_result:
        block = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": ARGUMENTS}
    reason = "tool_use" if block["type"] == "tool_use" else "end_turn"
    message: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [block]}
    message |= {"stop_reason": reason, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 4}}
    if not body.get("stream"):
        return in_json(message)
    if block["type"] == "text":
        start, deltas = (
            block | {"text": ""},
            [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])],
        )
    else:
        start = block | {"input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(json.dumps(ARGUMENTS))]
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 4},
        },
        {"type": "message_stop"},
    ]
    pieces = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    return Raw(pieces, headers={"content-type": "text/event-stream"})


def _gemini(body: dict[str, Any], path: str) -> Raw:
    has_result = any("functionResponse" in part for part in body["contents"][-1]["parts"])
    parts: list[list[dict[str, Any]]] = [[{"text": piece}] for piece in _pieces(ANSWER)]
    if body.get("tools") and not has_result:
        parts = [[{"functionCall": {"name": "weather", "args": ARGUMENTS}, "thoughtSignature": "c2ln"}]]
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}
    candidates: list[dict[str, Any]] = [{"content": {"role": "model", "parts": piece}, "index": 0} for piece in parts]
    candidates[-1]["finishReason"] = "STOP"
    if "stream" in path:
        chunks = [{"candidates": [one], "usageMetadata": usage, "modelVersion": "m"} for one in candidates]
        return in_events(*chunks) if "alt=sse" in path else in_json(chunks)
    whole = {"role": "model", "parts": parts[0] if len(parts) == 1 else [{"text": ANSWER}]}
    return in_json({"candidates": [{"content": whole, "finishReason": "STOP"}], "usageMetadata": usage})


def compressed(seen: Seen) -> Raw:
    """Answer a request as the model does, compressed as the client wants it."""
    reply = model(seen)
    assert "gzip" in (seen.header("accept-encoding") or "")
    return Raw([gzip.compress(reply.body)], reply.status, {**reply.headers, "content-encoding": "gzip"})


def _pieces(text: str) -> list[str]:
    return [text[start : start + 7] for start in range(0, len(text), 7)]

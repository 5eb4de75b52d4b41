"""What passes through the proxy is what was sent, byte for byte, unless skills are added."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import zstandard

from tests.proxy.world import KEY, SKILL, Raw, Seen, chat, in_events, in_json, world

# Numbers, escapes and spaces that decoding and encoding again would change, and a field that nobody knows.
ODD = (
    b'{ "model":"m", "temperature":1e0,"seed":12345678901234567890123, "x_new": {"\\u00e9": [1.0, -0, 1E400]},\n'
    b'"messages":[{"role":"user","content":[{"type":"text","text":"caf\\u00e9 \xc3\xa9"},'
    b'{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}] }'
)
STREAM = in_events({"choices": [{"index": 0, "delta": {"content": "Hel"}}]}, {"choices": []}, "[DONE]")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", ODD),
        ("/v1/chat/completions", b"not JSON"),
        ("/v1/chat/completions", b'{"messages": "wrong"}'),
        ("/v1/chat/completions", b"\xff\xfe"),
        ("/v1/chat/completions", b'{"messages":' + b"[" * 100_000),
        ("/v1/responses", b'{"input":"Hi","tools":[{"type":"web_search"}]}'),
        ("/v1/messages?beta=true", ODD),
        ("/v1/embeddings", b'{"input":"x"}'),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", b'{"contents": [{"parts": [{"text": "\\u00e9"}] }]}'),
        ("/v1beta/models/m:countTokens", b'{"contents": []}'),
        ("/v1/files", bytes(range(256)) * 1000),
    ],
)
def test_a_request_without_skills_passes_unchanged(tmp_path: Path, path: str, body: bytes) -> None:
    with world(tmp_path, lambda _: in_json({"ok": True})) as proxy:
        headers = {"authorization": f"Bearer {KEY}", "x-custom": "a,b", "accept-encoding": "gzip", "user-agent": "me/1"}
        httpx.post(proxy.address + path, content=body, headers=headers)
    [seen] = proxy.server.seen
    assert (seen.path, seen.body) == (path, body)
    assert {name: seen.header(name) for name in headers} == headers
    assert seen.header("host") == proxy.server.url.removeprefix("http://")


@pytest.mark.parametrize(
    "reply",
    [
        STREAM,
        in_json({"error": {"message": "no", "code": "insufficient_quota"}}, 429),
        in_json({"error": {"message": "broken"}}, 500),
        Raw([gzip.compress(b'{"choices": []}')], headers={"content-encoding": "gzip", "x-ratelimit-remaining": "3"}),
        Raw(
            [b'event: message_start\ndata: {"type":', b'"x"}\n\n', b": ping\n\n"],
            headers={"content-type": "text/event-stream"},
        ),
        Raw([b""], 204, {}),
    ],
    ids=["stream", "429", "500", "gzip", "pieces", "empty"],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models/x"])
def test_a_response_passes_unchanged(tmp_path: Path, reply: Raw, path: str) -> None:
    with world(tmp_path, lambda _: reply, skills=[SKILL]) as proxy:
        with httpx.stream("POST", proxy.address + path, content=ODD) as response:
            raw = b"".join(response.iter_raw())
        with httpx.stream("POST", proxy.server.url + path, content=ODD) as response_without:
            raw_without = b"".join(response_without.iter_raw())
    assert (response.status_code, raw) == (response_without.status_code, raw_without)
    of_connection = {"connection", "transfer-encoding", "keep-alive"}
    kept, kept_without = (
        [(name, value) for name, value in found.headers.multi_items() if name not in of_connection]
        for found in (response, response_without)
    )
    assert kept == kept_without


@pytest.mark.parametrize("model", ["m", "é€😀"])  # what is before the system text has more bytes than characters
def test_only_the_system_text_of_a_request_changes(tmp_path: Path, model: str) -> None:
    body = ODD.replace(b'"messages":[', b'"messages":[{"role":"system","content":"Be \\"brief\\"."},').replace(
        b"caf", b"weather caf"
    )
    body = body.replace(b'"model":"m"', f'"model":"{model}"'.encode())
    with world(tmp_path, lambda _: chat("Hi"), skills=[SKILL]) as proxy:
        httpx.post(f"{proxy.api}/chat/completions", content=body)
    [seen] = proxy.server.seen
    before, _, after = body.partition(b'Be \\"brief\\".')
    assert seen.body.startswith(before + b'Be \\"brief\\".\\n\\n# Skills') and seen.body.endswith(b'"' + after[1:])
    assert SKILL in seen.data["messages"][0]["content"]
    assert seen.header("content-length") == str(len(seen.body))


def test_an_event_reaches_the_client_before_the_next_one_is_written(tmp_path: Path) -> None:
    with (
        world(tmp_path, lambda _: STREAM) as proxy,
        httpx.stream("POST", f"{proxy.api}/chat/completions", content=ODD) as response,
    ):
        pieces = list(response.iter_raw())
    assert [piece for piece in pieces if piece] == STREAM.pieces


def test_a_response_that_breaks_off_breaks_off_for_the_client_too(tmp_path: Path) -> None:
    broken = Raw(STREAM.pieces[:1], headers=STREAM.headers, breaks=True)
    with world(tmp_path, lambda _: broken) as proxy:
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(f"{proxy.api}/chat/completions", content=ODD)
        [run] = proxy.runs()
    assert [(step.speaker, step.content, step.is_error) for step in run.steps][1:] == [
        ("agent", "Hel", False),
        ("harness", "the response is not complete", True),
    ]


def test_an_upstream_that_cannot_be_reached_is_named(tmp_path: Path) -> None:
    with world(tmp_path, lambda _: chat("Hi"), upstream="http://127.0.0.1:9") as proxy:
        response = httpx.post(f"{proxy.api}/chat/completions", content=ODD)
    assert response.status_code == 502
    assert response.json()["error"]["message"].startswith("ace proxy: http://127.0.0.1:9 cannot be reached")


def test_the_headers_of_the_proxy_are_not_passed_on(tmp_path: Path) -> None:
    own = {"x-ace-session": "s", "x-ace-skills": "off", "x-ace-outcome": "success"}
    with world(tmp_path, lambda _: chat("Hi"), skills=[SKILL]) as proxy:
        httpx.post(f"{proxy.api}/chat/completions", content=json.dumps(question("weather?")).encode(), headers=own)
    [seen] = proxy.server.seen
    assert [name for name, _ in seen.headers if name.lower().startswith("x-ace")] == []
    assert seen.data == question("weather?")


def test_a_request_in_pieces_and_one_without_a_body_pass(tmp_path: Path) -> None:
    with world(tmp_path, lambda seen: in_json({"path": seen.path})) as proxy:
        httpx.post(f"{proxy.api}/files", content=iter([b"a" * 70_000, b"b"]))
        httpx.get(f"{proxy.api}/models?limit=2")
        httpx.delete(f"{proxy.api}/files/f1")
    assert [(seen.method, seen.path, seen.body) for seen in proxy.server.seen] == [
        ("POST", "/v1/files", b"a" * 70_000 + b"b"),
        ("GET", "/v1/models?limit=2", b""),
        ("DELETE", "/v1/files/f1", b""),
    ]


def question(text: str) -> dict[str, object]:
    return {"model": "m", "messages": [{"role": "user", "content": text}]}


def test_an_address_with_a_path_replaces_v1(tmp_path: Path) -> None:
    seen: list[str] = []

    def reply(request: Seen) -> Raw:
        seen.append(request.path)
        return chat("Hi")

    for path in ("", "/", "/v1", "/v1/", "/v1beta/openai"):
        folder = tmp_path / str(len(seen))
        folder.mkdir()
        with world(tmp_path, reply) as plain, world(folder, reply, upstream=plain.server.url + path) as proxy:
            httpx.post(f"{proxy.api}/chat/completions", content=ODD)
    assert seen == ["/v1/chat/completions"] * 4 + ["/v1beta/openai/chat/completions"]


GEMINI = b'{"contents": [{"role": "user", "parts": [{"text": "The weather?"}]}], "generationConfig": {"topP": 1e0}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"}", None),
        (b', "systemInstruction": {"role": "user", "parts": [ {"text": "Be brief."}', b"] }}"),
        (b', "system_instruction": {"parts": [{"text": "Be brief."}', b"]}}"),
    ],
)
def test_a_request_to_gemini_gets_skills_as_a_part_of_the_system_text(
    tmp_path: Path, before: bytes, after: bytes | None
) -> None:
    with world(tmp_path, lambda _: in_json({"candidates": []}), skills=[SKILL]) as proxy:
        httpx.post(f"{proxy.address}/v1beta/models/m:generateContent", content=GEMINI + before + (after or b""))
    [seen] = proxy.server.seen
    if after is None:
        assert seen.body.startswith(GEMINI + b',"systemInstruction":{"parts": [{"text": "# Skills')
    else:
        assert seen.body.startswith(GEMINI + before) and seen.body.endswith(after)
    assert seen.body.count(SKILL.encode()) == 1 and seen.data["generationConfig"] == {"topP": 1.0}


@pytest.mark.parametrize("more", [b', "cachedContent": "cachedContents/7"}', b', "systemInstruction": "no content"}'])
def test_a_request_to_gemini_that_cannot_have_skills_passes_unchanged(tmp_path: Path, more: bytes) -> None:
    with world(tmp_path, lambda _: in_json({"candidates": []}), skills=[SKILL]) as proxy:
        httpx.post(f"{proxy.address}/v1beta/models/m:generateContent", content=GEMINI + more)
    assert [seen.body for seen in proxy.server.seen] == [GEMINI + more]


WEATHER = b'{"model": "m", "messages": [{"role": "user", "content": "What is the weather in Bremen?"}]}'
CODINGS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstandard.compress}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("skills", [[SKILL], []], ids=["skills", "no skills"])
def test_a_compressed_request_gets_skills_and_is_recorded(tmp_path: Path, coding: str, skills: list[str]) -> None:
    sent = CODINGS[coding](WEATHER)
    with world(tmp_path, lambda _: chat("Seven."), skills=skills) as proxy:
        httpx.post(f"{proxy.api}/chat/completions", content=sent, headers={"content-encoding": coding})
        [run] = proxy.runs()
    [seen] = proxy.server.seen
    assert run.answer == "Seven."
    if skills:
        assert seen.header("content-encoding") is None
        assert SKILL in json.loads(seen.body)["messages"][0]["content"]
    else:
        assert (seen.header("content-encoding"), seen.body) == (coding, sent)


@pytest.mark.parametrize("coding", ["gzip", "unheard-of"])
def test_a_body_that_cannot_be_decompressed_passes_unchanged(tmp_path: Path, coding: str) -> None:
    with world(tmp_path, lambda _: chat("Seven."), skills=[SKILL]) as proxy:
        headers = {"content-encoding": coding}
        httpx.post(f"{proxy.api}/chat/completions", content=b"\x1f\x8b damaged", headers=headers)
    [seen] = proxy.server.seen
    assert (seen.header("content-encoding"), seen.body) == (coding, b"\x1f\x8b damaged")

"""A language model that follows a script, for examples that work without a key and a network.

It serves the chat protocol of OpenAI on a free port of 127.0.0.1. A function computes the answers from the prompts, so
an answer can depend on whether a skill is in the prompt.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Answer = Mapping[str, Any] | str | int
"""An object that is sent as JSON, a text, or the status of an HTTP error."""

Script = Callable[[str, str], Answer]
"""Computes the answer from the role and its prompt."""


class ScriptedModel:
    """Serves the script until it is closed. `prompts` records the requests, as pairs of role and prompt."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.prompts: list[tuple[str, str]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(self))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1"

    def answer(self, prompt: str) -> Answer:
        role = role_of(prompt)
        self.prompts.append((role, prompt))
        return self.script(role, prompt)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def role_of(prompt: str) -> str:
    """Return the role that a prompt belongs to, by a field of the requested answer; empty for any other prompt."""
    fields = {"agent": "final_answer", "reflector": "key_insight", "skill_manager": "operations"}
    return next((role for role, field in fields.items() if f"\n- {field} (" in prompt), "")


def handler_of(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    """Return a handler class that answers the requests for this model."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            prompt = "\n".join(text_of(message["content"]) for message in request["messages"])
            answer = model.answer(prompt)
            if isinstance(answer, int):
                self.send(answer, {"error": {"message": "scripted error", "code": str(answer)}})
                return
            text = answer if isinstance(answer, str) else json.dumps(answer)
            self.send(200, completion_of(request["model"], prompt, text))

        def send(self, status: int, body: Mapping[str, Any]) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Log nothing, because the examples print their own report."""

    return Handler


def text_of(content: str | list[dict[str, Any]]) -> str:
    """Return the text of a message, whose content is a text or a list of texts and images."""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def completion_of(model: str, prompt: str, text: str) -> dict[str, Any]:
    """Return an answer in the format of the protocol. Each word counts as one token."""
    words_in, words_out = len(prompt.split()), len(text.split())
    message = {"role": "assistant", "content": text}
    return {
        "id": "scripted",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": words_in, "completion_tokens": words_out, "total_tokens": words_in + words_out},
    }

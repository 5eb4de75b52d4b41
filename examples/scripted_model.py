"""A language model that follows a script, for examples that need no key and no network.

It speaks the chat protocol of OpenAI on a free port of 127.0.0.1. What it answers is computed from the prompt by a
function, so an answer can depend on whether a skill stands in the prompt.
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
"""Computes the answer from the role that asks and from its prompt."""


class ScriptedModel:
    """Serves the script until it is closed. `prompts` holds what was asked, as pairs of role and prompt."""

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
    """Tell the role by the schema of the answer that its prompt asks for; empty for any other prompt."""
    schemas = {"agent": "AgentOutput", "reflector": "ReflectorOutput", "skill_manager": "SkillManagerOutput"}
    return next((role for role, schema in schemas.items() if f'"title": "{schema}"' in prompt), "")


def handler_of(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    """Make the class that answers requests for this model."""

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
            """Keep quiet: the examples print their own report."""

    return Handler


def text_of(content: str | list[dict[str, Any]]) -> str:
    """Return what a message says: a text, or parts of which some are texts and others pictures."""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def completion_of(model: str, prompt: str, text: str) -> dict[str, Any]:
    """Dress an answer as the protocol wants it. A word counts as a token."""
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

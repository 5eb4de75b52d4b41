"""Clients of the SDK for a server under test, over each transport, and the model that the server asks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from ace import LiteLLMClient, Skillbook
from ace_mcp import MCPServerConfig, SkillbookServer, create_server
from ace_mcp.sessions import SessionModel
from tests.support.command_line import ACE, command_environment
from tests.support.scripted_server import ScriptedServer

__all__ = ["PATIENT", "TRANSPORTS", "RunningServer", "World", "content_of", "error_of", "http_client"]

PATIENT = {"MCP_TIMEOUT": "600000", "MCP_CONNECT_TIMEOUT_MS": "600000", "MCP_CONNECTION_NONBLOCKING": "false"}
"""Variables with which Claude Code waits for a server: by default, it begins without one that takes five seconds."""
TRANSPORTS = ["memory", "stdio", "stdio-legacy", "http", "http-legacy"]


@dataclass
class RunningServer:
    """A server process that listens on HTTP."""

    process: subprocess.Popen[str]
    url: str


@dataclass
class World:
    """A user with an empty home folder, and a scripted model. Settings are those of `MCPServerConfig`."""

    folder: Path
    model: ScriptedServer

    @property
    def log(self) -> Path:
        """What the servers have written to standard error."""
        return self.folder / "stderr.txt"

    @property
    def data(self) -> Path:
        """The user's data folder."""
        return self.folder / ".local/share/ace"

    def taught(self, *words: str) -> list[str]:
        """Teach the skillbook of the user some words; returns the ids of the skills."""
        self.data.mkdir(parents=True, exist_ok=True)
        with Skillbook.open(self.data / "skills.db") as book:
            return [book.add_skill("lessons", f"Remember LESSON {word}.").id for word in words]

    def lessons(self) -> list[str]:
        """The contents of the skills in the skillbook of the user."""
        with Skillbook.open(self.data / "skills.db") as book:
            return [skill.content for skill in book.skills()]

    def environment(self, **settings: object) -> dict[str, str]:
        """The environment of a server process."""
        variables = {
            "ACE_MODEL": "openai/scripted",
            "ACE_API_BASE": self.model.api_base,
            "OPENAI_API_KEY": "sk-scripted-0123456789",
            **{f"ACE_MCP_{name.upper()}": str(value) for name, value in settings.items()},
        }
        return command_environment(self.folder, variables)

    def server(self, **settings: Any) -> SkillbookServer:
        """A server in this process."""
        defaults = {"skillbook": str(self.data / "skills.db"), "skillbook_root": self.data}
        client = LiteLLMClient("openai/scripted", api_base=self.model.api_base, api_key="sk-scripted-0123456789")
        return create_server(MCPServerConfig(**{**defaults, **settings}), open_model=lambda _: SessionModel(client))

    @asynccontextmanager
    async def connect(self, transport: str = "memory", **settings: Any) -> AsyncIterator[Client]:
        """A client of a server of its own."""
        kind, _, mode = transport.partition("-")
        options: dict[str, Any] = {"mode": mode} if mode else {}
        if kind == "memory":
            server = self.server(**settings)
            async with Client(server, **options) as client:
                yield client
            assert server.sessions.shut_down(seconds=30)
        elif kind == "stdio":
            with self.log.open("a", encoding="utf-8") as log:
                parameters = StdioServerParameters(
                    command=str(ACE), args=["mcp"], env=self.environment(**settings), cwd=str(self.folder)
                )
                async with Client(stdio_client(parameters, errlog=log), **options) as client:
                    yield client
        else:
            with self.serving(**settings) as running:
                async with Client(running.url, **options) as client:
                    yield client

    @contextmanager
    def serving(self, **settings: Any) -> Iterator[RunningServer]:
        """A server process that listens on a free port."""
        start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("a", encoding="utf-8") as log:
            process = subprocess.Popen(
                [ACE, "mcp", "--http", "127.0.0.1:0"],
                env=self.environment(**settings),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        try:
            while not (found := re.search(r"at (http://\S+/mcp)", self.log.read_text(encoding="utf-8")[start:])):
                assert process.poll() is None, self.log.read_text(encoding="utf-8")
                time.sleep(0.01)  # the server needs the processor, too
            yield RunningServer(process, found[1])
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGTERM)
            out, _ = process.communicate()
        assert out == ""


@asynccontextmanager
async def http_client(url: str, headers: Mapping[str, str]) -> AsyncIterator[Client]:
    """A client of a server that wants headers."""
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=600) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def content_of(result: CallToolResult) -> dict[str, Any]:
    """The structured content of a result, which is not an error."""
    assert not result.is_error, result
    content: dict[str, Any] = result.structured_content
    return content


def error_of(result: CallToolResult) -> tuple[str, str, dict[str, Any]]:
    """The code, the message and the details of an error: a sentence, and the same as JSON."""
    assert result.is_error, result
    assert result.structured_content is None
    sentence, found = [getattr(block, "text", "") for block in result.content]
    error: dict[str, Any] = json.loads(found)
    assert set(error) == {"code", "message", "details"}
    assert sentence == f"{error['code']}: {error['message']}"
    return error["code"].removeprefix("ACE_MCP_"), error["message"], error["details"]

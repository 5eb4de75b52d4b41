"""Clients of the SDK for a server under test, over each transport, and the model that the server asks."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import CallToolResult

from tests.support.command_line import ACE, command_environment

__all__ = ["content_of", "model_variables", "stdio"]


def model_variables(api_base: str) -> dict[str, str]:
    """The environment of a server whose model is a scripted one."""
    return {"ACE_MODEL": "openai/scripted", "ACE_API_BASE": api_base, "OPENAI_API_KEY": "sk-scripted-0123456789"}


@asynccontextmanager
async def stdio(folder: Path, api_base: str, *options: str, **variables: str) -> AsyncIterator[Client]:
    """A client of `ace mcp` in a process of its own, whose home is the folder."""
    environment = command_environment(folder, {**model_variables(api_base), **variables})
    with (folder / "stderr.txt").open("a", encoding="utf-8") as log:
        parameters = StdioServerParameters(command=str(ACE), args=["mcp", *options], env=environment, cwd=str(folder))
        async with Client(stdio_client(parameters, errlog=log)) as client:
            yield client


def content_of(result: CallToolResult) -> dict[str, Any]:
    """The structured content of a result, which is not an error."""
    assert not result.is_error, result
    content: dict[str, Any] = result.structured_content
    return content

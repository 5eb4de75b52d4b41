"""The MCP server: lists the tools, checks their arguments, and calls them on threads."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, final

import anyio
from mcp.server import MCPServer
from mcp.types import CallToolResult, InputRequiredResult, TextContent, Tool
from pydantic import BaseModel, ValidationError

from ace import __version__
from ace_mcp.config import MCPServerConfig
from ace_mcp.errors import ErrorCode, MCPToolError, refused_arguments
from ace_mcp.models import input_schema
from ace_mcp.sessions import SessionRegistry
from ace_mcp.tools import SkillbookTools

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

    from ace_mcp.sessions import OpenModel
    from ace_mcp.tools import SkillbookTool

__all__ = ["SkillbookServer", "create_server"]

logger = logging.getLogger(__name__)

INSTRUCTIONS = (
    "Tools that answer with a skillbook of what earlier work has taught, and that add to it. Choose one session_id for "
    "your conversation. Ask with ace.ask, then say with ace.learn.feedback whether the answer was right."
)


@final
class SkillbookServer(MCPServer[None]):
    """An MCP server for a skillbook. Create it with `create_server`.

    Args:
        config: The settings.
        sessions: The sessions.
    """

    def __init__(self, config: MCPServerConfig, sessions: SessionRegistry) -> None:
        super().__init__(
            "ace", title="ACE skillbook", version=__version__, instructions=INSTRUCTIONS, log_level=config.log_level
        )
        self.config = config
        self.sessions = sessions
        self._tools: dict[str, SkillbookTool] = {each.name: each for each in SkillbookTools(sessions).all()}
        self._threads = anyio.CapacityLimiter(config.max_sessions)

    async def list_tools(self) -> list[Tool]:
        """Return the tools with their schemas."""
        return [
            Tool(
                name=each.name,
                title=each.title,
                description=each.description,
                input_schema=input_schema(each.input, self.config),
                output_schema=each.output.model_json_schema(),
                annotations=each.annotations,
            )
            for each in self._tools.values()
        ]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. An error is a result too, with a code.

        Args:
            name: The name of the tool.
            arguments: Its arguments.
            context: The request.
        """
        try:
            tool = self._tool(name)
            given = self._checked(tool, arguments)
            output = await anyio.to_thread.run_sync(tool.call, given, limiter=self._threads, abandon_on_cancel=True)
        except MCPToolError as error:
            return _error_result(error)
        except Exception:
            logger.exception("the tool %r failed", name)
            return _error_result(
                MCPToolError(ErrorCode.INTERNAL_ERROR, "a bug in the server; its log on standard error shows where")
            )
        return CallToolResult(
            content=[TextContent(type="text", text=tool.as_text(output))],
            structured_content=output.model_dump(mode="json"),
        )

    def _tool(self, name: str) -> SkillbookTool:
        if (tool := self._tools.get(name)) is None:
            known = list(self._tools)
            raise MCPToolError(
                ErrorCode.VALIDATION_ERROR, f"no such tool; the tools are {', '.join(known)}", tools=[*known]
            )
        return tool

    def _checked(self, tool: SkillbookTool, arguments: dict[str, Any]) -> BaseModel:
        try:
            return tool.input.model_validate(arguments, context=self.config)
        except ValidationError as error:
            raise refused_arguments(tool.name, error) from None


def _error_result(error: MCPToolError) -> CallToolResult:
    output = error.output
    return CallToolResult(
        content=[TextContent(type="text", text=f"{output.code}: {output.message}")],
        structured_content=output.model_dump(mode="json"),
        is_error=True,
    )


def create_server(config: MCPServerConfig | None = None, *, open_model: OpenModel | None = None) -> SkillbookServer:
    """Create an MCP server for a skillbook.

    Args:
        config: The settings; by default those of the environment.
        open_model: Opens the client of a model; by default as `ace` does, with the user's settings.

    Example:
        >>> import anyio
        >>> server = create_server(MCPServerConfig(skillbook="skills.db"))
        >>> [tool.name for tool in anyio.run(server.list_tools)]
        ['ace.ask', 'ace.skillbook.get']
    """
    settings = MCPServerConfig() if config is None else config
    return SkillbookServer(settings, SessionRegistry(settings, open_model or model_of_settings(settings)))


def model_of_settings(config: MCPServerConfig) -> OpenModel:
    """Return a function that opens models as `ace` does, with the user's settings.

    Args:
        config: The settings of the server.
    """
    from ace.cli import CommandContext
    from ace.integrations import UsageError

    if TYPE_CHECKING:
        from ace import LLMClientLike
        from ace_mcp.models import SessionConfig

    context = CommandContext("mcp")

    def open_model(wanted: SessionConfig) -> LLMClientLike:
        try:
            settings = context.settings(
                model=wanted.model or config.default_model,
                temperature=wanted.temperature,
                max_tokens=wanted.max_tokens,
            )
            with context.model(settings) as client:
                return client
        except UsageError as error:
            raise MCPToolError(ErrorCode.PROVIDER_ERROR, str(error)) from error

    return open_model

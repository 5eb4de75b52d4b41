"""The MCP server: lists its tools, resources and prompts, checks arguments, and runs calls on threads.

The event loop only reads and writes messages. Each tool call runs on a thread with a `Stop`, with which the loop ends
the call when the client cancels the request, or when learning exceeds its time limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, final
from urllib.parse import unquote, urlsplit

import anyio
from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    GetPromptResult,
    InputRequiredResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    Resource,
    ResourceTemplate,
    TextContent,
    Tool,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from ace import SkillbookView, __version__
from ace.cli import CommandContext
from ace.integrations import SKILLBOOK_USAGE_INSTRUCTIONS, UsageError
from ace_mcp.config import MCPServerConfig
from ace_mcp.errors import ErrorCode, MCPToolError, refused_arguments
from ace_mcp.models import DEFAULT_SESSION, SessionArguments, SessionConfig, UseSkillsInput, input_schema
from ace_mcp.sessions import OpenModel, SessionModel, SessionRegistry
from ace_mcp.stopping import Stop
from ace_mcp.tools import SkillbookTools, matching

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

    from ace import Skill, Skillbook
    from ace.skillbook import BlameEntry
    from ace_mcp.tools import SkillbookTool

__all__ = ["SkillbookServer", "create_server"]

logger = logging.getLogger(__name__)
T = TypeVar("T")
Arguments = TypeVar("Arguments", bound=BaseModel)

INSTRUCTIONS = (
    "These tools answer with a skillbook of what earlier work has taught, and add to it. Give no session_id, or "
    "always the same one. Ask with ace.ask, then report with ace.learn.feedback whether the answer was right."
)
_BUG = "a bug in the server; its log on standard error shows where"
_PROMPT = "use_skills"
_SKILLBOOK_URI = "ace://skillbook/{session_id}"
_SKILL_URI = "ace://skill/{session_id}/{id}"
_MOST_IN_PROMPT = 20
"""The maximum number of skills in the prompt."""


@final
class SkillbookServer(MCPServer[None]):
    """An MCP server for a skillbook. Create it with `create_server`.

    Args:
        config: The settings.
    """

    def __init__(self, config: MCPServerConfig, sessions: SessionRegistry) -> None:
        super().__init__(
            "ace", title="ACE skillbook", version=__version__, instructions=INSTRUCTIONS, log_level=config.log_level
        )
        self.config = config
        self.sessions = sessions
        self._tools: dict[str, SkillbookTool] = {tool.name: tool for tool in SkillbookTools(sessions, config).all()}
        # Enough threads that calls that read do not wait for those that learn; a session may have several of these.
        self._threads = anyio.CapacityLimiter(2 * config.max_sessions)

    async def list_tools(self) -> list[Tool]:
        """Return the tools with their schemas."""
        return [
            Tool(
                name=tool.name,
                title=tool.title,
                description=tool.description,
                input_schema=input_schema(tool.input, self.config),
                output_schema=tool.output.model_json_schema(),
                annotations=tool.annotations,
            )
            for tool in self._tools.values()
        ]

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Errors are returned as results, with a code.

        Args:
            name: The name of the tool.
            arguments: Its arguments.
            context: The request, to which progress is reported.
        """
        try:
            tool = self._tool(name)
            checked = self._checked(tool.name, tool.input, arguments)
            output = await self._called(tool, checked, context)
        except MCPToolError as error:
            return _error_result(error)
        except Exception:
            logger.exception("the tool %r failed", name)
            return _error_result(MCPToolError(ErrorCode.INTERNAL_ERROR, _BUG))
        return CallToolResult(
            content=[TextContent(type="text", text=tool.as_text(output))],
            structured_content=output.model_dump(mode="json"),
        )

    async def list_resources(self) -> list[Resource]:
        """Return the skillbook of the session that is used by default, unless it does not exist yet."""
        if not self.sessions.has_book(DEFAULT_SESSION):
            return []
        return [
            Resource(
                uri=_SKILLBOOK_URI.format(session_id=DEFAULT_SESSION),
                name="skillbook",
                title="Skillbook",
                description="What earlier work has taught.",
                mime_type="text/markdown",
            )
        ]

    async def list_resource_templates(self) -> list[ResourceTemplate]:
        """Return the templates of the resources for sessions and skills."""
        return [
            ResourceTemplate(
                uri_template=_SKILLBOOK_URI,
                name="skillbook",
                title="Skillbook",
                description="The skills of a session.",
                mime_type="text/markdown",
            ),
            ResourceTemplate(
                uri_template=_SKILL_URI,
                name="skill",
                title="Skill",
                description="A skill, with its sources and its history.",
                mime_type="text/markdown",
            ),
        ]

    async def read_resource(
        self, uri: AnyUrl | str, context: Context[None, Any] | None = None
    ) -> Iterable[ReadResourceContents]:
        """Return a skillbook or a skill as Markdown.

        Args:
            uri: `ace://skillbook/SESSION` or `ace://skill/SESSION/SKILL`.
            context: The request.

        Raises:
            MCPError: There is no such resource. Its data has the fields of `ErrorOutput`.
        """
        page = await self._answered(lambda: self._page(str(uri)))
        return [ReadResourceContents(content=page, mime_type="text/markdown")]

    async def list_prompts(self) -> list[Prompt]:
        """Return the prompt `use_skills`."""
        return [
            Prompt(
                name=_PROMPT,
                title="Use skills",
                description="A question with the learned skills that match it, for the model of the client.",
                arguments=[
                    PromptArgument(name="question", description="The question or task.", required=True),
                    PromptArgument(name="session_id", description="The session whose skills are used."),
                ],
            )
        ]

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[None, Any] | None = None
    ) -> GetPromptResult:
        """Return a question with the skills that match it.

        Args:
            name: `use_skills`.
            arguments: The question.
            context: The request.

        Raises:
            MCPError: An argument is invalid. Its data has the fields of `ErrorOutput`.
        """
        text = await self._answered(lambda: self._prompt_text(name, arguments or {}))
        message = PromptMessage(role="user", content=TextContent(type="text", text=text))
        return GetPromptResult(description="The question, and the skills that match it.", messages=[message])

    def _page(self, uri: str) -> str:
        parts = urlsplit(uri)
        session_id, *more = [unquote(part) for part in parts.path.removeprefix("/").split("/")]
        kind = (parts.scheme, parts.netloc, len(more))
        if kind not in (("ace", "skillbook", 0), ("ace", "skill", 1)) or parts.query or parts.fragment:
            raise MCPToolError(
                ErrorCode.VALIDATION_ERROR, f"no such resource; the resources are {_SKILLBOOK_URI} and {_SKILL_URI}"
            )
        checked = self._checked(uri[:100], SessionArguments, {"session_id": session_id})
        with self.sessions.reading(checked.session_id) as book:
            return _skill_page(book, more[0]) if more else _skillbook_page(book)

    def _prompt_text(self, name: str, arguments: dict[str, Any]) -> str:
        if name != _PROMPT:
            raise MCPToolError(ErrorCode.VALIDATION_ERROR, f"no such prompt; the prompt is {_PROMPT}")
        checked = self._checked(_PROMPT, UseSkillsInput, arguments)
        with self.sessions.reading(checked.session_id) as book:
            return _skills_prompt(book, checked.question)

    def _tool(self, name: str) -> SkillbookTool:
        if (tool := self._tools.get(name)) is None:
            known = list(self._tools)
            raise MCPToolError(
                ErrorCode.VALIDATION_ERROR, f"no such tool; the tools are {', '.join(known)}", tools=[*known]
            )
        return tool

    def _checked(self, name: str, model: type[Arguments], arguments: dict[str, Any]) -> Arguments:
        try:
            return model.model_validate(arguments, context=self.config)
        except ValidationError as error:
            raise refused_arguments(name, error) from None

    async def _answered(self, answer: Callable[[], str]) -> str:
        """Read a resource or a prompt on a thread, and convert errors into those of the protocol."""
        try:
            return await self._on_thread(answer)
        except MCPToolError as error:
            raise MCPError(INVALID_PARAMS, str(error), data=error.output.model_dump(mode="json")) from error
        except Exception as error:
            logger.exception("a resource or a prompt failed")
            output = MCPToolError(ErrorCode.INTERNAL_ERROR, _BUG).output
            raise MCPError(INTERNAL_ERROR, _BUG, data=output.model_dump(mode="json")) from error

    async def _called(self, tool: SkillbookTool, arguments: BaseModel, context: Context[None, Any] | None) -> BaseModel:
        """Run a tool on a thread. When the request is cancelled, the tool is stopped too."""
        stop = Stop()
        timer = None
        if tool.name.startswith("ace.learn."):
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self.config.learn_timeout_seconds, stop.stop, "timeout")
        try:
            async with _ProgressReport(context) as report:
                return await self._on_thread(lambda: tool.call(arguments, stop, report.advance))
        except anyio.get_cancelled_exc_class():
            stop.stop("cancelled")
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _on_thread(self, work: Callable[[], T]) -> Awaitable[T]:
        return anyio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)


@final
class _ProgressReport:
    """Sends progress to the client in order; it may be reported on any thread."""

    def __init__(self, context: Context[None, Any] | None) -> None:
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._counts: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue()
        self._sending: asyncio.Task[None] | None = None

    async def __aenter__(self) -> _ProgressReport:
        if self._context is not None:
            self._sending = asyncio.create_task(self._send(self._context))
        return self

    async def __aexit__(self, *exception: object) -> None:
        if self._sending is None:
            return
        if exception[0] is not None:
            self._sending.cancel()
        self._counts.put_nowait(None)
        await asyncio.wait([self._sending])

    def advance(self, done: int, total: int) -> None:
        """Report the number of finished samples."""
        self._loop.call_soon_threadsafe(self._counts.put_nowait, (done, total))

    async def _send(self, context: Context[None, Any]) -> None:
        while (count := await self._counts.get()) is not None:
            done, total = count
            await context.report_progress(done, total, f"{done} of {total} samples")


def _skillbook_page(book: Skillbook) -> str:
    """Return a skillbook as Markdown.

    Args:
        book: The skillbook.

    Example:
        >>> from ace import Skillbook
        >>> _skillbook_page(Skillbook())
        '# Skillbook\\n\\nNothing was learned yet.\\n'
    """
    return f"# Skillbook\n\n{book.as_markdown().strip() or 'Nothing was learned yet.'}\n"


def _skill_page(book: Skillbook, skill_id: str) -> str:
    """Return a skill and its history as Markdown.

    Args:
        book: The skillbook.
        skill_id: The id of the skill.

    Raises:
        MCPToolError: The skillbook has no such skill.
    """
    skill = book.get_skill(skill_id)
    if skill is None:
        raise MCPToolError(
            ErrorCode.VALIDATION_ERROR, f"no skill {skill_id!r}; ace.skillbook.get lists the ids", skill_id=skill_id
        )
    sources = [f"- {source.trace_id}: {source.sample_question}" for source in skill.sources] or ["- unknown"]
    history = [_history_line(entry) for entry in book.blame(skill_id)] if book.store is not None else []
    lines = [
        *_skill_head(skill),
        "",
        "## Sources",
        "",
        *sources,
        "",
        "## History",
        "",
        *(history or ["- not recorded"]),
    ]
    return "\n".join([*lines, ""])


def _skill_head(skill: Skill) -> list[str]:
    counters = f"helpful {skill.helpful}, harmful {skill.harmful}, neutral {skill.neutral}"
    return [f"# {skill.id}", "", skill.content, "", f"Section {skill.section}, {skill.status}; {counters}."]


def _history_line(entry: BlameEntry) -> str:
    by = f" by {entry.author}" if entry.author else ""
    return f"- version {entry.version}, {entry.at}{by}: {type(entry.event).__name__.lower()}"


def _skills_prompt(book: Skillbook, question: str) -> str:
    """Return a question with the skills that match it, for the client's own model.

    Args:
        book: The skillbook.
        question: The question or task.
    """
    found = matching(question, SkillbookView(book).skills(), _MOST_IN_PROMPT)
    if not found:
        return question
    skills = "\n".join(f"- [{skill.id}] {skill.content}" for skill in found)
    return f"{SKILLBOOK_USAGE_INSTRUCTIONS}\n\n{skills}\n\n{question}"


def _error_result(error: MCPToolError) -> CallToolResult:
    """Return an error as text for the model, and as JSON for programs.

    The JSON is not structured content: TypeScript clients check that against the output schema, even in an error.
    """
    output = error.output
    texts = [f"{output.code}: {output.message}", output.model_dump_json()]
    return CallToolResult(content=[TextContent(type="text", text=text) for text in texts], is_error=True)


def create_server(config: MCPServerConfig | None = None, *, open_model: OpenModel | None = None) -> SkillbookServer:
    """Create an MCP server for a skillbook.

    Args:
        config: The settings; by default those of the environment.
        open_model: Opens the model of a session; by default as `ace` does, with the user's settings.

    Example:
        >>> import anyio
        >>> server = create_server(MCPServerConfig(skillbook="skills.db"))
        >>> [tool.name for tool in anyio.run(server.list_tools)][:2]
        ['ace.ask', 'ace.learn.sample']
    """
    settings = MCPServerConfig() if config is None else config
    return SkillbookServer(settings, SessionRegistry(settings, open_model or _model_of_settings(settings)))


def _model_of_settings(config: MCPServerConfig) -> OpenModel:
    """Return a function that opens models as `ace` does, with the user's settings."""
    context = CommandContext("mcp")

    def open_model(wanted: SessionConfig) -> SessionModel:
        try:
            settings = context.settings(
                model=wanted.model or config.default_model,
                temperature=wanted.temperature,
                max_tokens=wanted.max_tokens,
            )
            with context.model(settings) as client:
                return SessionModel(client, lambda error: context.explained(error, settings))
        except UsageError as error:
            raise MCPToolError(ErrorCode.PROVIDER_ERROR, str(error)) from error

    return open_model

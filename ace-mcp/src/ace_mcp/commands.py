"""`ace mcp`: serve the skillbook to MCP clients."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from cyclopts import App, Parameter

from ace.cli import main as ace_main
from ace.integrations import DONE, UsageError, print_json, print_table

if TYPE_CHECKING:
    from ace_mcp.config import MCPServerConfig

__all__ = ["app", "main"]

app = App(name="mcp", help="Serve the skillbook to MCP clients.")

Flag = Annotated[bool | None, Parameter(negative="")]


@app.default
def serve(
    *,
    http: str | None = None,
    skillbook: str | None = None,
    separate_books: Flag = None,
    default_model: str | None = None,
    safe_mode: Flag = None,
    allow_save_load: Annotated[bool | None, Parameter(negative="--no-save-load", show_default=False)] = None,
    skillbook_root: Path | None = None,
    max_samples_per_call: int | None = None,
    max_prompt_chars: int | None = None,
    session_ttl_seconds: float | None = None,
    max_sessions: int | None = None,
    learn_timeout_seconds: float | None = None,
    max_cost: float | None = None,
    log_level: str | None = None,
) -> int:
    """Serve the skillbook over standard input and output, until the client closes them.

    For example:

        ace mcp
        ace mcp --skillbook team.db --safe-mode
        ace mcp --http 127.0.0.1:8321

    Args:
        http: Serve over HTTP at this address, HOST:PORT, until it is interrupted. Requests must carry the token
            that ACE_MCP_HTTP_TOKEN holds; without one, the address must be on loopback.
        skillbook: The store that all sessions share. [env: ACE_MCP_SKILLBOOK]
            [default: ~/.local/share/ace/skills.db]
        separate_books: Give each session a skillbook of its own. [env: ACE_MCP_SEPARATE_BOOKS]
        default_model: The model of sessions that do not choose one. [env: ACE_MCP_DEFAULT_MODEL] [default: the model
            of your settings, else one on this machine]
        safe_mode: Block learning, saving and loading. [env: ACE_MCP_SAFE_MODE]
        allow_save_load: Allow saving and loading below the folder for skillbooks. [env: ACE_MCP_ALLOW_SAVE_LOAD]
            [default: allowed]
        skillbook_root: The folder below which skillbooks are saved and loaded. [env: ACE_MCP_SKILLBOOK_ROOT]
            [default: ~/.local/share/ace]
        max_samples_per_call: The maximum number of samples in one call. [env: ACE_MCP_MAX_SAMPLES_PER_CALL]
            [default: 25]
        max_prompt_chars: The maximum length of one text, in characters. [env: ACE_MCP_MAX_PROMPT_CHARS]
            [default: 100000]
        session_ttl_seconds: Close sessions that have been idle for this long. [env: ACE_MCP_SESSION_TTL_SECONDS]
            [default: 3600]
        max_sessions: The maximum number of open sessions. [env: ACE_MCP_MAX_SESSIONS] [default: 100]
        learn_timeout_seconds: Stop a call that has been learning for this long; what it has learned is kept.
            [env: ACE_MCP_LEARN_TIMEOUT_SECONDS] [default: 300]
        max_cost: Stop calling models once the calls of this server have cost this much (USD). [env: ACE_MCP_MAX_COST]
        log_level: DEBUG, INFO, WARNING or ERROR; the log goes to standard error. [env: ACE_MCP_LOG_LEVEL]
            [default: INFO]
    """
    config = _config(
        skillbook=skillbook,
        separate_books=separate_books,
        default_model=default_model,
        safe_mode=safe_mode,
        allow_save_load=allow_save_load,
        skillbook_root=skillbook_root,
        max_samples_per_call=max_samples_per_call,
        max_prompt_chars=max_prompt_chars,
        session_ttl_seconds=session_ttl_seconds,
        max_sessions=max_sessions,
        learn_timeout_seconds=learn_timeout_seconds,
        max_cost=max_cost,
        log_level=log_level,
    )
    from ace_mcp.serving import log_to_stderr, serve_http, serve_stdio

    log_to_stderr(config)
    from ace_mcp.server import create_server

    if http is None:
        serve_stdio(create_server(config))
    serve_http(create_server(config), *_address(http))


@app.command
def tools(*, as_json: Annotated[bool, Parameter(name="--json", negative="")] = False) -> int:
    """List the tools of the server.

    For example:

        ace mcp tools
        ace mcp tools --json

    Args:
        as_json: Print one JSON object, with the schemas, as clients see them.
    """
    import anyio

    from ace_mcp.server import create_server

    found = anyio.run(create_server(_config()).list_tools)
    if as_json:
        print_json({"tools": [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in found]})
    else:
        print_table(["tool", "what it does"], [[each.name, each.description or ""] for each in found])
    return DONE


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--http: {text!r} is not an address; give HOST:PORT, such as 127.0.0.1:8321")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _config(**options: str | float | Path | None) -> MCPServerConfig:
    """Return the settings: the options that were given, else those of the environment."""
    from pydantic import ValidationError

    from ace_mcp.config import MCPServerConfig

    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    try:
        return MCPServerConfig(**given)  # what is given here wins over the environment
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0])
        where = f"--{name.replace('_', '-')}" if name in given else f"the variable ACE_MCP_{name.upper()}"
        raise UsageError(f"{where}: {first['msg']}") from error


def main() -> NoReturn:
    """Run `ace mcp`: the script `ace-mcp`."""
    sys.exit(ace_main(["mcp", *sys.argv[1:]]))

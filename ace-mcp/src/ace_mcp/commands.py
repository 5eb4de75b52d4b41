"""`ace mcp`: serve the skillbook to MCP clients."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

from cyclopts import App, CycloptsError, Parameter

from ace.cli import main as ace_main
from ace.integrations import DONE, UsageError, check_is_path, print_json, print_table, print_text

if TYPE_CHECKING:
    from ace_mcp.config import MCPServerConfig
    from ace_mcp.installation import ConfigChange, MCPClient

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
        http: Serve over HTTP at this address, HOST:PORT, until interrupted. Requests must carry the bearer token in
            ACE_MCP_HTTP_TOKEN; without one, the address must be a loopback address.
        skillbook: The store that all sessions share. [env: ACE_MCP_SKILLBOOK]
            [default: ~/.local/share/ace/skills.db]
        separate_books: Give each session its own skillbook. [env: ACE_MCP_SEPARATE_BOOKS]
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
        print_json({"tools": [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in found]})
    else:
        print_table(["tool", "what it does"], [[item.name, item.description or ""] for item in found])
    return DONE


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--http: {text!r} is not an address; give HOST:PORT, such as 127.0.0.1:8321")
    return host.removeprefix("[").removesuffix("]"), int(port)


ClientName = Literal["claude-code", "claude-desktop", "cursor", "vscode"]
Scope = Literal["user", "project"]
ServerOption = Annotated[str, Parameter(allow_leading_hyphen=True)]
Json = Annotated[bool, Parameter(name="--json", negative="")]
DryRun = Annotated[bool, Parameter(negative="")]


@app.command
def install(
    client: ClientName,
    *server_options: ServerOption,
    scope: Scope = "user",
    config: Path | None = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Add the server to the configuration of an MCP client.

    One entry is added, and nothing else in the file is changed. Keys are not written: the server reads them from your
    settings, or from the environment in which the client starts it.

    For example:

        ace mcp install claude-code
        ace mcp install vscode --scope project --dry-run
        ace mcp install cursor --skillbook team.db --safe-mode

    Args:
        client: The client.
        server_options: Options of `ace mcp` with which the client starts the server, such as --skillbook.
        scope: user for all your projects, or project for the one in the current folder.
        config: The configuration file, if it is not in its usual place.
        dry_run: Show the change without making it.
        as_json: Print one JSON object.
    """
    from ace_mcp.installation import CLIENTS, InstallationError, server_entry
    from ace_mcp.installation import install as add_server

    chosen = CLIENTS[client]
    entry = server_entry(chosen, _server_variables(server_options))
    try:
        change = add_server(chosen, _config_file(chosen, scope, config), entry, dry_run=dry_run)
    except InstallationError as error:
        raise UsageError(str(error)) from error
    if as_json:
        print_json({**_change_fields(client, change, dry_run), "entry": entry})
    else:
        _print_change(change, dry_run=dry_run, hint=f"Restart {chosen.title} to start the server.")
    return DONE


@app.command
def uninstall(
    client: ClientName,
    *,
    scope: Scope = "user",
    config: Path | None = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> int:
    """Remove the server from the configuration of an MCP client.

    Other changes made to the file since the installation are kept, and so is the skillbook.

    For example:

        ace mcp uninstall claude-code
        ace mcp uninstall vscode --scope project

    Args:
        client: The client.
        scope: user for all your projects, or project for the one in the current folder.
        config: The configuration file, if it is not in its usual place.
        dry_run: Show the change without making it.
        as_json: Print one JSON object.
    """
    from ace_mcp.installation import CLIENTS, InstallationError
    from ace_mcp.installation import uninstall as remove_server

    chosen = CLIENTS[client]
    try:
        change = remove_server(chosen, _config_file(chosen, scope, config), dry_run=dry_run)
    except InstallationError as error:
        raise UsageError(str(error)) from error
    if as_json:
        print_json(_change_fields(client, change, dry_run))
    else:
        _print_change(change, dry_run=dry_run)
    return DONE


def _config_file(client: MCPClient, scope: Scope, config: Path | None) -> Path:
    from ace_mcp.installation import config_file

    check_is_path("--config", config)
    return config_file(client, scope, folder=Path.cwd()) if config is None else config


def _server_variables(options: Sequence[str]) -> dict[str, str]:
    """Return the environment variables equivalent to options of `ace mcp`. Paths are made absolute."""
    from ace.redaction import PERSONAL_DATA, find
    from ace.skillbook import shown_location

    try:
        command, bound, _ = app.parse_args(options, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        raise UsageError(str(error)) from error
    given = bound.arguments
    if command is not serve or "http" in given:
        raise UsageError("give options of `ace mcp` for a server on standard input and output, such as --skillbook")
    _config(**given)
    variables = {f"ACE_MCP_{name.upper()}": _absolute(name, value) for name, value in given.items()}
    for name, value in variables.items():
        if shown_location(value) != value or find(value, allow=PERSONAL_DATA):
            raise UsageError(
                f"the value for {name} contains a secret, which is not written to the configuration of a client; "
                f"set the variable {name} in the environment of the client instead"
            )
    return variables


def _absolute(name: str, value: str | float | Path) -> str:
    """Return a setting as the value of a variable."""
    from ace.skillbook import has_scheme

    if isinstance(value, bool):
        return str(value).lower()
    if name == "skillbook_root" or (name == "skillbook" and not has_scheme(str(value))):
        return str(Path(str(value)).expanduser().absolute())
    return str(value)


def _change_fields(client: str, change: ConfigChange, dry_run: bool) -> dict[str, object]:
    return {"client": client, "path": str(change.path), "changed": change.is_change, "dry_run": dry_run}


def _print_change(change: ConfigChange, *, dry_run: bool, hint: str = "") -> None:
    from ace.redaction import PERSONAL_DATA, redact

    if not change.is_change:
        print_text(f"Nothing to change in {change.path}.")
    elif not dry_run:
        verb = "Created" if change.before is None else "Deleted" if change.after is None else "Changed"
        print_text(f"{verb} {change.path}. {hint}".rstrip())
    else:
        before, after = (
            redact(content or "", allow=PERSONAL_DATA).splitlines() for content in (change.before, change.after)
        )
        name = str(change.path)
        print_text("\n".join(unified_diff(before, after, name, name, lineterm="")))


def _config(**options: str | float | Path | None) -> MCPServerConfig:
    """Return the settings from the given options, else from the environment."""
    from pydantic import ValidationError

    from ace_mcp.config import MCPServerConfig

    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    try:
        return MCPServerConfig(**given)  # these take precedence over the environment
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        name = str(first["loc"][0])
        where = f"--{name.replace('_', '-')}" if name in given else f"the variable ACE_MCP_{name.upper()}"
        raise UsageError(f"{where}: {first['msg']}") from error


def main() -> NoReturn:
    """Run `ace mcp`; the entry point of the script `ace-mcp`."""
    sys.exit(ace_main(["mcp", *sys.argv[1:]]))

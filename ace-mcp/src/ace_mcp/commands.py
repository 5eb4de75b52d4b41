"""`ace mcp`: serve the skillbook to MCP clients."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from cyclopts import App, Parameter

from ace.cli import main as ace_main
from ace.integrations import DONE, UsageError

if TYPE_CHECKING:
    from ace_mcp.config import MCPServerConfig

__all__ = ["app", "main"]

app = App(name="mcp", help="Serve the skillbook to MCP clients.")

Flag = Annotated[bool | None, Parameter(negative="")]


@app.default
def serve(*, skillbook: str | None = None, default_model: str | None = None, safe_mode: Flag = None) -> int:
    """Serve the skillbook over standard input and output, until the client closes them.

    For example:

        ace mcp
        ace mcp --skillbook team.db --safe-mode

    Args:
        skillbook: The store that all sessions share. [env: ACE_MCP_SKILLBOOK]
            [default: ~/.local/share/ace/skills.db]
        default_model: The model of sessions that do not choose one. [env: ACE_MCP_DEFAULT_MODEL] [default: the model
            of your settings, else one on this machine]
        safe_mode: Block learning, saving and loading. [env: ACE_MCP_SAFE_MODE]
    """
    from ace_mcp.server import create_server

    server = create_server(_config(skillbook=skillbook, default_model=default_model, safe_mode=safe_mode))
    server.run("stdio")
    return DONE


def _config(**options: str | float | None) -> MCPServerConfig:
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

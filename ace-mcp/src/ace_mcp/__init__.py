"""ACE as an MCP server: any client asks, teaches and inspects one skillbook.

Modules are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ace.integrations import lazy_exports

if TYPE_CHECKING:
    from ace_mcp.config import MCPServerConfig
    from ace_mcp.errors import MCPToolError
    from ace_mcp.server import SkillbookServer, create_server
    from ace_mcp.sessions import Session, SessionModel, SessionRegistry

__all__ = [
    "MCPServerConfig",
    "MCPToolError",
    "Session",
    "SessionModel",
    "SessionRegistry",
    "SkillbookServer",
    "create_server",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "MCPServerConfig": "config",
        "MCPToolError": "errors",
        "Session": "sessions",
        "SessionModel": "sessions",
        "SessionRegistry": "sessions",
        "SkillbookServer": "server",
        "create_server": "server",
    },
)

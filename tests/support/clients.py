"""Clients of the scripted server, with short waits."""

from __future__ import annotations

from typing import Any

from ace.providers import LiteLLMClient
from tests.support.scripted_server import ScriptedServer

KEY = "sk-scripted-0123456789"


def client_for(server: ScriptedServer, **settings: Any) -> LiteLLMClient:
    """A real client whose retries wait next to nothing."""
    return LiteLLMClient(
        settings.pop("model", "openai/scripted"),
        **{
            "api_base": server.api_base,
            "api_key": KEY,
            "timeout": 60.0,
            "retry_delay": 0.01,
            "longest_retry_delay": 0.05,
            **settings,
        },
    )

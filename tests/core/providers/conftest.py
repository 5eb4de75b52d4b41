"""Tests of model clients run twice: with requests that go straight to the server, and through LiteLLM."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["direct", "litellm"])
def each_transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Send requests in one of the two ways, in this process and in those that it starts."""
    if request.param == "litellm":
        monkeypatch.setenv("ACE_MODEL_CLIENT", "litellm")
    else:
        monkeypatch.delenv("ACE_MODEL_CLIENT", raising=False)
    return str(request.param)

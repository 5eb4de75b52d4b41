"""What importing our modules must not load."""

from __future__ import annotations

import json

import pytest

from tests.support.subprocesses import run_python

HEAVY = ("litellm", "openai", "instructor", "numpy", "pydantic", "httpx")


@pytest.mark.parametrize(
    "module",
    [
        "ace.protocols",
        "ace.providers",
        "ace.environments",
        "ace.implementations",
        "ace.implementations.prompts",
    ],
)
def test_importing_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, json, {module}; print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))"
    assert json.loads(run_python(code).stdout) == []


def test_making_a_client_loads_nothing_heavy() -> None:
    code = (
        "import sys, json\n"
        "from ace.providers import LiteLLMClient, wrap_with_instructor\n"
        "wrap_with_instructor(LiteLLMClient('gpt-4o-mini'))\n"
        f"print(json.dumps([name for name in {HEAVY!r} if name in sys.modules]))\n"
    )
    assert json.loads(run_python(code).stdout) == []

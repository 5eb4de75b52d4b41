"""What importing our modules must not load."""

from __future__ import annotations

import json

import pytest

from tests.support.scripted_server import ScriptedServer, in_turn
from tests.support.subprocesses import run_python

HEAVY = ("litellm", "openai", "instructor", "numpy", "pydantic", "httpx")


@pytest.mark.parametrize(
    "module",
    [
        "ace.protocols",
        "ace.providers",
        "ace.environments",
        "ace.roles",
        "ace.roles.prompts",
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


@pytest.mark.parametrize("model", ["openai/scripted", "anthropic/scripted"])
def test_a_call_of_a_model_on_a_server_loads_no_library_of_a_provider(model: str) -> None:
    code = (
        "import sys, json\n"
        "from ace.outputs import SkillTag\n"
        "from ace.protocols import LLMCallError\n"
        "from ace.providers import LiteLLMClient, price_of_model\n"
        f"client = LiteLLMClient({model!r}, api_base=%r, api_key='sk-123456', max_retries=0)\n"
        "try:\n"
        "    print(client.complete('x').text, file=sys.stderr)\n"
        "    client.complete_structured('x', SkillTag)\n"
        "except LLMCallError:\n"
        "    assert %r.startswith('http://127'), 'no server'\n"
        "price_of_model('gpt-4o-mini'), client.input_token_limit\n"
        "print(json.dumps([name for name in ('litellm', 'openai', 'instructor') if name in sys.modules]))\n"
    )
    with ScriptedServer(in_turn({"id": "a-00001", "tag": "helpful"})) as server:
        url = server.api_base if model.startswith("openai/") else server.url
        done = run_python(code % (url, url))
        assert json.loads(done.stdout) == []
        assert len(server.requests) == (2 if model.startswith("openai/") else 1)

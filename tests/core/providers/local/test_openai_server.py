"""Learning through the OpenAI server of the embedded runtime, with and without a system role, and a small context.

The runtime decides what it accepts: its chat template, its schema and its context are real. So that a test takes
seconds, it computes one token of each answer, and the scripted model says the rest.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from ace.providers.local import model_file
from tests.support.command_line import Run
from tests.support.learning_script import learning_script
from tests.support.local_models import needed_model
from tests.support.scripted_server import HttpError, Reply, ScriptedRequest, ScriptedServer

EXAMPLES = Path(__file__).parents[4] / "examples" / "traces"
CONTEXT = 2048
# The runtime tries a template out with short messages, and moves the system message itself where that fails. Templates
# in the wild fail with messages that it has not tried.
WITHOUT_SYSTEM_ROLE = """
{%- for message in messages -%}
{%- if message['role'] == 'system' and message['content'] | length > 100 -%}
{{ raise_exception('System role not supported') }}
{%- endif -%}
<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}
"""


@pytest.fixture(scope="module")
def weights() -> Path:
    """The file of a very small model. The home folder of the test has none."""
    return model_file(needed_model("smollm2-135m")).path


@contextmanager
def runtime_server(weights: Path, template: str) -> Iterator[str]:
    """Run the server of the runtime and yield its address."""
    runtime: Any = importlib.import_module("xllamacpp")
    params = runtime.CommonParams()
    params.model.path = str(weights)
    params.hostnames, params.port, params.ui, params.verbosity = ["127.0.0.1"], 0, False, 0
    params.n_parallel, params.n_ctx = 1, CONTEXT
    if template:
        params.chat_template = template
    server = runtime.Server(params)
    yield str(server.listening_address)
    del server


def judged_by(address: str) -> Callable[[ScriptedRequest], Reply | str | Mapping[str, Any]]:
    """Return a script that answers what the runtime answers too, and passes its errors on."""
    script = learning_script()

    def answer(request: ScriptedRequest) -> Reply | str | Mapping[str, Any]:
        sent = {**request.body, "max_tokens": 1}
        reply = httpx.post(f"{address}/v1/chat/completions", json=sent, timeout=600)
        return script(request) if reply.status_code == 200 else HttpError(reply.status_code, body=reply.json())

    return answer


@pytest.mark.parametrize("template", ["", WITHOUT_SYSTEM_ROLE], ids=["system role", "no system role"])
def test_the_example_traces_are_learned_with_a_context_of_2048_tokens(
    weights: Path, here: Run, tmp_path: Path, template: str
) -> None:
    long = {"question": "Find the lesson.", "answer": "4", "log": "word " * 6000, "feedback": "wrong; LESSON needle"}
    (tmp_path / "long.json").write_text(json.dumps(long))
    traces = [EXAMPLES / "revenue.json", tmp_path / "long.json"]
    with runtime_server(weights, template) as address, ScriptedServer(judged_by(address)) as server:
        done = here("learn", *traces, "--model", "openai/tiny", "--api-base", server.api_base, "--yes", "--json")
        assert (done.code, done.data["failures"]) == (0, []), done.err
        assert done.data["traces"]["learned"] == 2 and done.data["skills"]["total"] > 0
        assert max(done.data["shortened"].values()) > 20_000
        assert ("the instructions are sent in the user message" in done.err) is bool(template)
        assert f"the context window has {CONTEXT} tokens" in done.err
        refused = [request for request in server.requests if isinstance(request.reply, HttpError)]
        assert len(refused) < 6

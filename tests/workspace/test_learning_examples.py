"""The learning examples run, and learn what they promise."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples import learn_with_scripted_model
from tests.support.scripted_server import HttpError, ScriptedRequest, ScriptedServer
from tests.workspace.project import ROOT


def run_example(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an example without any key in its environment; a proxy would never see 127.0.0.1."""
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")}
    environ["NO_PROXY"] = environ["no_proxy"] = "127.0.0.1"
    environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )


def script(request: ScriptedRequest) -> dict[str, Any]:
    return dict(learn_with_scripted_model.script(request.role, request.text))


LEARNED = """\
epoch 1: 3 of 6 right
epoch 2: 6 of 6 right
epoch 3: 6 of 6 right

What was learned:
  [dispatch-00001] Send glass by courier.
      learned from vase in epoch 1; helpful 6, harmful 0
  [dispatch-00002] Send iron by freight.
      learned from anvil in epoch 1; helpful 6, harmful 0
  [dispatch-00003] Send orchids by balloon.
      learned from bouquet in epoch 1; helpful 3, harmful 0
"""


def test_the_scripted_model_teaches_the_house_rules() -> None:
    done = run_example("examples.learn_with_scripted_model")
    assert (done.returncode, done.stderr) == (0, "")
    report, _, tokens = done.stdout.rpartition("\n\n")
    assert f"{report}\n" == LEARNED
    assert tokens.startswith("33 calls, ")


def test_any_server_teaches_the_house_rules(tmp_path: Path) -> None:
    path = tmp_path / "skills.json"
    with ScriptedServer(script) as server:
        done = run_example(
            *("examples.learn_with_any_server", "--api-base", server.api_base, "--model", "some-model"),
            *("--epochs", "2", "--skillbook", str(path)),
        )
        account = f"25 calls, {server.input_tokens} tokens in, {server.output_tokens} tokens out\n"
        assert {request.model for request in server.requests} == {"some-model"}
        assert len(server.requests) == 25
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("epoch 1: 3 of 6 right\nepoch 2: 6 of 6 right\n\n")
    assert done.stdout.endswith(account)
    contents = [skill["content"] for skill in json.loads(path.read_text(encoding="utf-8"))["skills"].values()]
    assert contents == ["Send glass by courier.", "Send iron by freight.", "Send orchids by balloon."]


def test_a_sample_that_fails_counts_as_wrong_and_is_told() -> None:
    def refuses_iron(request: ScriptedRequest) -> dict[str, Any] | HttpError:
        if request.role == "agent" and "made of iron?" in request.text:
            return HttpError(400, "no iron here")
        return script(request)

    with ScriptedServer(refuses_iron) as server:
        done = run_example(
            *("examples.learn_with_any_server", "--api-base", server.api_base, "--model", "m", "--epochs", "1")
        )
    assert done.returncode == 1
    assert done.stdout.startswith("epoch 1: 2 of 6 right\n  anvil failed in AgentStep: model 'openai/m' gave no answer")
    assert "no iron here" in done.stdout


@pytest.mark.parametrize("missing", ["--api-base", "--model"])
def test_any_server_asks_for_what_it_needs(missing: str) -> None:
    given = {"--api-base": "http://127.0.0.1:9/v1", "--model": "m"}
    del given[missing]
    done = run_example("examples.learn_with_any_server", *(word for pair in given.items() for word in pair))
    assert done.returncode == 2
    assert missing in done.stderr

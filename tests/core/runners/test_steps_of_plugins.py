"""Arguments of `ACELiteLLM`, and of its `from_model`, that enable the steps of a plugin."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from ace import ACELiteLLM, LiteLLMClient, Sample
from ace.context import ACEStepContext
from ace.plugins import ExtraStepsSpec, MissingFrameworkError, hookimpl, temporary
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

HERE = __name__
Make = Callable[..., ACELiteLLM]
SEEN: list[tuple[int, str]] = []


class Note:
    requires = frozenset({"skillbook"})
    provides: frozenset[str] = frozenset()

    def __init__(self, depth: int) -> None:
        self.depth = depth

    def __call__(self, ctx: ACEStepContext) -> ACEStepContext:
        SEEN.append((self.depth, ctx.sample.question))
        return ctx


def note_steps(depth: int = 1) -> Sequence[Note]:
    return [Note(depth)]


class Hooks:
    ACE_API = 1
    requires: tuple[str, ...] = ()

    @hookimpl
    def ace_extra_steps(self) -> Iterator[ExtraStepsSpec]:
        target = f"{HERE}:note_steps"
        yield ExtraStepsSpec(name="acme", target=target, options=("depth",), requires=self.requires)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    SEEN.clear()
    with ScriptedServer(learning_script()) as started:
        yield started


def from_client(model: str, *, api_base: str | None = None, api_key: str | None = None, **options: Any) -> ACELiteLLM:
    return ACELiteLLM(LiteLLMClient(model, api_base=api_base, api_key=api_key), **options)


@pytest.fixture(params=[ACELiteLLM.from_model, from_client])
def make(request: pytest.FixtureRequest) -> Make:
    made: Make = request.param
    return made


def learned(make: Make, server: ScriptedServer, **options: Any) -> list[tuple[int, str]]:
    with temporary(Hooks(), name="acme"):
        ace = make("openai/scripted", api_base=server.api_base, api_key="k" * 9, **options)
    [result] = ace.learn([Sample("LESSON glass")])
    assert result.error is None
    return SEEN


def test_an_argument_adds_the_steps(make: Make, server: ScriptedServer) -> None:
    assert learned(make, server, acme=True, acme_depth=3, extra_steps=[Note(0)]) == [
        (0, "LESSON glass"),
        (3, "LESSON glass"),
    ]


def test_an_option_may_be_omitted(make: Make, server: ScriptedServer) -> None:
    assert learned(make, server, acme=True) == [(1, "LESSON glass")]


def test_false_adds_none(make: Make, server: ScriptedServer) -> None:
    assert learned(make, server, acme=False, acme_depth=3) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"acme_depth": 3}, r"ACELiteLLM(.from_model)?\(\) takes acme_depth only together with acme=True"),
        ({"acme": "yes"}, "acme must be a bool, got 'yes'"),
        ({"acme": True, "acme_dept": 3}, "unexpected keyword argument 'acme_dept'; did you mean 'acme_depth'?"),
        ({"acme": True, "extra_steps": len}, "extra_steps must be a list of steps"),
    ],
)
def test_wrong_arguments(make: Make, options: dict[str, Any], said: str) -> None:
    with temporary(Hooks(), name="acme"), pytest.raises(TypeError, match=said):
        make("openai/scripted", **options)


def test_without_the_plugin_the_argument_is_unknown(make: Make) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'acme'"):
        make("openai/scripted", acme=True)


def test_what_the_steps_need_is_not_installed(make: Make) -> None:
    hooks = Hooks()
    hooks.requires = ("acme-agent-that-is-not-here>=2",)
    with temporary(hooks, name="acme"), pytest.raises(MissingFrameworkError, match="acme-agent-that-is-not-here"):
        make("openai/scripted", acme=True)
    assert issubclass(MissingFrameworkError, ImportError)


@pytest.mark.parametrize(
    ("called", "model"), [("ACELiteLLM.from_model", "'m'"), ("ACELiteLLM", "LiteLLMClient('openai/m')")]
)
def test_the_distribution_of_a_documented_argument_is_named(called: str, model: str) -> None:
    code = f"from ace import ACELiteLLM, LiteLLMClient; {called}({model}, opik=True)"
    environ = {**os.environ, "ACE_PLUGINS_DISABLED": "opik"}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False)
    assert f"ImportError: {called}(opik=...) needs the distribution ace-opik" in done.stderr

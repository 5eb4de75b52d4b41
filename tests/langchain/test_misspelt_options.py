"""A misspelt option of the runner is answered with the right one."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda

import ace_langchain
from ace import ReflectStep
from ace_langchain import LangChain
from tests.support import misspelt


@pytest.mark.parametrize(
    ("given", "meant"), [("skill_book", "skillbook"), ("base_url", "api_base"), ("time_out", "timeout")]
)
def test_a_misspelt_option_is_suggested(given: str, meant: str) -> None:
    options: dict[str, Any] = {given: 1}
    with pytest.raises(TypeError, match=rf"LangChain\.from_model\(\) got .*'{given}'; did you mean '{meant}'\?"):
        LangChain.from_model(RunnableLambda(str.upper), **options)


def test_the_address_of_the_model_that_learns() -> None:
    runner: Any = LangChain.from_model(
        RunnableLambda(str.upper), ace_model="openai/x", prove=False, api_base="http://127.0.0.1:1", api_key="k"
    )
    reflect: Any
    [reflect] = [step for step in runner.pipeline.steps if isinstance(step, ReflectStep)]
    assert reflect.reflector.llm.config.api_base == "http://127.0.0.1:1"


OTHERWISE = {
    "LangChainResult",  # made by the package
    "LangChainLLMClient",  # takes the settings of any model
    "LangChainLiteLLMClient",  # another name of it
}


@pytest.mark.parametrize("name", [name for name in misspelt.callables_of(ace_langchain) if name not in OTHERWISE])
def test_every_public_callable_refuses_a_wrong_keyword_in_its_own_name(name: str) -> None:
    misspelt.check_refusal(ace_langchain, name)

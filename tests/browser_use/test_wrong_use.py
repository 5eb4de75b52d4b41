"""browser-use swallows wrong arguments and foreign models; here they are named."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from browser_use import Agent

from ace import Skillbook, SkillbookView
from ace.context import ACEStepContext
from ace_browser_use import BrowserExecuteStep, BrowserUse
from tests.browser_use import harbour
from tests.browser_use.site import Site
from tests.support.clients import client_for
from tests.support.scripted_server import ScriptedServer


@pytest.fixture
def model() -> Any:
    with ScriptedServer(harbour.script) as server:
        yield harbour.browser_llm(server)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"use_visoin": True}, r"a browser-use agent has no argument 'use_visoin'; did you mean 'use_vision'\?"),
        ({"headless": False}, r"no argument 'headless'; it belongs to the browser: browser=BrowserProfile\(headless="),
        ({"qqqq": 1}, r"no argument 'qqqq'$"),
        ({"task": "x"}, r"takes no argument 'task': tasks are given to run\(\)"),
        ({"browser_session": None}, r"takes no argument 'browser_session': give it as browser"),
        ({"kwargs": {}}, r"no argument 'kwargs'"),
    ],
)
def test_an_argument_that_no_agent_has_is_refused(model: Any, arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        BrowserExecuteStep(model, **arguments)


def test_numbers_that_are_out_of_range_are_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="max_steps must be at least 1, got 0"):
        BrowserExecuteStep(model, max_steps=0)
    with pytest.raises(ValueError, match="timeout must be more than 0 seconds, got -1"):
        BrowserExecuteStep(model, timeout=-1)


def test_a_model_of_another_framework_is_refused() -> None:
    class ChatOpenAI:
        """Looks like LangChain's."""

        async def ainvoke(self, messages: object) -> object:
            return messages

    foreign: Any = ChatOpenAI()
    with pytest.raises(TypeError, match=r"ChatOpenAI is not a chat model of browser-use; use one of its own"):
        BrowserExecuteStep(foreign)


@pytest.mark.usefixtures("no_browser_is_left")
def test_a_browser_llm_that_an_agent_cannot_be_made_with_leaves_nothing(model: Any) -> None:
    step = BrowserExecuteStep(model, llm_screenshot_size=(1, 1))
    with pytest.raises(ValueError, match="at least 100 pixels"):
        asyncio.run(step.execute("Book a berth", SkillbookView(Skillbook())))


def test_a_task_is_a_text_or_a_sample(model: Any) -> None:
    task: Any = {"task": "Book a berth"}
    with pytest.raises(TypeError, match="a task for the browser is a text or a sample, not a dict"):
        asyncio.run(BrowserExecuteStep(model).execute(task, SkillbookView(Skillbook())))
    with pytest.raises(ValueError, match="needs the context fields 'sample' and 'skillbook'"):
        asyncio.run(BrowserExecuteStep(model)(ACEStepContext(sample="Book a berth")))


def test_all_arguments_of_an_agent_but_ours_are_taken(model: Any) -> None:
    async def watch(agent: Agent[Any, Any]) -> None:
        """Look on."""

    BrowserExecuteStep(model, use_vision=False, max_failures=2, use_judge=True, on_step_start=watch, on_step_end=watch)


@pytest.mark.parametrize(
    ("given", "meant"), [("skill_book", "skillbook"), ("base_url", "api_base"), ("max_step", "max_steps")]
)
def test_a_misspelt_option_is_suggested(given: str, meant: str) -> None:
    options: dict[str, Any] = {given: 1}
    with pytest.raises(TypeError, match=rf"BrowserUse\.from_model\(\) got .*'{given}'; did you mean '{meant}'\?"):
        BrowserUse.from_model("openai/x", **options)


HOOKS = [
    "on_step_start",
    "on_step_end",
    "register_new_step_callback",
    "register_done_callback",
    "register_should_stop_callback",
]


@pytest.mark.usefixtures("no_browser_is_left")
@pytest.mark.parametrize("name", HOOKS)
def test_an_error_in_a_hook_of_the_caller_is_theirs_and_nothing_is_learned_from_it(name: str, site: Site) -> None:
    async def broken(*_: object) -> None:
        raise KeyError("my own mistake")

    hook: dict[str, Any] = {name: broken}
    with ScriptedServer(harbour.script) as server:
        runner = BrowserUse.from_model(
            harbour.browser_llm(server), ace_llm=client_for(server), browser=harbour.profile(), **hook
        )
        (result,) = runner.run([f"Book a berth for Ada at {site.address}/plain please"])
        assert not server.by_role("reflector")
    assert isinstance(result.error, KeyError)
    assert result.failed_at == "BrowserExecuteStep"
    assert f"the {name} that you gave" in result.error.__notes__[0]
    assert len(runner.skillbook) == 0


@pytest.mark.usefixtures("no_browser_is_left")
def test_an_error_in_a_plain_hook_ends_the_agent_although_browser_use_would_try_the_step_again(
    model: Any, site: Site
) -> None:
    def look(state: object, output: object, number: int) -> None:
        raise InterruptedError("enough")

    step = BrowserExecuteStep(model, harbour.profile(), register_new_step_callback=look)
    task = f"Book a berth for Ada at {site.address}/plain please"
    with pytest.raises(InterruptedError, match="enough"):
        asyncio.run(step.execute(task, SkillbookView(Skillbook())))

"""Checks the arguments of a browser-use agent, which itself accepts unknown names and models of other frameworks."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from ace.integrations import closest_name
from ace.providers import load_litellm
from ace_browser_use.framework import load

if TYPE_CHECKING:
    from browser_use.llm.base import BaseChatModel

__all__ = ["check_agent_arguments", "checked_model", "for_one_agent"]

_OURS = {
    "task": "tasks are given to run()",
    "llm": "give it as browser_llm",
    "browser_session": "give it as browser",
    "browser_profile": "give it as browser",
    "injected_agent_state": "each run has a state of its own",
    "task_id": "each run has an id of its own",
}
_OF_THE_BROWSER = ("headless", "executable_path", "user_data_dir", "chromium_sandbox", "args", "keep_alive")
_OF_THE_STEP = ("max_steps", "timeout", "skill_budget_tokens")
_MODELS = ("llm", "page_extraction_llm", "judge_llm", "fallback_llm")


def agent_arguments() -> frozenset[str]:
    """Return the names of the arguments of an agent, including those for which an error names an alternative."""
    parameters = inspect.signature(load("browser_use", needed_by="BrowserExecuteStep").Agent.__init__).parameters
    return frozenset(parameters) - {"self", "kwargs"} | {"on_step_start", "on_step_end", *_OURS, *_OF_THE_BROWSER}


def check_agent_arguments(arguments: Mapping[str, object]) -> None:
    """Check the names of arguments for an agent.

    Raises:
        TypeError: An agent does not have the argument, or it is set by `BrowserExecuteStep`.
    """
    known = agent_arguments()
    for name in arguments:
        if name in _OURS:
            raise TypeError(f"BrowserExecuteStep takes no argument {name!r}: {_OURS[name]}")
        if name not in known or name in _OF_THE_BROWSER:
            raise TypeError(f"a browser-use agent has no argument {name!r}{_hint(name, known.union(_OF_THE_STEP))}")


def checked_model(browser_llm: BaseChatModel | str) -> BaseChatModel:
    """Return a chat model of browser-use.

    Args:
        browser_llm: A chat model of browser-use, or a model string of LiteLLM.

    Raises:
        TypeError: The model belongs to another framework.
    """
    if isinstance(browser_llm, str):
        load_litellm()  # otherwise browser-use imports it, which fetches a price list
        model: BaseChatModel = load("browser_use", needed_by="BrowserExecuteStep").ChatLiteLLM(model=browser_llm)
        return model
    if not callable(getattr(browser_llm, "ainvoke", None)) or not hasattr(browser_llm, "provider"):
        raise TypeError(
            f"a {type(browser_llm).__module__}.{type(browser_llm).__qualname__} is not a chat model of browser-use; "
            "use one of its own, such as browser_use.ChatOpenAI(...), or a model string of LiteLLM"
        )
    return browser_llm


def for_one_agent(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments for one agent, with copies of the models, because an agent modifies them.

    Args:
        arguments: The arguments for all agents.
    """
    return {
        name: copy.copy(value) if name in _MODELS and value is not None else value for name, value in arguments.items()
    }


def _hint(name: str, known: Collection[str]) -> str:
    if name in _OF_THE_BROWSER:
        return f"; it belongs to the browser: browser=BrowserProfile({name}=...)"
    near = closest_name(name, known)
    return f"; did you mean {near!r}?" if near else ""

"""A misspelt argument is answered with the right one, in the name of what the caller called."""

from __future__ import annotations

from typing import Any

import pytest

import ace_browser_use
from ace_browser_use import BrowserExecuteStep
from tests.browser_use import harbour
from tests.support import misspelt
from tests.support.scripted_server import ScriptedServer

OTHERWISE = {
    "BrowserResult",
    "BrowserExecuteStep",
}  # one is made by the package, the other takes all that an agent takes


@pytest.mark.parametrize("name", [name for name in misspelt.callables_of(ace_browser_use) if name not in OTHERWISE])
def test_every_public_callable_refuses_a_wrong_keyword_in_its_own_name(name: str) -> None:
    misspelt.check_refusal(ace_browser_use, name)


@pytest.mark.parametrize(("given", "meant"), [("max_step", "max_steps"), ("use_visoin", "use_vision")])
def test_a_misspelt_argument_of_the_step_or_of_its_agent_is_suggested(given: str, meant: str) -> None:
    options: dict[str, Any] = {given: 1}
    with ScriptedServer(harbour.script) as server, pytest.raises(TypeError, match=rf"'{given}'.*'?{meant}'?\?"):
        BrowserExecuteStep(harbour.browser_llm(server), **options)

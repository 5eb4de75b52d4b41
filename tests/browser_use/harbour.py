"""The model behind the browser and behind the roles: it computes each answer from what it is shown.

It knows only from a skill that a cookie banner has to be accepted before the page behind it can be seen.
"""

from __future__ import annotations

import json
import re
from typing import Any

from browser_use import BrowserProfile, ChatOpenAI

from tests.support.scripted_server import Answer, HttpError, ScriptedRequest, ScriptedServer

RULE = "Accept the cookies first where a banner hides the page."
_SKILL = re.compile(rf"\[([\w-]+)\] {re.escape(RULE)}")
_TASK = re.compile(r"\A\s*<user_request>\n(.*?)\n</user_request>", re.DOTALL)
_PAGE = re.compile(r"<browser_state>(.*)</browser_state>", re.DOTALL)


def browser_llm(server: ScriptedServer, **settings: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model="scripted", base_url=server.api_base, api_key="sk-scripted-0123456789", **{"max_retries": 0, **settings}
    )


def profile(**settings: Any) -> BrowserProfile:
    """A profile whose browser asks for no host but ours."""
    rules = "--host-resolver-rules=MAP * ^NOTFOUND , EXCLUDE 127.0.0.1"
    return BrowserProfile(**{"headless": True, "args": [rules], **settings})


def is_of_browser(request: ScriptedRequest) -> bool:
    schema: dict[str, Any] = (request.body.get("response_format") or {}).get("json_schema", {})
    return schema.get("name") == "agent_output"


def script(request: ScriptedRequest) -> Answer | HttpError | dict[str, Any]:
    if is_of_browser(request):
        return Answer(json.dumps(_agent(request)))
    if request.role == "reflector":
        return _reflection(request.text)
    wanted = RULE in request.text and _SKILL.search(request.text) is None
    operation = {"type": "ADD", "section": "cookies", "content": RULE}
    return {"reasoning": "", "operations": [operation] if wanted else []}


def told_last(request: ScriptedRequest) -> str:
    """What the agent is told in this step: its task, its history and the page."""
    content = request.messages[-1]["content"]
    return content if isinstance(content, str) else str(content[0]["text"])


def answer(thinking: str, *actions: dict[str, Any]) -> dict[str, Any]:
    return {
        "thinking": thinking,
        "evaluation_previous_goal": "",
        "memory": "",
        "next_goal": "",
        "action": list(actions),
    }


def done(text: str, *, success: bool) -> dict[str, Any]:
    return {"done": {"text": text, "success": success, "files_to_display": []}}


def page_of(request: ScriptedRequest) -> str:
    found = _PAGE.search(told_last(request))
    return found[1] if found else ""


def task_of(request: ScriptedRequest) -> str:
    found = _TASK.match(told_last(request))
    return found[1] if found else ""


def _agent(request: ScriptedRequest) -> dict[str, Any]:
    page, task = page_of(request), task_of(request)
    if (
        "Empty DOM tree" in page and "http" in task
    ):  # on a busy machine, the agent does not wait for the page long enough
        return answer("It is loading.", {"wait": {"seconds": 1}})
    skill = _SKILL.search(request.text)
    if booked := re.search(r"Berth \d+ is for [^.]*\.", page):
        cited = f" by [{skill[1]}]" if skill else ""
        return answer(f"It is done{cited}.", done(booked[0], success=True))
    if field := re.search(r"\[(\d+)\]<input", page):
        (button,) = re.findall(r"\[(\d+)\]<button", page)
        ship = re.findall(r"berth for (\w+)", task)[0]
        typed = {"input": {"index": int(field[1]), "text": ship, "clear": True}}
        return answer("A form.", typed, {"click": {"index": int(button)}})
    if skill and "Accept" in page:
        (button,) = re.findall(r"\[(\d+)\]<button", page)
        return answer(f"By [{skill[1]}] I accept the cookies.", {"click": {"index": int(button)}})
    return answer("No form here.", done("I see no form to book a berth.", success=False))


def _reflection(prompt: str) -> dict[str, Any]:
    failed = "The task failed" in prompt
    behind_banner = failed and "This site uses cookies." in prompt
    cited = [] if failed else list(dict.fromkeys(re.findall(r"\[(cookies-\d+)\]", prompt)))
    return {
        "reasoning": "Looked at the pages.",
        "error_identification": "The banner hid the form." if behind_banner else "",
        "root_cause_analysis": "The banner was left alone." if behind_banner else "The form was found.",
        "correct_approach": RULE,
        "key_insight": RULE,
        "extracted_learnings": [{"learning": RULE}] if behind_banner else [],
        "skill_tags": [{"id": skill_id, "tag": "helpful"} for skill_id in cited],
    }

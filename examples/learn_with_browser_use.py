"""A browser agent learns to get past a cookie banner, without a key or another host: the model is a script.

The page has a form behind a cookie banner. The script only accepts the cookies if a skill says so, so the second epoch
shows whether that was learned. It requires Chromium or a Chromium-based browser. Run it from the root of the checkout:

    python -m examples.learn_with_browser_use
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ace import LiteLLMClient
from ace_browser_use import BrowserUse
from ace_browser_use.chromium import HOW_TO_INSTALL, find_chromium
from examples.scripted_model import ScriptedModel

RULE = "Accept the cookies first where a banner hides the page."
SKILL = re.compile(rf"\[([\w-]+)\] {re.escape(RULE)}")
PAGE = re.compile(r"<browser_state>(.*?)</browser_state>", re.DOTALL)
OFFICE = """<html><head><title>Harbour office</title></head><body>
<form action="/booked"><input name="ship" placeholder="Name of the ship"><button>Book a berth</button></form>
<div id="cookies" style="position:fixed;inset:0;background:#fff"><p>This site uses cookies.</p>
<button onclick="document.getElementById('cookies').remove()">Accept</button></div></body></html>"""
BOOKED = "<html><head><title>Booked</title></head><body><h1>Berth 7 is yours.</h1></body></html>"


class Office(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = (BOOKED if self.path.startswith("/booked") else OFFICE).encode()
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def script(role: str, prompt: str) -> Mapping[str, Any]:
    if role == "reflector":
        return reflection(failed="The task failed" in prompt, cited=SKILL.findall(prompt))
    if role == "skill_manager":
        new = RULE in prompt and not SKILL.search(prompt)
        return {"reasoning": "", "operations": [{"type": "ADD", "section": "cookies", "content": RULE}] if new else []}
    return browser_agent(PAGE.findall(prompt)[-1], SKILL.search(prompt))


def browser_agent(page: str, skill: re.Match[str] | None) -> Mapping[str, Any]:
    buttons = re.findall(r"\[(\d+)\]<button", page)
    if "Berth 7 is yours." in page:
        return acting("The berth is booked.", done("Berth 7 is yours.", success=True))
    if field := re.search(r"\[(\d+)\]<input", page):
        typing = {"input": {"index": int(field[1]), "text": "Ada", "clear": True}}
        return acting("There is the form.", typing, {"click": {"index": int(buttons[0])}})
    if skill and buttons:
        return acting(f"By [{skill[1]}] I accept the cookies.", {"click": {"index": int(buttons[0])}})
    return acting("There is no form.", done("I see no form.", success=False))


def acting(thinking: str, *actions: Mapping[str, Any]) -> Mapping[str, Any]:
    state = {"evaluation_previous_goal": "", "memory": "", "next_goal": ""}
    return {"thinking": thinking, **state, "action": list(actions)}


def done(text: str, *, success: bool) -> Mapping[str, Any]:
    return {"done": {"text": text, "success": success, "files_to_display": []}}


def reflection(*, failed: bool, cited: list[str]) -> Mapping[str, Any]:
    return {
        "reasoning": "Looked at the pages.",
        "error_identification": "A banner hid the form." if failed else "",
        "root_cause_analysis": "The banner was left alone." if failed else "The banner was closed.",
        "correct_approach": RULE,
        "key_insight": RULE,
        "extracted_learnings": [{"learning": RULE}] if failed else [],
        "skill_tags": [{"id": skill_id, "tag": "helpful"} for skill_id in dict.fromkeys(cited)],
    }


def learn(address: str, model: ScriptedModel) -> None:
    # Otherwise browser-use logs each step to the terminal.
    os.environ.setdefault("BROWSER_USE_SETUP_LOGGING", "false")
    from browser_use import BrowserProfile, ChatOpenAI

    # Chromium must not connect to any other host, not even for updates.
    only_here = "--host-resolver-rules=MAP * ^NOTFOUND , EXCLUDE 127.0.0.1"
    runner = BrowserUse.from_model(
        ChatOpenAI(model="scripted", base_url=model.api_base, api_key="none"),
        ace_llm=LiteLLMClient("openai/scripted", api_base=model.api_base, api_key="none"),
        browser=BrowserProfile(headless=True, args=[only_here]),
    )
    for epoch, result in enumerate(runner.run([f"Book a berth for Ada at {address}/ please"], epochs=2), 1):
        trace = result.output.trace if result.output is not None else None
        assert isinstance(trace, dict)
        actions = ", ".join(step["name"] for step in trace["steps"] if step["kind"] == "call")
        print(f"epoch {epoch}, with {actions}: {trace['feedback']}")
    for skill in runner.skillbook.skills():
        print(f"learned: [{skill.id}] {skill.content} (helpful {skill.helpful})")


def main() -> None:
    if find_chromium() is None:
        print(f"This example needs Chromium, which is not on this machine. Install it: {HOW_TO_INSTALL}")
        return
    office = ThreadingHTTPServer(("127.0.0.1", 0), Office)
    threading.Thread(target=office.serve_forever, daemon=True).start()
    with office, ScriptedModel(script) as model:
        learn(f"http://127.0.0.1:{office.server_port}", model)
        office.shutdown()


if __name__ == "__main__":
    main()

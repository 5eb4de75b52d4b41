"""A LangChain agent with tools learns from a failed run, without a key or a network: the model is a script.

The tool has no tide table for Bremen and raises an error, which names another tool. The script only uses that tool if a
skill says so, so the second epoch shows whether that was learned. Run it from the root of the checkout:

    python -m examples.learn_with_langchain
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain.agents import create_agent
from langchain_core.messages import BaseMessage
from langchain_core.tools import tool

from ace_langchain import LangChain, LangChainLLMClient, skillbook_middleware
from examples.scripted_chat_model import Answer, ScriptedChatModel, call_of

RULE = "Ask the harbour master where there is no tide table."
SKILL = re.compile(rf"\[([\w-]+)\] {re.escape(RULE)}")


@tool
def tide_table(port: str) -> str:
    """Look up high water in the tide table of a port."""
    raise LookupError(f"there is no table of {port}; the harbour master knows")


@tool
def harbour_master(port: str) -> str:
    """Ask the harbour master of a port for high water."""
    return f"High water in {port} is at nine."


def script(role: str, shown: str, messages: Sequence[BaseMessage]) -> Answer:
    if role == "reflector":
        return reflection(failed="LookupError" in shown, cited=SKILL.findall(shown))
    if role == "skill_manager":
        new = RULE in shown and not SKILL.search(shown)
        return {"reasoning": "", "operations": [{"type": "ADD", "section": "tides", "content": RULE}] if new else []}
    return agent(shown, messages)


def agent(shown: str, messages: Sequence[BaseMessage]) -> Answer:
    skill = SKILL.search(shown)
    if messages[-1].type != "tool":
        return call_of("harbour_master" if skill else "tide_table", port="Bremen")
    return f"By [{skill[1]}]: {messages[-1].content}" if skill else str(messages[-1].content)


def reflection(*, failed: bool, cited: Sequence[str]) -> Answer:
    return {
        "reasoning": "Looked at what the tools did.",
        "error_identification": "The tide table was missing." if failed else "",
        "root_cause_analysis": "Not every port has a table." if failed else "The right one was asked.",
        "correct_approach": RULE,
        "key_insight": RULE,
        "extracted_learnings": [{"learning": RULE}] if failed else [],
        "skill_tags": [{"id": skill_id, "tag": "helpful"} for skill_id in dict.fromkeys(cited)],
    }


def main() -> None:
    model = ScriptedChatModel(script=script)
    watch = create_agent(model, [tide_table, harbour_master], middleware=[skillbook_middleware()])
    runner = LangChain.from_model(watch, ace_llm=LangChainLLMClient(model), inject="middleware")
    for epoch, result in enumerate(runner.run(["When is high water in Bremen?"], epochs=2), 1):
        trace = result.output.trace if result.output is not None else None
        assert isinstance(trace, dict)
        tools = ", ".join(step["name"] for step in trace["steps"] if step["kind"] == "call")
        print(f"epoch {epoch}, with {tools}: {trace['answer'] or trace['feedback']}")
    for skill in runner.skillbook.skills():
        print(f"learned: [{skill.id}] {skill.content} (helpful {skill.helpful})")


if __name__ == "__main__":
    main()

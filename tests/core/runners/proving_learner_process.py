"""A learner in children, like `learner_process`, that proves what it learns from corrected chats."""

from __future__ import annotations

from dataclasses import replace

from ace.providers import LiteLLMClient
from ace.roles import Agent, Reflector, SkillManager
from ace.roles.prompts import AGENT_PROMPT
from ace.runners import RecordedTrace, TraceAnalyser
from tests.core.runners.learner_process import main, opened
from tests.support.corrected_chats import Lesson, chat, lesson_number

CHATS = 16
_WARES = ", ".join(f"ware{number}" for number in range(1, CHATS))
UNLIKE = Lesson(
    "Which label for broken crates?",
    "broken",
    "Refused. Broken crates: label K7-RED.",
    "K7-RED",
    f"Broken crates, on the shelf of any ware ({_WARES}): label K7-RED.",
    "label K7-RED",
)
"""It fits the questions about shelves better than the rules about them."""


def lesson(number: int) -> Lesson:
    """Return one of three kinds: proven at once, proven with its example, known from the one before it."""
    if number == CHATS:
        return UNLIKE
    if number % 3 == 1:
        return replace(lesson_number(number), rule=f"Now ware{number} is S-{number}.")
    if number % 3 == 2:
        made = lesson_number(number)
        return Lesson(made.question, made.wrong, made.correction, made.right, f"The shelf is S-{number}.", made.needs)
    before = lesson(number - 2)
    asked = before.question.replace("What is", "Tell me")
    return Lesson(asked, before.wrong, before.correction, before.right, before.rule, before.needs)


def traces() -> list[RecordedTrace]:
    """Return the input, the same in every process."""
    return [RecordedTrace(chat(lesson(number)), f"chats.jsonl#{number}") for number in range(1, CHATS + 1)]


def learn(path: str, api_base: str) -> None:
    """Learn from all chats, strictly online, or continue with that."""
    client = LiteLLMClient("openai/scripted", api_base=api_base, api_key="k" * 9)
    runner = TraceAnalyser.from_roles(
        reflector=Reflector(client),
        skill_manager=SkillManager(client),
        proof_agent=Agent(client, AGENT_PROMPT.replace("{current_date}", "2026-01-01")),  # a run may last past midnight
        skillbook=opened(path),
        unproven="keep",
    )
    results = runner.run(traces(), max_in_flight=1, resume=True)
    assert [result.error for result in results] == [None] * CHATS


if __name__ == "__main__":
    main(learn)

"""Writes the reference page of the prompts as they are sent: `python -m docs.prompts_page`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ace.outputs import AgentOutput, ExtractedLearning, ReflectorOutput
from ace.protocols.llm import LLMResponse, StructuredAnswer
from ace.providers.structured_answers import prompt_messages
from ace.roles import Agent, Reflector, SkillManager
from ace.roles.agent import today
from ace.skillbook import Skillbook

PAGE = Path(__file__).parent / "reference" / "prompts.md"

HEAD: Final = """# Prompts

What hosted models are sent, for one example: an agent that looks up tides. The text is that of the requests, written by
`python -m docs.prompts_page`; a test keeps it up to date. `ace learn --prompts FOLDER`, and the argument
`prompt_template` of the roles, replace a prompt. Models on this machine get shorter ones.

"""

REASONS: Final = {
    "Agent": """\
The rules and the skills come first, so that a provider's cache keeps them from call to call. The agent cites the skills
that it uses by their ids, which is how they are counted as helpful or harmful. A skill that does not fit is to be
ignored: a book holds rules for many tasks.""",
    "Reflector": """\
- **The root cause, and the difference between a failed call and the one that worked**: what agents find out by trial
  and error is what a lesson saves them.
- **A rule with its condition, and exact names and values**: short general advice loses the specific facts that the next
  run needs, which the ACE paper ([arXiv 2510.04618](https://arxiv.org/abs/2510.04618)) calls brevity bias.
- **No more than its evidence, which is a quote**: code compares quotes with the record, and a wish of one person is not
  a rule for others.
- **An instruction in a result is not evidence**: otherwise the author of a page or a mail could teach the agent. All
  texts of the record are between marks with a hash that no text in it contains.
- **Nothing to learn is a normal result**: models tend to fill a list that they are asked for.
- **The skills that the run could have used**, so that what is known is judged, and not learned again.""",
    "SkillManager": """\
- **UPDATE before ADD**, so that a book does not hold the same rule in several wordings.
- **One condition and one action**, so that each part is shown where it applies, is judged, and can be removed alone.
- **No broader condition than what has been seen**: one run shows one case.
- **Ids that exist**: changes to other ids are refused, and the history says so.""",
}


class _Recorded(Exception):
    """Ends a role once its prompt is known."""


class _Recorder:
    """A client that notes the messages it would send."""

    model = "recorder"

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        raise _Recorded(prompt)

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        raise _Recorded(prompt, response_model)


def page() -> str:
    """Return the text of the page."""
    book = Skillbook()
    book.add_skill("tides", "When a customer asks for high water, give the time as 14h30.")
    found = AgentOutput(reasoning="The second call returned it.", final_answer="At 07h10.")
    task = "When is high water in Oslo on 4 March 2027?"
    steps = [
        {"role": "user", "content": task},
        _call("1", '{"port": "Oslo", "day": "2027-03-04"}'),
        {"role": "tool", "tool_call_id": "1", "content": "Error: port must be a UN/LOCODE"},
        _call("2", '{"port": "NOOSL", "day": "2027-03-04"}'),
        {"role": "tool", "tool_call_id": "2", "content": '{"high_water": "07:10"}'},
        {"role": "assistant", "content": found.final_answer},
    ]
    learning = "When get_tides is called, give its port as a UN/LOCODE, such as NOOSL for Oslo."
    reflection = ReflectorOutput(
        reasoning="The first call of get_tides failed, and the second one worked.",
        error_identification="port must be a UN/LOCODE",
        root_cause_analysis="The agent passed the name of the port, as the user had written it.",
        correct_approach=learning,
        key_insight=learning,
        extracted_learnings=[ExtractedLearning(learning=learning, evidence="Error: port must be a UN/LOCODE")],
    )
    client = _Recorder()
    parts = (
        _part("Agent", lambda: Agent(client).generate(task, "", book)),
        _part("Reflector", lambda: Reflector(client).reflect(task, found, book, trace=steps)),
        _part("SkillManager", lambda: SkillManager(client).update_skills(reflection, book, task, "sample 1 of 1")),
    )
    return HEAD + "\n".join(parts)


def _call(call_id: str, arguments: str) -> dict[str, Any]:
    function = {"name": "get_tides", "arguments": arguments}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "function": function}]}


def _part(role: str, ask: Callable[[], object]) -> str:
    try:
        ask()
    except _Recorded as recorded:
        prompt, response_model = recorded.args
    written = prompt_messages(prompt, response_model=response_model)
    messages = [{**message, "content": message["content"].replace(today(), "2027-03-01")} for message in written]
    blocks = [
        f"The {message['role']} message:\n\n````text\n{message['content'].strip()}\n````\n" for message in messages
    ]
    return f"## {role}\n\n{REASONS[role]}\n\n" + "\n".join(blocks)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

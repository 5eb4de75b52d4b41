"""Measures how much of the roles' prompts repeats from call to call, and what providers charge for it.

60 samples are learned into a book of 200 or 5,000 skills: the agent answers, the reflector judges the skills that it
cites, and the skill manager tags, adds and rewrites skills. Every prompt is compared with the previous one of the same
role. The earlier layout is the same text in another order: the skills by section and with their counters first, then
the rules, the task and the schema of the answer.

It exits with 1 if the skills that were taught are not in the book, or if less than 85 % of the characters repeat.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from ace.environments import Sample, SimpleEnvironment
from ace.protocols import LayeredPrompt, LLMResponse
from ace.protocols.llm import StructuredAnswer
from ace.providers.structured_answers import described, prompt_messages
from ace.roles import Agent, Reflector, SkillManager
from ace.runners import ACE
from ace.skillbook import Skillbook
from benchmarks.learning import yard_book
from benchmarks.options import add_quick, parser_of

SAMPLES: Final = 60
SIZES: Final = (200, 5_000)
GOAL: Final = 0.84
ROLES: Final = ("Agent", "Reflector", "SkillManager")
_ROLE_OF: Final = {"AgentOutput": "Agent", "ReflectorOutput": "Reflector", "SkillManagerOutput": "SkillManager"}
_BUDGET: Final = 20_000


class Call(NamedTuple):
    """One prompt in both layouts."""

    role: str
    blocks: tuple[str, ...]
    """What is sent now: the texts of the system message, of which the first two may be marked, and the task."""
    earlier: str
    """The same in the earlier layout."""
    answer: str

    @property
    def text(self) -> str:
        """What is sent now, as one text."""
        return "".join(self.blocks)


@dataclass
class Plan:
    """A model that does by a fixed plan what a large model does, and keeps what it was sent."""

    book: Skillbook
    calls: list[Call] = field(default_factory=list)

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        raise AssertionError("the roles ask for structured answers only")

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        assert isinstance(prompt, LayeredPrompt)
        answer = response_model.model_validate(self._answer(prompt, response_model.__name__))
        system, task = prompt_messages(prompt, response_model=response_model, marked=True)
        blocks = (*(part["text"] for part in system["content"]), task["content"])
        earlier = _earlier(prompt, described(response_model), self.book)
        self.calls.append(Call(_ROLE_OF[response_model.__name__], blocks, earlier, answer.model_dump_json()))
        return answer

    def _answer(self, prompt: LayeredPrompt, kind: str) -> Mapping[str, Any]:
        found = re.findall(r"does order (\d+) need", prompt.task)
        number = int(found[0])
        cited = f"skill-{number % 150 + 1:05}"
        if kind == "AgentOutput":
            return {
                "reasoning": f"By [{cited}] the clerk checks the form first. {_FILLER}",
                "final_answer": "12 crates",
            }
        if kind == "ReflectorOutput":
            return {
                "reasoning": f"The answer to order {number} follows [{cited}]. {_FILLER}",
                "correct_approach": "Check the form, then count the crates.",
                "key_insight": f"Orders such as order {number} are counted in crates.",
                "extracted_learnings": [{"learning": f"Count the crates of order {number} twice."}],
                "skill_tags": [{"id": cited, "tag": "helpful"}],
            }
        operations: list[dict[str, Any]] = []
        if number % 3 == 0:
            operations.append({"type": "ADD", "section": f"area {number % 10}", "content": taught(number)})
        elif number % 3 == 1:
            changed = f"skill-{number * 3 % 190 + 1:05}"
            operations.append({"type": "UPDATE", "skill_id": changed, "content": f"{taught(number)} {_FILLER[:60]}"})
        return {"reasoning": "As the reflection says.", "operations": operations}


_FILLER: Final = (
    "The form names the customer, the day and the number of crates; the yard confirms it before noon, and the clerk "
    "notes the number of the lorry. "
)


def taught(number: int) -> str:
    """Return the skill that a sample teaches.

    Args:
        number: The number of the sample.
    """
    return f"When a form like that of order {number} has no day, ask the yard before you count its crates."


def _earlier(prompt: LayeredPrompt, schema: str, book: Skillbook) -> str:
    if not prompt.skills:  # the reflector: what to find out was after the record
        role, title, question = prompt.rules.partition("# What to find out")
        return f"{role}{prompt.task}\n\n{title}{question}\n\n{schema}"
    skills = book.as_prompt()
    if len(skills) // 3 > _BUDGET:
        skills = book.as_prompt(budget_tokens=_BUDGET, query=prompt.task[-400:])
    role, title, rules = prompt.rules.partition("\n# ")
    return f"{role}\n# Skillbook\n\n{skills}\n{title}{rules}\n\n{prompt.task}\n\n{schema}"


def replay(size: int, samples: int = SAMPLES) -> list[Call]:
    """Learn from the samples and return the calls.

    Args:
        size: The number of skills that the book begins with.
        samples: The number of samples.

    Raises:
        RuntimeError: The book lacks what was taught.
    """
    with tempfile.TemporaryDirectory() as folder, Skillbook.open(Path(folder) / "skills.db") as book:
        book.import_skills(yard_book(size))
        model = Plan(book)
        runner = ACE.from_roles(
            agent=Agent(model),
            reflector=Reflector(model),
            skill_manager=SkillManager(model),
            environment=SimpleEnvironment(),
            skillbook=book,
            prove=False,
        )
        asked = [
            Sample(f"How many crates does order {number} need? {_FILLER}", context=_FILLER * 2, ground_truth="12")
            for number in range(samples)
        ]
        results = runner.run(asked, max_in_flight=1)
        problems = [result.error for result in results if result.error is not None]
        if problems:
            raise RuntimeError(f"{len(problems)} of {samples} samples failed, the first with {problems[0]!r}")
        texts = {skill.content for skill in book.skills()}
        missing = [number for number in range(0, samples, 3) if taught(number) not in texts]
        if missing:
            raise RuntimeError(f"the book lacks what samples {missing} taught")
    return model.calls


def _same(first: str, second: str) -> int:
    """Return how many characters two texts have in common at their beginnings."""
    least, most = 0, min(len(first), len(second))
    while least < most:
        middle = (least + most + 1) // 2
        if first[:middle] == second[:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def repeated_shares(calls: Sequence[Call], *, earlier: bool = False) -> dict[str, float]:
    """Return the share of characters that repeat the role's previous prompt, by role and in `all` of them.

    Args:
        calls: The calls of a run, in order.
        earlier: Whether to measure the earlier layout.
    """
    repeated, whole = dict.fromkeys((*ROLES, "all"), 0), dict.fromkeys((*ROLES, "all"), 0)
    previous: dict[str, str] = {}
    for call in calls:
        text = call.earlier if earlier else call.text
        same = _same(previous.get(call.role, ""), text)
        previous[call.role] = text
        for name in (call.role, "all"):
            repeated[name] += same
            whole[name] += len(text)
    return {name: repeated[name] / whole[name] for name in whole if whole[name]}


class Price(NamedTuple):
    """What a provider charges, in US dollars for a million tokens, as LiteLLM 1.106 lists it."""

    model: str
    input: float
    cached: float
    write: float
    output: float
    least: int
    """The shortest beginning that is cached, in tokens."""
    unit: int
    """In steps of how many tokens it is cached."""
    is_marked: bool = False
    """Whether only marked parts are cached."""


PRICES: Final = (
    Price("gpt-4o-mini", 0.15, 0.075, 0.15, 0.60, 1024, 128),
    Price("anthropic/claude-sonnet-4-5", 3.0, 0.30, 3.75, 15.0, 1024, 1, is_marked=True),
    Price("deepseek/deepseek-chat", 0.28, 0.028, 0.28, 0.42, 64, 64),
)
_CHARACTERS_PER_TOKEN: Final = 3.4
"""Of the prompts of the first samples with 200 skills, counted with the tokenizer of gpt-4o: 3.36."""


def _tokens(text: str) -> int:
    return round(len(text) / _CHARACTERS_PER_TOKEN)


def cost_of(calls: Sequence[Call], price: Price, *, earlier: bool = False) -> float:
    """Return what a run costs, in US dollars. Nothing falls out of the cache during the run.

    Args:
        calls: The calls, in order.
        price: What a provider charges.
        earlier: Whether to take the earlier layout, which has no marks.
    """
    previous: dict[str, str] = {}
    marked: set[str] = set()
    total = 0.0
    for call in calls:
        text = call.earlier if earlier else call.text
        read = written = 0
        if not price.is_marked:
            same = round(_same(previous.get(call.role, ""), text) / _CHARACTERS_PER_TOKEN)
            read = same - same % price.unit if same >= price.least else 0
        elif not earlier:
            ends = [call.blocks[0], call.blocks[0] + call.blocks[1]] if len(call.blocks) > 2 else [call.blocks[0]]
            cached = [end for end in ends if _tokens(end) >= price.least]
            read = max((_tokens(end) for end in cached if end in marked), default=0)
            written = max((_tokens(end) for end in cached), default=0) - read
            marked.update(cached)
        previous[call.role] = text
        rest = _tokens(text) - read - written
        total += rest * price.input + read * price.cached + written * price.write
        total += _tokens(call.answer) * price.output
    return total / 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the shares and the prices, and return the exit status."""
    parser = parser_of("prompt_reuse", __doc__)
    add_quick(parser, "12 samples, without the goal for the share")
    samples = 12 if parser.parse_args(arguments).quick else SAMPLES
    reached = True
    for size in SIZES:
        calls = replay(size, samples)
        now, earlier = repeated_shares(calls), repeated_shares(calls, earlier=True)
        print(f"{samples} samples into {size:,} skills: share of the prompts that repeats the previous one of the role")
        for name, share in now.items():
            print(f"  {name:13} {share:6.1%}   earlier layout {earlier[name]:6.1%}")
        for price in PRICES:
            cost, before = cost_of(calls, price), cost_of(calls, price, earlier=True)
            print(f"  {price.model:28} ${cost:.4f}   earlier layout ${before:.4f}   {cost / before:.0%}")
        reached = reached and (samples < SAMPLES or now["all"] >= GOAL)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())

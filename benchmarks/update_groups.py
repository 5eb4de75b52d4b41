"""Measures what it saves to ask the skill manager about several reflections in one call, and what is learned then.

60 recorded traces teach 12 rules, each five times, in three orders. The model is a function in this process that sleeps
10 ms per call. It knows a rule only if it sees it: in the skillbook of the prompt, or in an earlier reflection of the
same request. Tokens are counted by the estimate of the library. Each way of learning is also measured with four calls
at once, so that updates in parallel and updates one by one can be compared.

Exits 1 if a rule was not learned or was learned twice, if a trace failed, or if a skill has the wrong source.
"""

from __future__ import annotations

import json
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ace.protocols import LLMResponse
from ace.protocols.llm import StructuredAnswer
from ace.runners import TraceAnalyser
from ace.skillbook import Skillbook
from ace.skillbook.selection import estimate_tokens
from benchmarks.options import add_quick, parser_of
from benchmarks.wrong_result import WrongResult, require

RULES = 12
REPEATS = 5
ORDERS = (1, 2, 3)
SECONDS = 0.01
WAYS = ((1, 1), (8, 1), (1, 4), (8, 4))
"""Reflections per call, and calls at once."""


def rule(number: int) -> str:
    """Return a rule that has no word in common with another one."""
    return f"Alpha{number} beta{number} gamma{number} delta{number}."


@dataclass
class Calls:
    """The calls of one run, by the kind of the answer, and their tokens."""

    count: Counter[str] = field(default_factory=Counter)
    input_tokens: int = 0
    output_tokens: int = 0


class RuleModel:
    """A model that finds the rule of a trace, and adds it unless it sees that it is known."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls = Calls()

    def complete(self, prompt: str, **kwargs: Any) -> LLMResponse:
        raise WrongResult("only structured answers are asked for")

    def complete_structured(
        self, prompt: str, response_model: type[StructuredAnswer], **kwargs: Any
    ) -> StructuredAnswer:
        kind = response_model.__name__
        answer = json.dumps(_answer(kind, prompt))
        schema = json.dumps(response_model.model_json_schema())
        with self._lock:
            self.calls.count[kind] += 1
            self.calls.input_tokens += estimate_tokens(prompt) + estimate_tokens(schema)
            self.calls.output_tokens += estimate_tokens(answer)
        time.sleep(SECONDS)
        return response_model.model_validate_json(answer)


def _answer(kind: str, prompt: str) -> dict[str, object]:
    if kind == "ReflectorOutput":
        texts = ("reasoning", "error_identification", "root_cause_analysis", "correct_approach")
        found = rule(_rule_of(prompt))
        return {**dict.fromkeys(texts, "It did not know the rule."), "key_insight": found}
    known = {text: id for id, text in re.findall(r"\[([\w-]+)\] (Alpha\d+ [^.]*\.)", prompt)}
    if kind == "SkillManagerOutput":
        return _update(_rule_of(prompt), known)
    _, *parts = re.split(r"^## Reflection (\d+)$", prompt, flags=re.MULTILINE)
    updates: list[dict[str, object]] = []
    for number, text in zip(parts[::2], parts[1::2], strict=True):
        updates.append({"reflection": int(number), **_update(_rule_of(text), known)})
        known.setdefault(rule(_rule_of(text)), "")
    return {"updates": updates}


def _rule_of(prompt: str) -> int:
    found = re.findall(r"rule (\d+)\?", prompt)
    require(bool(found), "a prompt does not contain its trace")
    return int(found[-1])


def _update(number: int, known: dict[str, str]) -> dict[str, object]:
    operation: dict[str, object] = {"type": "ADD", "section": "rules", "content": rule(number)}
    if rule(number) in known:
        id = known[rule(number)]
        tag = {"type": "TAG", "skill_id": id, "metadata": {"helpful": 1}}
        return {"reasoning": "It is known.", "operations": [tag] if id else []}
    return {"reasoning": "It is new.", "operations": [operation]}


@dataclass(frozen=True)
class Figures:
    """What one way of learning took, summed over the orders."""

    together: int
    at_once: int
    update_calls: int
    input_tokens: int
    output_tokens: int


def learned(order: int, together: int, at_once: int) -> Calls:
    """Learn from all traces in one order, and return the calls.

    Raises:
        WrongResult: Something else was learned than each rule once, from a trace that teaches it.
    """
    numbers = [number for number in range(RULES) for _ in range(REPEATS)]
    random.Random(order).shuffle(numbers)
    traces = [
        {"question": f"What of rule {number}?", "answer": "I do not know.", "success": False, "trace_id": f"t{place}"}
        for place, number in enumerate(numbers)
    ]
    model, book = RuleModel(), Skillbook()
    runner = TraceAnalyser.from_client(model, skillbook=book, reflections_per_call=together)
    results = runner.run(traces, workers=None if at_once == 1 else at_once)
    failed = [result.error for result in results if result.error is not None]
    require(not failed, f"{len(failed)} traces failed: {failed[:1]}")
    first = {rule(number): f"t{numbers.index(number)}" for number in range(RULES)}
    found = [(skill.content, skill.sources[0].trace_id) for skill in book]
    require(
        sorted(found) == sorted(first.items()),
        f"order {order}, {together} reflections per call, {at_once} calls at once: the skills are {found}",
    )
    return model.calls


def measured(*, quick: bool) -> list[Figures]:
    """Return the figures of each way of learning.

    Raises:
        WrongResult: Something else was learned than each rule once.
    """
    rows: list[Figures] = []
    for together, at_once in WAYS:
        runs = [learned(order, together, at_once) for order in (ORDERS[:1] if quick else ORDERS)]
        count = sum((calls.count for calls in runs), Counter[str]())
        rows.append(
            Figures(
                together,
                at_once,
                count["SkillManagerOutput"] + count["UpdatesOutput"],
                sum(calls.input_tokens for calls in runs),
                sum(calls.output_tokens for calls in runs),
            )
        )
    return rows


def table(rows: Sequence[Figures], orders: int) -> str:
    """Return the figures as a Markdown table, each as the mean of the orders.

    Args:
        rows: The figures, the first ones with one reflection per call and one call at once.
        orders: The number of orders.
    """
    traces = RULES * REPEATS * orders
    lines = [
        [
            f"{row.together}",
            f"{row.at_once}",
            f"{1 + row.update_calls / traces:.2f}",
            f"{row.input_tokens / traces:,.0f}",
            f"{row.output_tokens / traces:,.0f}",
            f"{RULES} of {RULES}",
        ]
        for row in rows
    ]
    head = [
        "reflections per call",
        "calls at once",
        "calls per trace",
        "tokens in",
        "tokens out",
        "rules learned",
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures, and return the exit status."""
    parser = parser_of("update_groups", __doc__)
    add_quick(parser, "only one order")
    options = parser.parse_args(arguments)
    try:
        rows = measured(quick=options.quick)
    except WrongResult as wrong:
        print(f"WRONG: {wrong}")
        return 1
    print(table(rows, 1 if options.quick else len(ORDERS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

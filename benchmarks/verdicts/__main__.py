"""Judges 60 answers, half of which are right, as a proof does: by code, and by a model where code cannot tell.

Prints the answers that were judged wrongly, and how many were left without a verdict. Without `--model`, only code
judges. The pairs were written before the rules that judge them were changed.

Exits 1 if fewer than 57 of the verdicts are right; without a model, if a verdict is wrong that is not known to be.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ace.cases import check_for, check_of_correction
from ace.outputs import AgentOutput
from ace.proof import CaseProver
from ace.protocols import LLMClientLike
from ace.runners.learning_settings import client_from_model
from ace.skill import SkillCase
from benchmarks.options import parser_of

PAIRS = Path(__file__).with_name("pairs.jsonl")
LEAST_RIGHT = 57
"""The goal, of 60."""


@dataclass(frozen=True)
class Pair:
    """An answer to be judged."""

    kind: str
    question: str
    right: str
    answer: str
    passes: bool
    wrong: str = ""

    def case(self) -> SkillCase:
        """Return the case that the right answer makes."""
        check = check_of_correction(self.question, self.wrong, "", self.right) if self.wrong else None
        return SkillCase.make(self.question, check or check_for(self.right), wrong=self.wrong, expected=self.right)


class Saying:
    """An agent that gives one answer."""

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def generate(self, **_: Any) -> AgentOutput:
        """Give the answer."""
        return AgentOutput(reasoning="", final_answer=self._answer)


def pairs() -> list[Pair]:
    """Return the pairs."""
    return [Pair(**json.loads(line)) for line in PAIRS.read_text(encoding="utf-8").splitlines()]


def verdicts(judge: LLMClientLike | None) -> list[tuple[Pair, bool | None]]:
    """Judge all pairs."""
    return [(pair, CaseProver(Saying(pair.answer), judge=judge).outcome(pair.case(), []).passed) for pair in pairs()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures, and return the exit status."""
    parser = parser_of("verdicts", __doc__)
    parser.add_argument("--model", help="the model that judges, such as local/qwen2.5-coder-1.5b", metavar="MODEL")
    parser.add_argument("--api-base", help="the address of its server", metavar="URL")
    options: argparse.Namespace = parser.parse_args(arguments)
    address = {"api_base": options.api_base} if options.api_base else {}
    judge = client_from_model(options.model, **address) if options.model else None
    found = verdicts(judge)
    for pair, passed in found:
        if passed is not None and passed is not pair.passes:
            print(f"judged {'right' if passed else 'wrong'}: {pair.answer!r} ({pair.kind}; right is {pair.right!r})")
    right = sum(passed is pair.passes for pair, passed in found)
    left = sum(passed is None for _, passed in found)
    print(f"{right} of {len(found)} judged right, {left} not judged")
    return 0 if right >= (LEAST_RIGHT if judge is not None else LEAST_RIGHT - left) else 1


if __name__ == "__main__":
    sys.exit(main())

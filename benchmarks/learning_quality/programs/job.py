"""What a program of another method is given and returns: one JSON object in, two JSON lines out."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["NOT_INSTALLED", "Example", "Job", "carry_out", "needed"]

NOT_INSTALLED = 3
"""The exit code of a program whose package is not installed; the last line of standard error is the reason."""


@dataclass(frozen=True)
class Example:
    """One correction. What a right answer has to hold is given, as the checks of ACE have it too."""

    question: str
    wrong: str
    correction: str
    right: str
    values: tuple[str, ...]

    def passes(self, answer: str) -> bool:
        """Tell whether an answer holds all values, each as a whole word or code."""
        return all(
            re.search(rf"(?<![\w.\-/]){re.escape(value)}(?![\w\-]|\.\w)", answer, re.IGNORECASE)
            for value in self.values
        )


@dataclass(frozen=True)
class Job:
    """The corrections to learn from, the questions to answer, and the model to ask."""

    api_base: str
    examples: tuple[Example, ...]
    questions: tuple[str, ...]
    max_calls: int
    """About how many model calls learning may make."""


Answerer = Callable[[str], str]


def carry_out(learn: Callable[[Job], tuple[Answerer, str]]) -> None:
    """Read the job, learn, answer, and write both results.

    Args:
        learn: Learns, and returns what answers a question, and the text of what was learned.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # LiteLLM asks the network for prices otherwise
    values = json.load(sys.stdin)
    examples = tuple(Example(**{**example, "values": tuple(example["values"])}) for example in values["examples"])
    job = Job(values["api_base"], examples, tuple(values["questions"]), values["max_calls"])
    results = sys.stdout
    sys.stdout = sys.stderr  # some packages print their progress
    answer, text = learn(job)
    print(json.dumps({"learned": text}), file=results, flush=True)
    print(json.dumps({"answers": _answers(answer, job.questions)}), file=results, flush=True)


def _answers(answer: Answerer, questions: Sequence[str]) -> list[str]:
    found = []
    for question in questions:
        try:
            found.append(answer(question))
        except Exception as error:  # a package that cannot read the model's answer; the question counts as wrong
            print(f"no answer to {question!r}: {error!r}", file=sys.stderr)
            found.append("")
    return found


def needed(package: str) -> Any:
    """Return a package, or end the program with `NOT_INSTALLED`.

    Its types are not known here: it is in the environment of the program only.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        print(f"{package} is not installed ({error})", file=sys.stderr)
        sys.exit(NOT_INSTALLED)

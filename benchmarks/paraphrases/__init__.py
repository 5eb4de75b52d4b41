"""Lessons, questions that need them in other words, and neutral questions that need none; see `README.md`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ace.retrieval import FindsBest
from ace.skill import Skill

__all__ = ["Outcome", "Paraphrases", "load_paraphrases"]

SHOWN = 3


@dataclass(frozen=True)
class Outcome:
    """How often the right skill was among the three shown, and how often a neutral question was shown none."""

    right: int
    questions: int
    quiet: int
    neutral: int


@dataclass(frozen=True)
class Paraphrases:
    """One set."""

    skills: tuple[Skill, ...]
    questions: tuple[tuple[str, str], ...]
    """The id of the skill that answers it, and the question."""
    neutral: tuple[str, ...]

    def outcome(self, ranker: FindsBest) -> Outcome:
        """Ask a ranker for the skills to show with each question."""

        def shown(question: str) -> list[str]:
            return [skill.id for skill in ranker.best(question, self.skills, SHOWN)]

        return Outcome(
            right=sum(id in shown(question) for id, question in self.questions),
            questions=len(self.questions),
            quiet=sum(not shown(question) for question in self.neutral),
            neutral=len(self.neutral),
        )


def load_paraphrases(name: str) -> Paraphrases:
    """Read a set: `orchard`, `theatre` or `calibration`."""
    data = json.loads((Path(__file__).parent / f"{name}.json").read_text(encoding="utf-8"))
    return Paraphrases(
        skills=tuple(Skill(id, name, text) for id, text in data["lessons"].items()),
        questions=tuple((id, question) for id, question in data["questions"]),
        neutral=tuple(data["neutral"]),
    )

"""What an evaluation has to ask: each sample in each repeat, with a key that identifies what its answer depends on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from ace.context import ACESample, SelectedSkills, SkillbookView
from ace.evaluation.naming import sample_names, text_hash
from ace.skillbook import Skillbook

if TYPE_CHECKING:
    from ace.protocols.roles import Retrieval

__all__ = ["AnswerKeys", "Attempt", "attempts_at"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One sample in one repeat."""

    place: int
    """Its place among all attempts."""
    sample: ACESample
    """The sample."""
    name: str
    """The name of the sample."""
    repeat: int
    """Which of the attempts at the sample this is, from 1."""
    key: str
    """A hash of all that the answer depends on; empty where no file keeps the answers."""


def attempts_at(samples: Sequence[ACESample], repeats: int, keys: AnswerKeys | None = None) -> list[Attempt]:
    """Return the attempts in the order of the samples; the repeats of a sample follow each other.

    Args:
        samples: The samples.
        repeats: How often each sample is answered.
        keys: Makes the keys.
    """
    attempts: list[Attempt] = []
    for sample, name in zip(samples, sample_names(samples), strict=True):
        skills = "" if keys is None else keys.skills_for(sample)
        for repeat in range(1, repeats + 1):
            texts = (skills, name, str(repeat), sample.question, sample.context, sample.ground_truth)
            attempts.append(Attempt(len(attempts), sample, name, repeat, "" if keys is None else text_hash(*texts)))
    return attempts


@final
class AnswerKeys:
    """What answers depend on beside their samples.

    Args:
        book: The skills.
        retrieval: Chooses the skills that an agent sees; then an answer depends on these only.
        label: What else they depend on.
    """

    def __init__(self, book: Skillbook, retrieval: Retrieval | None, label: str) -> None:
        self._view = SkillbookView(book)
        self._retrieval = retrieval
        self._label = label
        self._whole_book = text_hash(label, book.as_prompt()) if retrieval is None else ""

    def skills_for(self, sample: ACESample) -> str:
        """Return a hash of the skills that the agent sees with a sample, and of the label."""
        if self._retrieval is None:
            return self._whole_book
        try:
            chosen = SelectedSkills(self._view, self._retrieval(sample.question, self._view)).as_prompt()
        except Exception:
            chosen = ""  # AgentStep meets it again and reports it with the sample; failed answers are not used again
        return text_hash(self._label, chosen)

"""An agent whose model only chooses the next thing from a menu."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field

from ace.protocols import LLMClientLike, UnusableAnswerError
from benchmarks.sleep.acting import Situation
from benchmarks.sleep.samples import Option

__all__ = ["ModelAgent"]

_PROMPT: Final = """\
You work in a software project. Choose what to do next.

Instructions of the project:
{instructions}

Task: {task}

Done so far:
{log}

What you can do next:
{menu}

Answer with the number of one of them."""
_LONGEST: Final = 300


class _Choice(BaseModel):
    number: int = Field(description="The number of what to do next.")


class ModelAgent:
    """Asks a model for each choice; equal questions are asked once.

    Args:
        client: The model.
    """

    def __init__(self, client: LLMClientLike) -> None:
        self._client = client
        self._known: dict[str, int] = {}
        self.unusable = 0
        """How many answers named nothing of the menu; the first of it was taken then."""

    @property
    def calls(self) -> int:
        """How many questions were asked."""
        return len(self._known)

    def choose(self, situation: Situation) -> Option:
        """Return what the model chooses."""
        prompt = _PROMPT.format(
            instructions=situation.instructions.strip() or "(none)",
            task=situation.prompt.text,
            log="\n".join(
                f"- {done.option.shown}: exit code {done.result.code} {done.result.output[-_LONGEST:]}".rstrip()
                for done in situation.log
            )
            or "(nothing)",
            menu="\n".join(f"{number}. {option.shown}" for number, option in enumerate(situation.menu, 1)),
        )
        if prompt not in self._known:
            self._known[prompt] = self._asked(prompt, len(situation.menu))
        return situation.menu[self._known[prompt] - 1]

    def _asked(self, prompt: str, most: int) -> int:
        if most == 1:
            return 1
        try:
            number = self._client.complete_structured(prompt, _Choice).number
        except UnusableAnswerError:
            number = 0
        if not 1 <= number <= most:
            self.unusable += 1
            return 1
        return number

"""The model that learns from sessions: the proposed models, their prices, and the cost of a session."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from ace.providers import ModelPrice, price_of_model
from ace.runners import spend_of_days
from ace_claude_code.sessions.home import learned_path
from ace_claude_code.sessions.learned import read_learned
from ace_claude_code.sessions.settings import DEFAULT_MODEL, OWN_PREFIX

__all__ = [
    "PROPOSED_MODELS",
    "SessionUse",
    "own_model",
    "price_of_learner",
    "use_of_a_session",
]

PROPOSED_MODELS = (DEFAULT_MODEL, f"{OWN_PREFIX}sonnet", f"{OWN_PREFIX}opus", "openai/gpt-4o-mini")

# The full names of Claude Code's short names (release 2.1.329), which the price list contains.
_FULL_NAMES = {"haiku": "claude-haiku-5-5", "sonnet": "claude-sonnet-5-5", "opus": "claude-opus-5-5"}
_DAYS = 30
_FEWEST_SESSIONS = 5


class SessionUse(NamedTuple):
    """The number of tokens that learning from a session uses."""

    input_tokens: int
    output_tokens: int
    origin: str
    """The source of the numbers, as text."""

    def cost(self, price: ModelPrice) -> float:
        """Return the cost at a price, in US dollars."""
        return (self.input_tokens * price.input_usd + self.output_tokens * price.output_usd) / 1e6


# The tokens in were measured with the prompts of the learner and Anthropic's tokenizer, on a session of the shape that
# `benchmarks.transcripts` writes: 5 turns, each with 8 calls of tools that print 3,700 characters, and a skillbook of
# 50 skills. That makes 10 calls with 63,206 tokens in. The length of an answer depends on the model; 500 tokens are
# assumed.
_MEASURED = SessionUse(
    63_000, 5_000, "measured for 5 turns with 8 tool calls each, and 500 tokens assumed for each of the 10 answers"
)


def own_model(model: str) -> str | None:
    """Return the name of the model in Claude Code, empty for its default; None for other models.

    Args:
        model: The model of the settings.

    Example:
        >>> own_model("claude_code/haiku"), own_model(""), own_model("openai/gpt-4o-mini")
        ('haiku', '', None)
    """
    if not model:
        return ""
    return model.removeprefix(OWN_PREFIX) if model.startswith(OWN_PREFIX) else None


def price_of_learner(model: str) -> ModelPrice | None:
    """Return the list price of a model, or None if it is not known.

    Args:
        model: The model of the settings.

    Example:
        >>> price_of_learner("claude_code/haiku") is not None, price_of_learner("claude_code/default")
        (True, None)
    """
    own = own_model(model)
    return price_of_model(model if own is None else _FULL_NAMES.get(own, own))


def use_of_a_session(state: Path) -> SessionUse:
    """Return the number of tokens that learning from an ordinary session uses.

    This is the mean of the sessions learned on this machine in the last 30 days or, without any, a measured value.

    Args:
        state: The folder of the state.
    """
    spent = spend_of_days(state, _DAYS)
    sessions = len(_recent_sessions(state))
    if sessions < _FEWEST_SESSIONS or not spent.input_tokens:
        return _MEASURED
    origin = f"the mean of {sessions} sessions that were learned from in the last {_DAYS} days"
    return SessionUse(spent.input_tokens // sessions, spent.output_tokens // sessions, origin)


def _recent_sessions(state: Path) -> Sequence[str]:
    first = (datetime.now(UTC) - timedelta(days=_DAYS)).isoformat(timespec="seconds")
    turns = (turn for folder in state.glob("projects/*") for turn in read_learned(learned_path(state, folder.name)))
    return sorted({turn.session_id for turn in turns if turn.at >= first})

"""The settings that the user chose at the installation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ace.integrations import Record, list_in, number_in, replace_file, text_in
from ace_claude_code.sessions.home import repository_of

__all__ = [
    "DEFAULT_BUDGET_USD",
    "DEFAULT_MODEL",
    "OWN_PREFIX",
    "SessionSettings",
    "SettingsError",
    "read_settings",
    "write_settings",
]

_FILE = "settings.json"
_SCHEMA = 1
DEFAULT_BUDGET_USD = 1.0
"""In US dollars per day."""
OWN_PREFIX = "claude_code/"
"""The prefix of models that are called through Claude Code, with the user's login."""
DEFAULT_MODEL = f"{OWN_PREFIX}haiku"
"""The cheapest model that only needs the login."""


class SettingsError(ValueError):
    """The file with the settings cannot be read."""


@dataclass(frozen=True)
class SessionSettings:
    """The settings of the learner."""

    model: str = DEFAULT_MODEL
    """The model that learns; empty for the default model of Claude Code, which earlier releases used."""
    api_base: str = ""
    """The base URL of an OpenAI-compatible server for that model."""
    claude: str = ""
    """The path of the binary; empty if it is not needed."""
    budget_tokens: int = 2000
    """The maximum size of the skills in the prompt of a session, in tokens."""
    budget_usd: float = DEFAULT_BUDGET_USD
    """The daily limit on the cost of automatic learning, in US dollars."""
    projects: tuple[str, ...] = ()
    """The projects whose sessions are learned from; empty for all."""

    def takes(self, folder: Path) -> bool:
        """Return whether sessions in a folder are learned from.

        Args:
            folder: The folder in which a session runs.
        """
        found = folder.resolve()
        places = (found, repository_of(found))  # a worktree may be anywhere
        return not self.projects or any(place.is_relative_to(project) for place in places for project in self.projects)


def read_settings(state: Path) -> SessionSettings | None:
    """Return the settings; None if nothing is installed.

    Args:
        state: The folder of the settings.

    Raises:
        SettingsError: The file is broken.
    """
    path = state / _FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise SettingsError(f"{path} is not JSON ({error}); run 'ace claude-code install' again") from None
    if not isinstance(data, dict) or data.get("schema") != _SCHEMA:
        raise SettingsError(f"{path} was written by another release; run 'ace claude-code install' again")
    return SessionSettings(
        model=text_in(data, "model"),
        api_base=text_in(data, "api_base"),
        claude=text_in(data, "claude"),
        budget_tokens=int(number_in(data, "budget_tokens") or 0),
        budget_usd=_budget_in(data),
        projects=tuple(str(project) for project in list_in(data, "projects")),
    )


def _budget_in(data: Record) -> float:
    budget = number_in(data, "budget_usd")  # earlier releases had no budget
    return DEFAULT_BUDGET_USD if budget is None else budget


def write_settings(state: Path, settings: SessionSettings) -> None:
    """Write the settings.

    Args:
        state: The folder of the settings.
    """
    text = json.dumps({"schema": _SCHEMA, **asdict(settings)}, indent=2, ensure_ascii=False)
    replace_file(state / _FILE, f"{text}\n".encode())

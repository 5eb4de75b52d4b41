"""Puts the settings together from all their sources."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ace.cli.errors import UsageError
from ace.cli.settings.fields import FIELDS, SettingField, SettingValue
from ace.cli.settings.files import FileValue, read_settings_file
from ace.cli.settings.places import project_file, user_file
from ace.skill import Provenance
from ace.steps.copy_guard import GuardedKind

__all__ = ["Settings", "load_settings"]

# fmt: off
_PROJECT_PROVIDERS: Final = frozenset({
    "anthropic", "azure", "cerebras", "cohere", "cohere_chat", "dashscope", "deepinfra", "deepseek", "fireworks_ai",
    "gemini", "groq", "hosted_vllm", "lm_studio", "mistral", "moonshot", "nvidia_nim", "ollama", "ollama_chat",
    "openai", "openrouter", "perplexity", "sambanova", "together_ai", "xai",
})
# fmt: on
"""The providers that the file of a project may name.

Their host is fixed, or comes from the user's environment; no part of the model's name becomes a part of it. (With some
other providers, a name can be an address, the first label of a host, or the path of a file to load.) A test checks the
host of each.
"""
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]{0,199}(?:/[A-Za-z0-9][A-Za-z0-9._:@+-]{0,199}){0,3}")
_KNOWN_NAME: Final = re.compile(r"(?:gpt-|chatgpt-|o[1-9]|claude-)[A-Za-z0-9._:-]{0,100}")
"""What LiteLLM gives to OpenAI or Anthropic without a provider before it."""
_LOCAL_ADDRESS: Final = re.compile(r"https?://(\[[0-9a-f:]{2,39}\]|[0-9.]{7,15}|localhost)(?::\d{1,5})?(?:/[\w./~-]*)?")
"""Only this form: where an address has a user, a backslash or blanks, libraries differ about its host."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one command, and where each came from."""

    model: str | None
    """The model string; None leaves the choice to the key-free default."""
    api_base: str | None
    """The address of your own server."""
    api_key: str | None = field(repr=False)
    """The key, where it is not in the variable of the provider."""
    skillbook: str
    """The path of the skillbook, or `scheme://...`."""
    max_tokens: int
    """The maximum length of an answer, in tokens."""
    temperature: float
    """The sampling temperature."""
    timeout: float
    """How long one request to the model may take until its answer is complete, in seconds."""
    epochs: int
    """The number of passes over the inputs."""
    workers: int | None
    """The number of inputs to process at once; None is the default of the runner."""
    lag: int | None
    """How many earlier inputs may not yet be learned from when an input starts; None is the default of the runner."""
    max_input_mb: float
    """The size of the largest file or stream that is read, in megabytes."""
    max_cost: float | None
    """The cost in USD at which a run starts no new inputs."""
    allow: str | None
    """The classes of sensitive text to leave alone, separated by commas; None for none."""
    provenance: Provenance
    """What is kept of a trace besides the skills that it taught."""
    origins: Mapping[str, str]
    """Where each value came from, by name, in words for people."""

    @property
    def max_input_bytes(self) -> int:
        """The size of the largest file or stream that is read."""
        return int(self.max_input_mb * 1_000_000)

    @property
    def allowed(self) -> list[GuardedKind]:
        """The words of `allow`."""
        words: list[Any] = [] if self.allow is None else self.allow.split(",")  # each was checked against its field
        return words


def load_settings(
    flags: Mapping[str, SettingValue], *, environ: Mapping[str, str] | None = None, folder: Path | None = None
) -> Settings:
    """Put the settings together: defaults < user file < project file < environment < flags.

    Args:
        flags: The values of the flags by name; None where a flag was not given.
        environ: The environment; by default that of the process.
        folder: Where the command runs; by default the current folder.

    Raises:
        UsageError: A source holds an unknown name or a value that is out of range.
    """
    variables = os.environ if environ is None else environ
    values: dict[str, SettingValue] = {each.name: each.default for each in FIELDS}
    origins = dict.fromkeys(values, "default")
    user = user_file(variables)
    if user.is_file():
        _take_file(user, read_settings_file(user), values, origins)
    project = project_file(Path.cwd() if folder is None else folder)
    if project is not None:
        _take_file(project, _trusted(project, read_settings_file(project)), values, origins)
    for each in FIELDS:
        if variables.get(each.variable):
            values[each.name] = _from_variable(each, variables[each.variable])
            origins[each.name] = f"variable {each.variable}"
        if flags.get(each.name) is not None:
            values[each.name] = _from_flag(each, flags[each.name])
            origins[each.name] = f"flag {_flag(each)}"
    found: dict[str, Any] = {**values, "origins": origins}  # each value was checked against its field
    return Settings(**found)


def _take_file(
    path: Path, entries: Mapping[str, FileValue], values: dict[str, SettingValue], origins: dict[str, str]
) -> None:
    from ace.skillbook.stores import has_scheme

    for name, (value, line) in entries.items():
        values[name] = value
        if name == "skillbook" and isinstance(value, str) and not has_scheme(value):
            values[name] = str(path.parent / Path(value).expanduser())
        origins[name] = f"{path}, line {line}"


def _trusted(path: Path, entries: Mapping[str, FileValue]) -> Mapping[str, FileValue]:
    """Refuse what would let a cloned project take the user's key, or send the user's traces to its author."""
    refusals: dict[str, Callable[[str], str | None]] = {
        "api_key": _problem_with_key,
        "api_base": _problem_with_address,
        "model": _problem_with_model,
        "skillbook": _problem_with_skillbook,
        "allow": _problem_with_allowed,
        "provenance": _problem_with_provenance,
    }
    for name, problem_with in refusals.items():
        if name not in entries:
            continue
        value, line = entries[name]
        if value is not None and (problem := problem_with(str(value))):
            raise UsageError(
                f"{path}, line {line}: {problem}; put {name!r} into your own settings file ('ace config' shows "
                f"where it is) or the variable ACE_{name.upper()}{_or_flag(name)}"
            )
    return entries


def _or_flag(name: str) -> str:
    """Return the option as a third place; there is none for a key, which would show in the list of processes."""
    return "" if name == "api_key" else f", or give --{name.replace('_', '-')}"


def _problem_with_key(_key: str) -> str:
    return "a key does not belong in the file of a project"


def _problem_with_address(address: str) -> str | None:
    if _is_this_machine(address):
        return None
    return "'api_base' in the file of a project may only name this machine, since your key and your traces go there"


def _problem_with_skillbook(location: str) -> str | None:
    from ace.skillbook.stores import has_scheme

    if not has_scheme(location):
        return None
    return "'skillbook' in the file of a project may only name a file, since questions from your traces go there"


def _problem_with_allowed(words: str) -> str | None:
    private = [word for word in words.split(",") if not word.startswith("copied_")]
    if not private:
        return None
    return f"'allow' in the file of a project may not contain {private[0]!r}, since your own data would be sent"


def _problem_with_provenance(provenance: str) -> str | None:
    if provenance == "ids":
        return None
    return (
        f"'provenance' in the file of a project may not be {provenance!r}, since it would keep texts that your own "
        "settings may not allow"
    )


def _problem_with_model(model: str) -> str | None:
    """Say why a project may not name this model, or return None.

    It goes by what is known to be safe: plugins and LiteLLM read addresses and paths out of model strings in more ways
    than anyone can list.
    """
    provider, slash, name = model.partition("/")
    if not slash:
        is_safe = _KNOWN_NAME.fullmatch(model) is not None
    elif provider == "local":
        from ace.providers.local.catalogue import CATALOGUE

        is_safe = any(name == each.name for each in CATALOGUE)
    else:
        is_safe = provider in _PROJECT_PROVIDERS and _PLAIN_NAME.fullmatch(name) is not None
    if is_safe:
        return None
    return (
        f"'model' in the file of a project may only be a hosted model such as openai/NAME or anthropic/NAME, or one of "
        f"'ace models list', since your traces go there; {model!r} may hold an address or a path"
    )


def _is_this_machine(address: str) -> bool:
    found = _LOCAL_ADDRESS.fullmatch(address)
    if found is None:
        return False
    try:
        return found[1] == "localhost" or ipaddress.ip_address(found[1].strip("[]")).is_loopback
    except ValueError:
        return False


def _from_variable(each: SettingField, text: str) -> SettingValue:
    try:
        return each.parsed(text)
    except ValueError as error:
        raise UsageError(f"the variable {each.variable} {error}") from error


def _from_flag(each: SettingField, value: SettingValue) -> SettingValue:
    try:
        return each.checked(value)
    except ValueError as error:
        raise UsageError(f"the option {_flag(each)} {error}") from error


def _flag(each: SettingField) -> str:
    return f"--{each.name.replace('_', '-')}"

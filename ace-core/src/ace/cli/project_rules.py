"""What the `ace.toml` of a project may set, so that a cloned project cannot steal the user's key or traces."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ace._internal.loopback import is_loopback
from ace._internal.options import ProjectRule, inside_project

__all__ = ["ADDRESS_ON_THIS_MACHINE", "HOSTED_MODEL", "OWN_SKILLBOOK", "PROJECT_PROVIDERS"]

# fmt: off
PROJECT_PROVIDERS: Final = frozenset({
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


def _problem_of_address(name: str, address: str, _project: Path) -> str | None:
    if _is_this_machine(address):
        return None
    return f"{name!r} in the file of a project may only name this machine, since your traces go there"


def _problem_of_skillbook(name: str, location: str, project: Path) -> str | None:
    from ace.skillbook.locations import has_scheme

    if has_scheme(location):
        return f"{name!r} in the file of a project may only name a file, since questions from your traces go there"
    return _INSIDE.problem(name, location, project)


def _problem_of_model(name: str, model: str, _project: Path) -> str | None:
    # It goes by what is known to be safe: plugins and LiteLLM read addresses and paths out of model strings in more
    # ways than anyone can list.
    provider, slash, rest = model.partition("/")
    if not slash:
        is_safe = _KNOWN_NAME.fullmatch(model) is not None
    elif provider == "local":
        from ace.providers.local.catalogue import CATALOGUE

        is_safe = any(rest == known.name for known in CATALOGUE)
    else:
        is_safe = provider in PROJECT_PROVIDERS and _PLAIN_NAME.fullmatch(rest) is not None
    if is_safe:
        return None
    return (
        f"{name!r} in the file of a project may only be a hosted model such as openai/NAME or anthropic/NAME, or one "
        f"of 'ace models list', since your traces go there; {model!r} may hold an address or a path"
    )


def _is_this_machine(address: str) -> bool:
    found = _LOCAL_ADDRESS.fullmatch(address)
    return found is not None and is_loopback(found[1].strip("[]"))


_INSIDE: Final = inside_project("file", "it could be a skillbook of yours, with skills that are not for the project")
OWN_SKILLBOOK: Final = ProjectRule(_INSIDE.allowed, _problem_of_skillbook)
"""The rule for the skillbook."""
ADDRESS_ON_THIS_MACHINE: Final = ProjectRule("an address on this machine, which gets no key", _problem_of_address)
"""The rule for the address of the model. On a shared machine, any user can listen there, so no key is sent."""
HOSTED_MODEL: Final = ProjectRule("a hosted model such as openai/NAME, or one of `ace models list`", _problem_of_model)
"""The rule for the model."""

"""Looks up the provider, limits and prices of a model in LiteLLM's table of models, without importing LiteLLM.

The table is a JSON file of three megabytes in LiteLLM's package. One entry is found in it as text, which takes a
tenth of the time of reading it all. Where LiteLLM is imported, its own copy counts: a program may have added models.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["is_alias", "listed_model", "model_entry"]

_FILE = "model_prices_and_context_window_backup.json"
_START = b'{\n    "'
_INDENT = b"\n    "


def listed_model(model: str) -> Mapping[str, Any]:
    """Return the entry of a model string, with or without its prefix; an empty one if the model is not listed.

    Args:
        model: A model string.

    Example:
        >>> listed_model("openai/gpt-4o-mini")["litellm_provider"], listed_model("openai/of-my-own-server")
        ('openai', {})
    """
    return model_entry(model) or model_entry(model.partition("/")[2])


def model_entry(name: str) -> Mapping[str, Any]:
    """Return the entry under exactly this name; an empty one if there is none.

    Args:
        name: A name of the table.

    Example:
        >>> model_entry("gpt-4o-mini")["max_input_tokens"]
        128000
    """
    models = getattr(sys.modules.get("litellm"), "model_cost", None)
    if isinstance(models, Mapping):
        known: Mapping[str, Any] = models.get(name) or {}
        return known
    entry = _entry_of_file(name)
    target = entry.get("alias_of")
    return _entry_of_file(target) if isinstance(target, str) else entry


def is_alias(name: str) -> bool:
    """Return whether the table lists a name as another name of a model, by which LiteLLM replaces it in requests.

    Args:
        name: A name of the table.

    Example:
        >>> is_alias("gpt-4o-mini")
        False
    """
    return "alias_of" in _entry_of_file(name)


@functools.lru_cache(maxsize=64)
def _entry_of_file(name: str) -> Mapping[str, Any]:
    path = _path()
    if not name or path is None:
        return {}
    table = path.read_bytes()
    if not table.startswith(_START):  # written in another style
        return _whole_table().get(name) or {}
    key = _INDENT + json.dumps(name, ensure_ascii=False).encode() + b": {"
    start = table.find(key)
    if start < 0:  # one entry may be written in another style than the rest
        return _whole_table().get(name) or {} if json.dumps(name).encode() + b":" in table else {}
    end = table.index(_INDENT + b"}", start)
    entry: Mapping[str, Any] = json.loads(table[start + len(key) - 1 : end + len(_INDENT) + 1])
    return entry


@functools.lru_cache(maxsize=1)
def _whole_table() -> Mapping[str, Mapping[str, Any]]:
    path = _path()
    table: Mapping[str, Mapping[str, Any]] = {} if path is None else json.loads(path.read_bytes())
    return table


@functools.lru_cache(maxsize=1)
def _path() -> Path | None:
    """Return the path of the file; None if LiteLLM is not installed, or has it elsewhere."""
    spec = importlib.util.find_spec("litellm")  # imports nothing, since it is a package at the top
    for folder in () if spec is None else spec.submodule_search_locations or ():
        if (path := Path(folder) / _FILE).is_file():
            return path
    return None

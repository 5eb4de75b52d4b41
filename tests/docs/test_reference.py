"""The reference leaves out nothing that is public."""

import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import ace

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
PUBLIC_MODULES = ["ace"] + [
    module.name for module in pkgutil.iter_modules(ace.__path__, "ace.") if not module.name.startswith("ace._")
]
INTEGRATIONS = [
    "ace_beads",
    "ace_browser_use",
    "ace_claude_code",
    "ace_langchain",
    "ace_mcp",
    "ace_openclaw",
    "ace_opik",
    "ace_otel",
    "ace_postgres",
    "ace_proxy",
    "ace_server",
    "ace_sleep",
]


def undocumented(module_name: str) -> list[str]:
    """The public classes and functions of a module that have no docstring of their own."""
    module = importlib.import_module(module_name)
    public: dict[str, object] = {name: getattr(module, name) for name in getattr(module, "__all__", [])}
    return [
        name
        for name, value in public.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and not has_own_docstring(name, value)
    ]


def has_own_docstring(name: str, value: object) -> bool:
    # A dataclass without a docstring is given its signature for one.
    return bool(value.__doc__) and not str(value.__doc__).startswith(f"{name}(")


def test_every_public_module_has_a_page() -> None:
    lines = {line for page in REFERENCE.glob("*.md") for line in page.read_text(encoding="utf-8").splitlines()}
    modules = PUBLIC_MODULES + INTEGRATIONS
    assert [module for module in modules if f".. automodule:: {module}" not in lines] == []


def test_every_public_name_is_listed_before_it_is_loaded() -> None:
    # The reference and the completion of an interactive Python go by dir().
    unlisted = {}
    for name in PUBLIC_MODULES + INTEGRATIONS:
        module = importlib.import_module(name)
        unlisted[name] = set(getattr(module, "__all__", [])) - set(dir(module))
    assert {name: missing for name, missing in unlisted.items() if missing} == {}


def test_every_public_name_has_a_docstring() -> None:
    assert [f"{module}.{name}" for module in PUBLIC_MODULES + INTEGRATIONS for name in undocumented(module)] == []


def test_a_name_without_a_docstring_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "undocumented_example.py").write_text(
        "from dataclasses import dataclass\n__all__ = ['Bare', 'told', 'silent']\n"
        "@dataclass\nclass Bare:\n    x: int\ndef told():\n    'Has one.'\ndef silent():\n    pass\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert undocumented("undocumented_example") == ["Bare", "silent"]

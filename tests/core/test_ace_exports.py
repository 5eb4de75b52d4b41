"""What can be imported from `ace`, and what that loads."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ace
from tests.support.subprocesses import run_python

NAMES = [
    "Pipeline",
    "Branch",
    "MergeStrategy",
    "StepProtocol",
    "StepContext",
    "SampleResult",
    "ACEStepContext",
    "SkillbookView",
    "Skillbook",
    "Skill",
    "UpdateBatch",
    "UpdateOperation",
    "ACERunner",
    "ACE",
    "TraceAnalyser",
    "ACELiteLLM",
    "Agent",
    "Reflector",
    "SkillManager",
    "Sample",
    "TaskEnvironment",
    "SimpleEnvironment",
    "EnvironmentResult",
    "LiteLLMClient",
    "wrap_with_instructor",
    "learning_tail",
    "AgentStep",
    "EvaluateStep",
    "ReflectStep",
    "TagStep",
    "UpdateStep",
    "ApplyStep",
    "DeduplicateStep",
    "CheckpointStep",
    "ObservabilityStep",
    "LoadTracesStep",
    "PersistStep",
    "ExportSkillbookMarkdownStep",
]


def test_the_implementations_are_the_roles() -> None:
    from ace import implementations, roles

    assert all(getattr(implementations, name) is getattr(roles, name) for name in roles.__all__)
    assert set(roles.__all__) <= set(dir(implementations))
    with pytest.raises(AttributeError, match="AgentX"):
        _ = implementations.AgentX


def test_every_name_of_the_contract_resolves() -> None:
    assert [getattr(ace, name).__name__ for name in NAMES] == NAMES
    assert set(NAMES) <= set(ace.__all__)


def test_everything_listed_resolves() -> None:
    assert set(ace.__all__) <= set(dir(ace))
    assert [name for name in ace.__all__ if getattr(ace, name, None) is None] == []


PACKAGES = [
    path.stem
    for path in sorted(Path(ace.__file__).parent.iterdir())
    if (path.suffix == ".py" or (path / "__init__.py").exists()) and not path.name.startswith("_")
]
OWN = {"arguments"}
"""What is for ace alone."""


def test_every_package_is_reached_through_ace() -> None:
    names = [name for name in PACKAGES if name not in OWN]
    # Importing one package loads others, so that each is reached in a state of its own: as if none had been used.
    code = (
        "import importlib, sys\n"
        f"for name in {names}:\n"
        "    for loaded in [module for module in sys.modules if module.partition('.')[0] == 'ace']:\n"
        "        del sys.modules[loaded]\n"
        "    print(getattr(importlib.import_module('ace'), name).__name__)\n"
    )
    assert run_python(code).stdout.split() == [f"ace.{name}" for name in names]


REPOSITORY = Path(__file__).parents[2]
IMPORT = re.compile(r"^[ >]*from (ace(?:\.[a-z_.]+)?) import (\([^)]*\)|[^\n#]*)", re.MULTILINE)
MEASURING = ("ace.cases", "ace.evaluation", "ace.proof", "ace.protocols.observers")
SPECIAL = (
    "ace.logs",
    "ace.loop",
    "ace.plugins",
    "ace.rr",
    "ace.testing",
    "ace.providers.local",
    *MEASURING,
)
"""Packages for people who extend, measure or watch, or read one format: their names stay in them, but for the few that
`ace` lists."""
IN_THEIR_PACKAGE = {"artifacts_in", "has_run", "unfinished_runs", "skill_use", "json", "max_chars", "not_empty"}


def shown_imports() -> Iterator[tuple[str, str]]:
    """Yield what the READMEs, the docs and the examples import, as module and name."""
    pages = [REPOSITORY / "README.md", *REPOSITORY.glob("ace-*/README.md")]
    pages += [*(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "examples").rglob("*.md")]
    pages += (REPOSITORY / "examples").rglob("*.py")
    for page in pages:
        for module, names in IMPORT.findall(page.read_text(encoding="utf-8")):
            for name in names.strip("()").split(","):
                if name.strip():
                    yield module, name.split(" as ")[0].strip()


def test_what_the_documentation_imports_is_there_and_in_ace() -> None:
    shown = sorted(set(shown_imports()))
    assert len(shown) > 50
    for module, name in shown:
        found = getattr(importlib.import_module(module), name)
        if not module.startswith(SPECIAL) and name not in IN_THEIR_PACKAGE:
            assert getattr(ace, name) is found, f"{name} of {module} cannot be imported from ace"


def test_what_a_first_program_needs_is_listed() -> None:
    names = {"LLMResponse", "AgentOutput", "DeduplicationConfig", "wrap_skillbook_context", "LLMCallError", "RoleError"}
    assert names <= set(ace.__all__)


def test_the_classes_of_the_integrations_are_where_the_specification_says() -> None:
    assert ace.runners.LangChain is ace.LangChain
    assert ace.providers.LangChainLiteLLMClient.__name__ == "LangChainLLMClient"
    assert ace.providers.ClaudeCodeLLMClient.__name__ == "ClaudeCodeLLMClient"
    assert ace.providers.LLMResponse is ace.LLMResponse


@pytest.mark.parametrize(
    ("name", "distribution"),
    [("LangChainLiteLLMClient", "ace-langchain"), ("ClaudeCodeLLMClient", "ace-claude-code")],
)
def test_a_client_that_is_not_installed_is_named(name: str, distribution: str) -> None:
    package = distribution.replace("-", "_")
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"try:\n    from ace.providers import {name}\nexcept ImportError as error:\n    print(error)"
    )
    assert f"install it with: pip install {distribution}" in run_python(code).stdout


def test_older_names_of_methods() -> None:
    operation = {"type": "ADD", "section": "a", "content": "b"}
    assert ace.UpdateOperation.from_json(operation) == ace.UpdateOperation.from_dict(operation)
    assert ace.UpdateBatch.from_json([operation]) == ace.UpdateBatch.from_dict([operation])
    facade = ace.ACELiteLLM.from_model("gpt-4o-mini")
    assert facade.is_learning is facade.learning_enabled is True


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'ace' has no attribute 'Nonsense'"):
        _ = getattr(ace, "Nonsense")  # noqa: B009  (mypy knows that it is not there)


HEAVY = ["litellm", "openai", "instructor", "numpy", "pydantic", "sqlite3"]


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import ace", []),
        ("import ace; ace.Pipeline", []),
        ("import ace; ace.Skillbook()", []),
        ("import ace; ace.ACE; ace.TraceAnalyser; ace.ACELiteLLM; ace.learning_tail", []),
        ("import ace; ace.ACE.from_model('gpt-4o-mini')", ["pydantic"]),
    ],
)
def test_nothing_heavy_is_loaded(code: str, allowed: list[str]) -> None:
    done = run_python(f"import sys\n{code}\nprint(*(name for name in {HEAVY} if name in sys.modules))")
    assert done.stdout.split() == allowed

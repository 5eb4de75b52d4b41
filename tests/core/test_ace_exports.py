"""What can be imported from `ace`, and what that loads."""

from __future__ import annotations

import importlib
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


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_contract_resolves(name: str) -> None:
    assert getattr(ace, name).__name__ == name
    assert name in ace.__all__
    assert name in dir(ace)


@pytest.mark.parametrize("name", [name for name in ace.__all__ if name != "__version__"])
def test_everything_listed_resolves(name: str) -> None:
    assert getattr(ace, name) is getattr(importlib.import_module("ace"), name)


PACKAGES = [
    path.stem
    for path in sorted(Path(ace.__file__).parent.iterdir())
    if path.suffix in ("", ".py") and not path.name.startswith("_")
]
OWN = {"arguments", "lazy_plugins"}
"""What is for ace alone."""


@pytest.mark.parametrize("name", [name for name in PACKAGES if name not in OWN])
def test_every_package_is_reached_through_ace(name: str) -> None:
    code = f"import ace; print(ace.{name}.__name__)"
    assert run_python(code).stdout == f"ace.{name}\n"


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

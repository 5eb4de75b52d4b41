"""Writes `reference/conformance-checks.md` from the suites and their mutants: `python -m docs.conformance_table`."""

import inspect
from pathlib import Path

from ace import testing
from tests.core.testing.mutants import MUTANTS

PAGE = Path(__file__).parent / "reference" / "conformance-checks.md"
SUITES = (
    testing.PluginConformance,
    testing.ExecuteStepConformance,
    testing.TraceConverterConformance,
    testing.LogReaderConformance,
    testing.RunnerConformance,
    testing.LLMClientConformance,
    testing.EmbedderConformance,
    testing.ObserverConformance,
    testing.ExtraStepsConformance,
    testing.StoreConformance,
    testing.CommandConformance,
    testing.IntegrationConformance,
)

HEAD = """\
# Checks of the conformance kit

This page is generated from the source by `python -m docs.conformance_table`.

Each check of [`ace.testing`](testing.md) is listed with the mutants that it catches, which are deliberately wrong
plugins. The tests of the kit run every mutant through all suites: exactly the check in its row fails. If a check
depends on another one that fails, it is skipped and says so.
"""


def page() -> str:
    """The page that the source yields."""
    return "\n".join([HEAD, *map(suite_section, SUITES)])


def suite_section(suite: type[testing.Conformance]) -> str:
    """The part on one suite: its fixtures, and a table of its checks."""
    rows = [
        f"| `{name}` | {first_line(check)} | {mutants_of(suite, name)} |"
        for name, check in vars(suite).items()
        if name.startswith("test_")
    ]
    lines = [f"## {suite.__name__}\n", f"{inspect.getdoc(suite)}\n", "| check | holds if | mutants |", "|---|---|---|"]
    return "\n".join([*lines, *rows, ""])


def first_line(check: object) -> str:
    return (inspect.getdoc(check) or "").splitlines()[0]


def mutants_of(suite: type[testing.Conformance], name: str) -> str:
    return "<br>".join(mutant.wrong for mutant in MUTANTS if mutant.check == f"{suite.__name__}.{name}")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

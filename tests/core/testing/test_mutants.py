"""Every check of the kit is proved: it passes correct plugins, and fails the mutants that are made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace import testing
from tests.core.testing.correct_plugins import CORRECT, Edit
from tests.core.testing.mutant_run import check_plugin
from tests.core.testing.mutants import MUTANTS, Mutant

# The template's plugin gives what these are about.
ALWAYS = (
    testing.PluginConformance,
    testing.ExecuteStepConformance,
    testing.TraceConverterConformance,
    testing.RunnerConformance,
)
OTHERS = (
    testing.LLMClientConformance,
    testing.EmbedderConformance,
    testing.ObserverConformance,
    testing.ExtraStepsConformance,
    testing.StoreConformance,
    testing.CommandConformance,
    testing.IntegrationConformance,
)

MORE = {"with_every_other_kind": OTHERS, "with_a_log_reader": (testing.LogReaderConformance,)}


def checks_of(suites: tuple[type[testing.Conformance], ...]) -> set[str]:
    return {f"{suite.__name__}.{name}" for suite in suites for name in vars(suite) if name.startswith("test_")}


# What correct plugins skip, because they have no such thing.
NOT_THERE = {
    "ExecuteStepConformance.test_cancelled_task": "asynchronous",
    "TraceConverterConformance.test_stored_records": "with_stored_records",
}


def test_every_check_has_a_mutant() -> None:
    assert {mutant.check for mutant in MUTANTS} == checks_of((*ALWAYS, *OTHERS, testing.LogReaderConformance))


@pytest.mark.parametrize(("kind", "edits"), CORRECT.items(), ids=list(CORRECT))
def test_a_correct_plugin_passes_all_checks(kind: str, edits: tuple[Edit, ...], tmp_path: Path) -> None:
    report = check_plugin(edits, tmp_path)
    assert report.failed == {}
    assert set(report.skipped) == {check for check, needed in NOT_THERE.items() if needed != kind}
    checks = checks_of((*ALWAYS, *MORE.get(kind, ())))
    assert report.passed == checks - set(report.skipped)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.check}: {mutant.wrong}")
def test_a_mutant_fails_exactly_its_own_check(mutant: Mutant, tmp_path: Path) -> None:
    # What only one suite looks at can fail the checks of that suite only.
    suite = mutant.check.partition("Conformance.")[0]
    alone = suite if suite in {other.__name__.removesuffix("Conformance") for other in OTHERS} else ""
    report = check_plugin((*mutant.based_on, *mutant.edits), tmp_path, alone)
    assert list(report.failed) == [mutant.check], report
    # What says what is wrong, and no traceback through the kit.
    assert not report.failed[mutant.check].startswith("AssertionError"), report.failed
    for check, reason in report.skipped.items():
        assert "cannot be checked before" in reason or check in NOT_THERE

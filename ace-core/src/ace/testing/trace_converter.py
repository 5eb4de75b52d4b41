"""`TraceConverterConformance`: the checks for the step that creates standard traces."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from ace.context import ACEStepContext
from ace.plugins import ExecuteStepSpec, TraceConverterSpec
from ace.protocols import find_trace_converter
from ace.testing.suite import (
    Conformance,
    demand,
    last_line,
    loaded_plugin,
    must_be_given,
    resolved,
    run_without,
    spec_of,
)

__all__ = ["TraceConverterConformance"]

KEYS = ("schema", "question", "reasoning", "answer", "skill_ids", "feedback", "success", "steps")
TEXTS = ("question", "reasoning", "answer", "feedback")
STEP_KEYS = ("kind", "name", "content", "is_error", "place")

_CONVERT = """
import importlib, json, pickle
from ace.context import ACEStepContext
target, path = sys.argv[1:]
module, _, name = target.partition(":")
converter = getattr(importlib.import_module(module), name)
with open(path, "rb") as file:
    results = pickle.load(file)
traces = [converter()(ACEStepContext(sample=result, trace=result)).trace for result in results]
print(json.dumps(traces, sort_keys=True, default=repr))
"""


class TraceConverterConformance(Conformance, is_suite=True):
    """Checks the step that creates standard traces.

    Fixtures: `plugin_name`, `framework_modules`, `successful_result`, `failed_result`, `stored_records`.
    """

    @pytest.fixture
    def successful_result(self) -> object:
        """The result of a successful run on `ctx.trace`, without live objects of the framework."""
        return must_be_given(self, "successful_result")

    @pytest.fixture
    def failed_result(self) -> object:
        """The result of a failed run on `ctx.trace`."""
        return must_be_given(self, "failed_result")

    @pytest.fixture
    def stored_records(self) -> tuple[object, ...]:
        """Records of the framework that the converter also supports: JSON values, or a `Path`."""
        return ()

    def test_accepts_results(self, plugin_name: str, successful_result: object, failed_result: object) -> None:
        """If the plugin runs agents, `accepts` of the spec is the class of the results, which its converter claims."""
        accepts = spec_of(plugin_name, TraceConverterSpec).accepts
        runs_agents = bool(loaded_plugin(plugin_name).specs_of(ExecuteStepSpec))
        demand(accepts is not None or not runs_agents, "the spec names no accepts='package.module:Class'")
        kind = None if accepts is None else resolved(plugin_name, accepts)
        for result in (successful_result, failed_result):
            demand(
                kind is None or type(result) is kind,
                f"the spec says accepts={accepts!r}, and the result is a {type(result)}",
            )
            claimed = find_trace_converter(result)
            demand(
                claimed is not None and claimed.name == plugin_name,
                f"a {type(result)} goes to the converter {claimed.name if claimed else None!r}",
            )

    def test_success_and_failure(self, plugin_name: str, successful_result: object, failed_result: object) -> None:
        """`success` is true for a successful run (or null, if the plugin does not run agents), otherwise false."""
        success = convert(plugin_name, successful_result).get("success")
        runs_agents = bool(loaded_plugin(plugin_name).specs_of(ExecuteStepSpec))
        demand(
            success is True or (success is None and not runs_agents),
            f"the trace says success={success!r} where it was True",
        )
        success = convert(plugin_name, failed_result).get("success")
        demand(success is False, f"the trace says success={success!r} where it was False")

    def test_error_is_told(self, plugin_name: str, failed_result: object) -> None:
        """The trace of a failed run contains the error of the result, if that is a text."""
        said = getattr(failed_result, "error", None)
        if not isinstance(said, str) or not said:
            pytest.skip("the result has no text as its error")
        trace = convert(plugin_name, failed_result)
        read = " ".join(str(trace.get(key, "")) for key in TEXTS) + " ".join(
            str(step.get("content", "")) for step in trace.get("steps", ())
        )
        demand(said in read, f"the trace does not tell {said!r}; put it into feedback, or it cannot be learned from")

    def test_refuses_anything_else(self, plugin_name: str) -> None:
        """Other objects than results and records of the framework are rejected with `TypeError` or `ValueError`."""
        for stranger in (object(), {"unrelated": True}, 7):
            try:
                converted = convert(plugin_name, stranger)
            except (TypeError, ValueError):
                continue
            pytest.fail(f"{stranger!r} is not a result, and was converted to {converted!r}", pytrace=False)

    def test_keys(self, plugin_name: str, successful_result: object, failed_result: object) -> None:
        """The trace and its steps have all keys that `ReflectStep` reads, with values of the right types."""
        for result in (successful_result, failed_result):
            trace = convert(plugin_name, result)
            missing = [key for key in KEYS if key not in trace]
            demand(not missing, f"the trace lacks {', '.join(map(repr, missing))}")
            demand(trace["schema"] == 1, f"the trace has schema={trace['schema']!r}, not 1")
            demand(trace["question"], "the trace has an empty question; it is the task of the run")
            no_texts = [key for key in TEXTS if not isinstance(trace[key], str)]
            demand(not no_texts, f"these fields of the trace are not texts: {', '.join(map(repr, no_texts))}")
            ids: object = trace["skill_ids"]
            demand(
                isinstance(ids, list | tuple) and all(isinstance(id, str) for id in ids),
                f"skill_ids must be a list of texts, and is {ids!r}",
            )
            for step in trace["steps"]:
                wrong = sorted(set(STEP_KEYS) - set(step))
                demand(not wrong, f"a step of the trace lacks {', '.join(map(repr, wrong))}: {step!r}")

    def test_json(self, plugin_name: str, successful_result: object, failed_result: object) -> None:
        """The trace can be serialised as JSON."""
        for result in (successful_result, failed_result):
            try:
                json.dumps(convert(plugin_name, result), allow_nan=False)
            except (TypeError, ValueError) as error:
                pytest.fail(f"the trace is not JSON: {error}", pytrace=False)

    def test_deterministic(
        self, plugin_name: str, successful_result: object, failed_result: object, tmp_path: Path
    ) -> None:
        """The same result is always converted to the same trace, also in another process."""
        results = (successful_result, failed_result)
        first, second = (_text([convert(plugin_name, result) for result in results]) for _ in range(2))
        demand(first == second, f"the same results gave other traces:\n{first}\n{second}")
        if not all(map(_can_be_stored, results)):
            pytest.skip("cannot be checked before test_without_framework holds: a result cannot be pickled")
        elsewhere = [_converted_elsewhere(plugin_name, (), results, tmp_path, hash_seed=seed) for seed in (1, 2)]
        demand(elsewhere[0] == elsewhere[1], "two processes gave other traces:\n" + "\n".join(elsewhere))

    def test_without_framework(
        self,
        plugin_name: str,
        framework_modules: tuple[str, ...],
        successful_result: object,
        failed_result: object,
        tmp_path: Path,
    ) -> None:
        """Results can be pickled, and can be converted without the framework."""
        results = (successful_result, failed_result)
        for result in results:
            demand(_can_be_stored(result), f"a {type(result)} cannot be pickled: it holds more than plain data")
        _converted_elsewhere(plugin_name, framework_modules, results, tmp_path)

    def test_stored_records(self, plugin_name: str, stored_records: tuple[object, ...]) -> None:
        """If the spec has `recognises`, the framework's records score above 0 to 1, others 0, and are converted."""
        spec = spec_of(plugin_name, TraceConverterSpec)
        if spec.recognises is None:
            pytest.skip("the plugin recognises no stored records")
        demand(stored_records, "the spec has recognises, so the fixture 'stored_records' must give some")
        score: Any = resolved(plugin_name, spec.recognises)
        for record in stored_records:
            demand(0 < score(record) <= 1, f"a stored record scores {score(record)!r}, not above 0 and at most 1")
            demand(convert(plugin_name, record), "a stored record was converted to nothing")
        for stranger in (object(), {"unrelated": True}, b"unrelated", b"", []):
            demand(
                score(stranger) == 0, f"{stranger!r} is not a record of the framework, and scores {score(stranger)!r}"
            )


def convert(name: str, result: object) -> dict[str, Any]:
    """Convert a result with the converter of a plugin."""
    spec = spec_of(name, TraceConverterSpec)
    converter: Any = resolved(name, spec.target, spec.requires)
    trace: dict[str, Any] = converter()(ACEStepContext(sample=result, trace=result)).trace
    return trace


def _text(trace: object) -> str:
    return json.dumps(trace, sort_keys=True, default=repr)


def _can_be_stored(result: object) -> bool:
    try:
        pickle.dumps(result)
    except Exception:  # objects may raise any error while they are pickled
        return False
    return True


def _converted_elsewhere(
    name: str, blocked: tuple[str, ...], results: tuple[object, ...], folder: Path, *, hash_seed: int = 0
) -> str:
    path = folder / "results.pickle"
    path.write_bytes(pickle.dumps(results))
    target = spec_of(name, TraceConverterSpec).target
    done = run_without(blocked, _CONVERT, target, str(path), hash_seed=hash_seed)
    without = f" without {', '.join(blocked)}" if blocked else " in another process"
    demand(done.returncode == 0, f"the results cannot be converted{without}: {last_line(done.stderr)}")
    return done.stdout

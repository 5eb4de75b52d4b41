"""Reads whether a run or a call of a tool succeeded from the words and numbers that logs use for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

__all__ = ["Outcome", "is_failed_output", "outcome_in", "success_of"]

_GOOD: Final = frozenset(
    (
        *(
            "true",
            "yes",
            "y",
            "1",
            "c",
            "success",
            "successful",
            "succeeded",
            "pass",
            "passed",
            "ok",
            "okay",
            "correct",
        ),
        *("right", "resolved", "solved", "completed", "complete", "done", "good", "positive", "thumbs_up", "up", "win"),
    )
)
_BAD: Final = frozenset(
    (
        *("false", "no", "n", "0", "i", "failure", "failed", "fail", "error", "incorrect", "wrong", "unresolved"),
        *("unsolved", "bad", "negative", "thumbs_down", "down", "rejected", "loss"),
    )
)
_VERDICTS: Final = (
    *("success", "succeeded", "passed", "pass", "correct", "is_correct", "resolved", "solved", "is_success", "verdict"),
    *("outcome", "status", "state", "label", "grade", "result_status"),
)
_FAILURES: Final = ("error", "exception", "error_message")
_NUMBERS: Final = ("reward", "score", "scores", "rating", "vote", "thumb", "thumbs", "feedback_score")
_EXIT_CODES: Final = ("exit_code", "exitcode", "returncode", "return_code")


class Outcome(NamedTuple):
    """How a run ended."""

    success: bool | None
    """Whether it succeeded; None if the log does not say."""
    score: float | None
    """The number that says so, or a number of which it is not known what counts as success."""
    source: str
    """The field that says so; empty if none does."""


UNKNOWN: Final = Outcome(None, None, "")


def success_of(value: object, *, is_number: bool = False) -> bool | None:
    """Return whether a value means success; None if it means neither.

    Args:
        value: A boolean, a word such as `failed`, or a number.
        is_number: Whether the field is a score, of which 0, 1 and negative numbers decide.

    Example:
        >>> success_of("false"), success_of("Passed"), success_of("running"), success_of(0.5, is_number=True)
        (False, True, None, None)
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if value in (0, 1):
            return value == 1
        return False if is_number and value < 0 else None
    if not isinstance(value, str):
        return None
    word = re.sub(r"[\s-]+", "_", value.strip().lower())
    if word in _GOOD:
        return True
    return False if word in _BAD else None


def outcome_in(fields: Mapping[str, Any]) -> Outcome:
    """Return the outcome that the fields of a record name: verdicts first, then errors, then scores.

    Args:
        fields: The fields. Capitals and underscores in their names do not matter.

    Example:
        >>> outcome_in({"id": 7, "reward": 0.0})
        Outcome(success=False, score=0.0, source='reward')
    """
    squeezed = {re.sub(r"[\s_-]+", "", name).lower(): (name, value) for name, value in fields.items()}

    def values(names: Iterable[str]) -> Iterable[tuple[str, Any]]:
        return (squeezed[key] for name in names if (key := name.replace("_", "")) in squeezed)

    for name, value in values(_VERDICTS):
        success = success_of(value)
        if success is not None:
            return Outcome(success, number_of(value), name)
    for name, value in values(_EXIT_CODES):
        if isinstance(value, int) and not isinstance(value, bool):
            return Outcome(value == 0, None, name)
    for name, value in values(_FAILURES):
        if value not in (None, "", False, {}, []):
            return Outcome(False, None, name)
    for name, value in values(_NUMBERS):
        score = number_of(value)
        success = success_of(value if score is None else score, is_number=True)
        if success is not None or score is not None:
            return Outcome(success, score, name)
    return UNKNOWN


def number_of(value: object) -> float | None:
    """Return a number, also one that is written as a text; None for booleans and everything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


_FAILED_TEXT: Final = re.compile(
    r"\s*(?:Observation:\s*)?(?:error\b|traceback \(most recent call last\)|<tool_use_error>"
    r"|<returncode>(?!0</)|exit code:? (?!0\b)\d+|the tool execution failed)",
    re.IGNORECASE,
)
_EXITED: Final = re.compile(r"^Process exited with code (?!0$)-?\d+\s*$|^command timed out after", re.MULTILINE)


def is_failed_output(output: object) -> bool:
    """Return whether the output of a tool says that it failed, for logs without a flag for it.

    A flag of the format has precedence. Texts only count by how they begin, since an output may quote anything.

    Args:
        output: The output: a text, or a JSON value.

    Example:
        >>> is_failed_output("Error: no sku K"), is_failed_output('{"output": "", "metadata": {"exit_code": 2}}')
        (True, True)
        >>> is_failed_output("3 errors were fixed"), is_failed_output({"error": None, "days": 14})
        (False, False)
    """
    if isinstance(output, str):
        if output.lstrip().startswith("{"):
            try:
                return is_failed_output(json.loads(output))
            except (ValueError, RecursionError):
                pass
        return _FAILED_TEXT.match(output) is not None or _EXITED.search(output.partition("\nOutput:")[0]) is not None
    if not isinstance(output, dict):
        return False
    if output.get("is_error") is True or output.get("isError") is True or output.get("success") is False:
        return True
    if output.get("error") or output.get("status") in ("error", "failed"):
        return True
    inner = output.get("metadata")
    codes = [inner.get("exit_code") if isinstance(inner, dict) else None, *(output.get(name) for name in _EXIT_CODES)]
    return any(isinstance(code, int) and not isinstance(code, bool) and code != 0 for code in codes)

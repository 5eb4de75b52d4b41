"""Reads whether a run or a call of a tool succeeded from the words and numbers that logs use for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ace.logs.building import key_of

__all__ = ["Outcome", "is_failed_output", "is_infrastructure", "number_of", "outcome_in", "score_of", "success_of"]

_GOOD: Final = frozenset(
    (
        *("true", "yes", "y", "1", "c", "success", "successful", "succeeded", "pass", "passed", "correct", "right"),
        *("resolved", "solved", "good", "positive", "thumbs_up", "thumb_up", "thumbsup", "up", "upvote", "like"),
        *("liked", "helpful", "satisfied", "accepted", "accept", "win", "won", "+1", "\N{THUMBS UP SIGN}"),
    )
)
_FINISHED: Final = frozenset(("ok", "okay", "completed", "complete", "done"))
"""Words that mean success, except in the field that tells the state of the program."""
_BAD: Final = frozenset(
    (
        *("false", "no", "n", "0", "i", "failure", "failed", "fail", "fails", "error", "errored", "incorrect", "wrong"),
        *("unresolved", "unsolved", "not_resolved", "not_solved", "not_correct", "not_passed", "bad", "negative"),
        *("thumbs_down", "thumb_down", "thumbsdown", "down", "downvote", "dislike", "disliked", "unhelpful", "-1"),
        *("not_helpful", "dissatisfied", "unsatisfied", "rejected", "reject", "loss", "lost", "\N{THUMBS DOWN SIGN}"),
    )
)
_INFRASTRUCTURE: Final = frozenset(
    (
        *("timeout", "timed_out", "cancelled", "canceled", "aborted", "interrupted", "killed", "skipped", "pending"),
        *("infrastructure_error", "unexpected_error", "user_error", "harness_error", "environment_error", "error_eval"),
        *("test_timeout", "rate_limited", "running", "in_progress", "queued"),
    )
)
"""Words for what was not the agent's fault, or is not over."""
_VERDICTS: Final = (
    *("success", "succeeded", "successful", "is_success", "passed", "pass", "correct", "is_correct", "resolved"),
    *("is_resolved", "solved", "is_solved", "verdict", "outcome", "thumbs", "thumb"),
)
_LABELS: Final = ("label", "grade")
_STATES: Final = ("status", "state", "result_status", "termination_reason")
_FAILURES: Final = ("error", "exception", "error_message")
_NUMBERS: Final = (
    *("reward", "score", "scores", "rating", "vote", "feedback_score", "user_score", "user_rating", "final_score"),
    *("accuracy", "exact_match", "em"),
)
_THRESHOLDS: Final = ("threshold", "pass_threshold", "passing_score", "min_score")
_INSIDE: Final = (
    *("evaluation", "eval", "eval_result", "evaluation_result", "grading", "grading_result", "reward_info", "metrics"),
    *("result", "test_result", "report", "feedback", "user_feedback", "annotation", "judgement", "judgment"),
)
"""Objects in a record that may tell its outcome, and words of a person that do."""
_EXIT_CODES: Final = ("exit_code", "exitcode", "returncode", "return_code")
_LEAST_OF_SCALE: Final = 3


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
    word = _word(value)
    if word in _GOOD or word in _FINISHED:
        return True
    return False if word in _BAD else None


def is_infrastructure(value: object) -> bool:
    """Return whether a word means that the run ended for a reason that was not the agent's, or has not ended.

    Args:
        value: The value of a field such as `status`.

    Example:
        >>> is_infrastructure("Timed out"), is_infrastructure("failed")
        (True, False)
    """
    return _word(value) in _INFRASTRUCTURE


def outcome_in(fields: Mapping[str, Any], scales: Mapping[str, Sequence[float]] | None = None) -> Outcome:
    """Return the outcome that the fields of a record name: verdicts first, then errors, scores, and states.

    Args:
        fields: The fields. Capitals and underscores in their names do not matter.
        scales: For fields with numbers, all numbers that the records of the file have in them.

    Example:
        >>> outcome_in({"id": 7, "reward": 0.0})
        Outcome(success=False, score=0.0, source='reward')
        >>> outcome_in({"status": "success", "score": 0.3, "threshold": 0.5}).success
        False
    """
    found = _Fields(fields)
    state = next((name for name, value in found.of(_STATES) if is_infrastructure(value)), None)
    if state is not None:
        return Outcome(None, None, state)
    for outcomes in (_verdicts(found), _failures(found), _scores(found, scales or {}), _inside(fields), _states(found)):
        best = next((outcome for outcome in outcomes if outcome.success is not None), None)
        if best is not None:
            return best
    return next(_scores(found, scales or {}), UNKNOWN)


class _Fields:
    """The fields of a record by their names without capitals, hyphens and underscores."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = {key_of(name): (name, value) for name, value in fields.items()}

    def of(self, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
        return (self._fields[key] for name in names if (key := key_of(name)) in self._fields)


def _verdicts(found: _Fields) -> Iterator[Outcome]:
    for name, value in found.of(_VERDICTS):
        yield Outcome(success_of(value), number_of(value), name)
    for name, value in found.of(_LABELS):
        # A label or a grade is often a class or a school grade, such as 1, C or positive.
        if isinstance(value, bool) or (len(_word(value)) > 1 and _word(value) not in ("positive", "negative", "no")):
            yield Outcome(success_of(value), None, name)
    for name, value in found.of(_EXIT_CODES):
        if isinstance(value, int) and not isinstance(value, bool):
            yield Outcome(value == 0, None, name)
    for name, value in found.of(_STATES):
        if success_of(value) is False:
            yield Outcome(False, None, name)


def _failures(found: _Fields) -> Iterator[Outcome]:
    for name, value in found.of(_FAILURES):
        if value and _word(value) not in ("none", "null", "nan", "no", "false", "n/a", "-", "0"):
            yield Outcome(False, None, name)


def _scores(found: _Fields, scales: Mapping[str, Sequence[float]]) -> Iterator[Outcome]:
    threshold = next((number for _, value in found.of(_THRESHOLDS) if (number := number_of(value)) is not None), None)
    for name, value in found.of(_NUMBERS):
        score = score_of(value)
        if score is None:
            success = _agreed(value)
            if success is not None:
                yield Outcome(success, None, name)
        elif threshold is not None:
            yield Outcome(score >= threshold, score, name)
        else:
            yield Outcome(_on_scale(score, scales.get(name, ())), score, name)


def _on_scale(score: float, scale: Sequence[float]) -> bool | None:
    """Return what a score means among those of the other records: 1 of 5 stars is not a success."""
    if not any(other > 1 for other in scale):
        return success_of(score, is_number=True)
    is_stars = len(scale) >= _LEAST_OF_SCALE and all(other in (1, 2, 3, 4, 5) for other in scale)
    if is_stars and min(scale) <= 2 and max(scale) >= 4:
        return None if score == 3 else score > 3
    return False if score <= 0 else None


def _agreed(value: object) -> bool | None:
    """Return the success on which several scores agree."""
    if isinstance(value, dict):
        if "value" in value or "score" in value or "passed" in value:
            inner = next(value[name] for name in ("passed", "value", "score") if name in value)
            return success_of(inner, is_number=True)
        items: list[Any] = list(value.values())
    elif isinstance(value, list):
        items = value
    else:
        return success_of(value)
    found = {_agreed(item) if isinstance(item, dict) else success_of(item, is_number=True) for item in items}
    return found.pop() if len(found) == 1 else None


def _inside(fields: Mapping[str, Any]) -> Iterator[Outcome]:
    for name, value in _Fields(fields).of(_INSIDE):
        if isinstance(value, dict):
            outcome = outcome_in({key: item for key, item in value.items() if not isinstance(item, dict | list)})
            yield Outcome(outcome.success, outcome.score, f"{name}.{outcome.source}")
        elif _word(value) in _GOOD | _BAD and len(_word(value)) > 1:
            yield Outcome(success_of(value), None, name)


def _states(found: _Fields) -> Iterator[Outcome]:
    """A state only says that nothing was raised, so that everything else has precedence."""
    for name, value in found.of(_STATES):
        if _word(value) in _GOOD:
            yield Outcome(True, None, name)


def _word(value: object) -> str:
    return re.sub(r"[\s-]+", "_", value.strip().lower()) if isinstance(value, str) and value != "-1" else str(value)


def score_of(value: object) -> float | None:
    """Return a score: a number, or the number in an object with a `score` or `value`.

    Args:
        value: The value of a field with a score.
    """
    if isinstance(value, dict):
        return next((number_of(value[name]) for name in ("score", "value", "reward") if name in value), None)
    return number_of(value)


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
    r"\s*(?:Observation:\s*)?(?:(?i:error\b|traceback \(most recent call last\)|<tool_use_error>"
    r"|<returncode>(?!0</)|exit code:? (?!0\b)\d+|the tool execution failed)|[A-Z]\w*(?:Error|Exception)[:(])"
)
_HTTP_ERROR: Final = re.compile(
    r"\s*(?:HTTP(?:/\d(?:\.\d)?)?:? ?[45]\d\d\b|(?:[\w.-]+: )?[45]\d\d [A-Z][a-z]+\b(?! \d))"
)
"""A status of HTTP, such as `HTTP 404`, `HTTP/1.1 403 Forbidden` or `422 Unprocessable Entity`."""
_OF_PROGRAM: Final = re.compile(r"\s*[\w./-]+(?: [\w./-]+)?: (?i:error|fatal)\b")
"""The form in which programs of the command line report errors, such as `psql: ERROR: ...`."""
_HTTP_STATUS: Final = ("status", "status_code", "statusCode", "http_status", "code")
_EXITED: Final = re.compile(r"^Process exited with code (?!0$)-?\d+\s*$|^command timed out after", re.MULTILINE)


def is_failed_output(output: object) -> bool:
    """Return whether the output of a tool says that it failed, for logs without a flag for it.

    A flag of the format has precedence. Texts only count by how they begin, since an output may quote anything.

    Args:
        output: The output: a text, or a JSON value.

    Example:
        >>> is_failed_output("Error: no sku K"), is_failed_output('{"output": "", "metadata": {"exit_code": 2}}')
        (True, True)
        >>> is_failed_output("HTTP/1.1 404 Not Found"), is_failed_output({"status": 422, "detail": "unknown field"})
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
        return (
            any(pattern.match(output) for pattern in (_FAILED_TEXT, _HTTP_ERROR, _OF_PROGRAM))
            or _EXITED.search(re.split(r"^Output:", output, maxsplit=1, flags=re.MULTILINE)[0]) is not None
        )
    if not isinstance(output, dict):
        return False
    if output.get("is_error") is True or output.get("isError") is True or output.get("success") is False:
        return True
    if output.get("error") or output.get("errors") or output.get("ok") is False:
        return True
    if output.get("status") in ("error", "failed") or any(_is_http_error(output.get(name)) for name in _HTTP_STATUS):
        return True
    inner = output.get("metadata")
    codes = [inner.get("exit_code") if isinstance(inner, dict) else None, *(output.get(name) for name in _EXIT_CODES)]
    return any(isinstance(code, int) and not isinstance(code, bool) and code != 0 for code in codes)


def _is_http_error(status: object) -> bool:
    return isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599

"""Finds task, answer, outcome and the rest of a run by the names that logs usually give these fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import key_of, text_of, time_of
from ace.logs.messages import response_text
from ace.logs.outcomes import Outcome, number_of, outcome_in
from ace.logs.run import Tokens

__all__ = ["ANSWERS", "TASKS", "field_in", "field_text", "has_pair", "run_fields", "tokens_in"]

TASKS: Final = (
    *("question", "query", "prompt", "input", "inputs", "instruction", "task", "problem", "problemstatement"),
    *("request", "user", "usermessage", "userinput", "userquery", "userprompt", "human", "message", "goal", "ticket"),
    *("description", "title", "example", "doc"),
)
ANSWERS: Final = (
    *("answer", "finalanswer", "response", "finalresponse", "completion", "prediction", "result", "finalresult"),
    *("reply", "generatedtext", "modeloutput", "modelanswer", "modelresponse", "modelpatch", "actualoutput"),
    *("finaloutput", "outputs", "output", "assistant", "ai", "botresponse", "agentresponse", "resolution", "solution"),
    *("outputtext", "completions", "choices", "filteredresps", "resps"),
)
_TRUTHS: Final = (
    *("groundtruth", "expected", "expectedoutput", "expectedanswer", "expectedresponse", "reference"),
    *(
        "referenceanswer",
        "referenceoutput",
        "referenceoutputs",
        "target",
        "gold",
        "goldanswer",
        "goldenanswer",
        "ideal",
    ),
    *("correctresponse", "correctanswer", "correctedanswer", "rightanswer", "chosen"),
)
_ALSO_TRUTHS: Final = ("solution", "output")
"""Fields with the right answer, if another one has the answer."""
_REASONS: Final = (
    *("feedback", "userfeedback", "humanfeedback", "correction", "comment", "comments", "critique", "explanation"),
    *("reason", "rationale", "justification", "notes"),
)
_CONTEXTS: Final = ("context", "contexts", "retrievedcontexts", "retrievalcontext", "documents")
_IDS: Final = ("id", "uuid", "runid", "traceid", "sessionid", "conversationid", "taskid", "instanceid", "customid")
_MODELS: Final = ("model", "modelname", "modelid", "modelnameorpath")
_STARTS: Final = ("started", "startedat", "starttime", "start", "createdat", "timestamp", "time", "date")
_ENDS: Final = ("ended", "endedat", "endtime", "end", "finishedat", "completedat")
_COSTS: Final = ("cost", "costusd", "totalcost", "totalcostusd", "instancecost")
_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {})
_FIELDS_OF_TEXT: Final = ("text", "value", "content")
_NAMES_BESIDE: Final = frozenset({"id", "type", "role", "name", "model", "format", "lang", "language"})


def field_in(value: object, names: Sequence[str]) -> Any:
    """Return the first field of these names that is not empty; None without one.

    Args:
        value: A JSON value.
        names: Names as `key_of` returns them, the best first.
    """
    if not isinstance(value, dict):
        return None
    by_key = {key_of(name): item for name, item in value.items()}
    return next((by_key[name] for name in names if by_key.get(name) not in _NOTHING), None)


def field_text(value: object, names: Sequence[str]) -> str:
    """Return the first field of these names as a text, if it is a text or a number.

    Args:
        value: A JSON value.
        names: Names as `key_of` returns them, the best first.
    """
    found = field_in(value, names)
    return text_of(found) if isinstance(found, str | int | float) and not isinstance(found, bool) else ""


def has_pair(value: object) -> bool:
    """Return whether a record has a task and an answer.

    Args:
        value: A JSON value.
    """
    return field_in(value, TASKS) is not None and field_in(value, ANSWERS) is not None


def run_fields(
    record: Mapping[str, Any],
    shared: Mapping[str, Any] | None = None,
    *,
    skip: Sequence[str] = (),
    scales: Mapping[str, Sequence[float]] | None = None,
) -> dict[str, Any]:
    """Return the fields of a `Run` that a record tells; what they do not hold of it is in `rest`.

    Args:
        shared: Fields beside the records of a file, which hold for all of them.
        skip: Fields that the caller has read.
        scales: For fields with numbers, all numbers that the records of the file have in them.
    """
    fields = _Taking(record, skip)
    outcome = outcome_in({name: value for name, value in record.items() if name not in skip}, scales)
    verdict = _verdict(record, outcome, fields)
    truth = fields.take(_TRUTHS)
    reasons = [*_reasons(record, fields), *_comments(verdict)]
    if isinstance(truth, bool) and not isinstance(field_in(record, ANSWERS), bool):
        truth = None  # a flag, such as whether a trajectory reached its target
    task, answer = fields.take(_without_title(record)), fields.take(ANSWERS) or field_in(verdict, ANSWERS)
    if truth is None and answer is not None:
        truth = fields.take(_ALSO_TRUTHS)
    found = {
        "id": field_text({"id": fields.take(_IDS)}, ("id",)),
        "task": _task_text(task, fields),
        "answer": _described(answer, ANSWERS),
        "truth": _described(truth, (*_TRUTHS, *ANSWERS)) or None,
        "reason": "\n".join(dict.fromkeys(reasons)),
        "context": _joined(fields.take(_CONTEXTS)),
        "model": text_of(fields.take(_MODELS)) or field_text(shared, _MODELS),
        "started": time_of(fields.take(_STARTS)),
        "ended": time_of(fields.take(_ENDS)),
        "cost": number_of(fields.take(_COSTS)),
        "tokens": tokens_in(record),
        "success": outcome.success,
        "score": outcome.score,
        "outcome_from": outcome.source,
    }
    return {**found, "rest": fields.rest()}


def _verdict(record: Mapping[str, Any], outcome: Outcome, fields: _Taking) -> Mapping[str, Any]:
    """Return the object that tells the outcome, which is not an answer; empty if a field of the record tells it."""
    name = outcome.source.partition(".")[0]
    found = record.get(name)
    if isinstance(found, dict):
        if key_of(name) in ANSWERS:
            fields.taken.add(name)
        return found
    if key_of(name) not in _REASONS:
        fields.taken.add(name)
    return {}


class _Taking:
    """Takes fields out of a record, so that the rest of it is known."""

    def __init__(self, record: Mapping[str, Any], skip: Sequence[str]) -> None:
        self._record = record
        self._names: dict[str, list[str]] = {}
        for name, item in record.items():
            if item not in _NOTHING:
                self._names.setdefault(key_of(name), []).append(name)
        self.taken = {"", *skip}

    def take(self, names: Sequence[str]) -> Any:
        for key in names:
            for name in self._names.get(key, ()):
                if name not in self.taken:
                    self.taken.add(name)
                    return self._record[name]
        return None

    def rest(self) -> dict[str, Any]:
        return {name: item for name, item in self._record.items() if name not in self.taken and item not in _NOTHING}


def _without_title(record: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of tasks; a title or a description alone is only one beside an answer."""
    return TASKS if has_pair(record) else [name for name in TASKS if name not in ("title", "description")]


def _task_text(task: object, fields: _Taking) -> str:
    text = _described(task, TASKS)
    title = text_of(fields.take(("title",))) if task is not None and "description" in fields.taken else ""
    return f"{title}\n\n{text}" if title else text


def _reasons(record: Mapping[str, Any], fields: _Taking) -> Iterator[str]:
    found = fields.take(_REASONS)
    if isinstance(found, dict | list):
        yield from _comments(found)
    elif found is not None:
        yield text_of(found)
    for name in ("error", "exception", "errormessage"):
        value = fields.take((name,))
        if isinstance(value, dict | str):
            yield _described(value, ("message", "detail", "error"))
    for name, value in record.items():
        if key_of(name) in ("score", "scores", "evaluation", "eval", "metrics", "metricsdata", "gradingresult"):
            yield from _comments(value)


def _comments(value: object) -> Iterator[str]:
    """Yield what the scores in a record say in words."""
    if isinstance(value, list):
        for item in value:
            yield from _comments(item)
    elif isinstance(value, dict):
        text = field_in(value, _REASONS)
        if isinstance(text, str):
            yield text
        else:
            yield from (comment for item in value.values() if isinstance(item, dict) for comment in _comments(item))


def _described(value: object, names: Sequence[str]) -> str:
    """Return the text that a field means: a text, what a model answered, or the only text of an object."""
    if isinstance(value, dict | list):
        answered = response_text(value)
        if answered is not None:
            return answered
    if isinstance(value, list) and len(value) == 1:
        return _described(value[0], names)
    if isinstance(value, dict):
        inner = field_in(value, (*names, *_FIELDS_OF_TEXT))
        if isinstance(inner, str | list | dict):
            return _described(inner, names)
        texts = [item for key, item in value.items() if isinstance(item, str) and item and key not in _NAMES_BESIDE]
        others = [item for item in value.values() if isinstance(item, dict | list) and item]
        if len(texts) == 1 and not others:
            return texts[0]
    return text_of(value)


def _joined(value: object) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return "\n\n".join(value)
    return text_of(value)


def tokens_in(record: Mapping[str, Any]) -> Tokens:
    """Return the tokens that a record, or the object `usage` in it, names."""
    usage = field_in(record, ("usage", "tokenusage", "tokens", "usagemetadata", "modelsusage"))
    found = usage if isinstance(usage, dict) else record
    sent = number_of(field_in(found, ("inputtokens", "prompttokens", "prompttokencount", "tokensinput")))
    written = number_of(field_in(found, ("outputtokens", "completiontokens", "candidatestokencount", "tokensoutput")))
    return Tokens(input=None if sent is None else int(sent), output=None if written is None else int(written))

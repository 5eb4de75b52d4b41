"""Logs of Inspect: `.eval` archives, and the same as one JSON object."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, text_of, time_of
from ace.logs.head import LogHead
from ace.logs.messages import add_message, response_text
from ace.logs.outcomes import number_of, success_of
from ace.logs.run import Problem, Run
from ace.logs.source import Source

__all__ = ["READERS", "InspectReader"]

_SAMPLE: Final = re.compile(r"samples/[^/]+\.json|samples/[^/]+/sample\.json")
_ATTACHMENT: Final = "attachment://"
_GRADES: Final[Mapping[str, bool | None]] = {"C": True, "I": False, "N": False, "P": None}


class InspectReader:
    """Reads evaluations of Inspect: each sample of each epoch is a run."""

    name = "inspect"
    title = "Inspect evaluations (.eval, .json)"
    places: Sequence[str] = ("$INSPECT_LOG_DIR", "./logs/*.eval")
    side_files: Sequence[str] = ("logs.json", "eval-set.json", ".eval-set-id")
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for archives with samples, and objects with an evaluation and its samples."""
        if head.shape == "zip":
            has_samples = any(_SAMPLE.fullmatch(name) for name in head.names)
            return 0.95 if has_samples or {"header.json", "_journal/start.json"} & set(head.names) else 0.0
        return 0.95 if {"version", "status", "eval"} <= head.keys and head.keys & {"samples", "plan", "stats"} else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each sample."""
        if source.shape == "zip":
            yield from _archive_runs(source)
            return
        for record in source.records():
            log = fields_of(record.value)
            if not log.get("samples"):
                error = text_of(fields_of(log.get("error")).get("message")) or "none was stored"
                yield source.problem(f"the evaluation has no samples: {error}")
            for sample in log.get("samples") or ():
                yield _run(fields_of(sample), fields_of(log.get("eval")))


def _archive_runs(source: Source) -> Iterator[Run | Problem]:
    with zipfile.ZipFile(source.path) as archive:
        names = archive.namelist()
        header = "header.json" if "header.json" in names else "_journal/start.json"
        evaluation = fields_of(_member(archive, header)).get("eval") if header in names else {}
        samples = [name for name in names if _SAMPLE.fullmatch(name)]
        if not samples:
            yield source.problem("the evaluation has no samples")
        for name in samples:
            try:
                sample = dict(fields_of(_member(archive, name)))
                if name.endswith("/sample.json"):
                    sample.setdefault("messages", [])
                    sample["messages"] = sample["messages"] or list(_split_messages(archive, names, name))
            except (ValueError, zipfile.BadZipFile, KeyError) as error:
                yield source.problem(f"{name} cannot be read: {error}")
                continue
            yield _run(sample, fields_of(evaluation))


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    return json.loads(archive.read(name))


def _split_messages(archive: zipfile.ZipFile, names: Sequence[str], sample: str) -> Iterator[Any]:
    """Yield the messages of a large sample, which are stored in files that are called by their first number."""
    folder = sample.removesuffix("sample.json") + "messages/"
    parts = [name for name in names if name.startswith(folder) and name.endswith(".json")]
    for name in sorted(parts, key=lambda name: int(re.sub(r"\D", "", name.removeprefix(folder)) or 0)):
        found = _member(archive, name)
        yield from found if isinstance(found, list) else fields_of(found).get("messages") or ()


def _run(sample: Mapping[str, Any], evaluation: Mapping[str, Any]) -> Run:
    attachments = fields_of(sample.get("attachments"))
    whole = fields_of(_with_attachments({**sample, "attachments": {}}, attachments))
    builder = RunBuilder()
    _add_messages(builder, whole)
    output = fields_of(whole.get("output"))
    success, score, source = _outcome(fields_of(whole.get("scores")) or {"score": whole.get("score")})
    for used in map(fields_of, fields_of(whole.get("model_usage")).values()):
        builder.spend(used.get("input_tokens"), used.get("output_tokens"))
    target = whole.get("target")
    error, limit = fields_of(whole.get("error")), fields_of(whole.get("limit"))
    reasons = [*_explanations(whole), text_of(error.get("message"))]
    reasons += [f"It reached the limit of {text_of(limit.get('type'))}."] if limit else []
    epoch = whole.get("epoch")
    return builder.run(
        id=text_of(whole.get("id")) + (f"/{epoch}" if isinstance(epoch, int) and epoch > 1 else ""),
        task=_task(whole),
        answer=text_of(output.get("completion")) or response_text(output.get("choices")) or "",
        success=None if error else success,
        score=score,
        outcome_from="" if error else source,
        reason="\n".join(dict.fromkeys(reason for reason in reasons if reason)),
        truth="\n".join(map(text_of, target)) if isinstance(target, list) else text_of(target) or None,
        context="\n".join(map(text_of, whole.get("choices") or ())),
        model=text_of(evaluation.get("model") or output.get("model")),
        started=time_of(whole.get("started_at")) or time_of(evaluation.get("created")),
        ended=time_of(whole.get("completed_at")),
        is_interrupted=bool(limit or error),
    )


def _with_attachments(value: Any, attachments: Mapping[str, Any]) -> Any:
    """Return a JSON value with the texts that are stored apart from it."""
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    if isinstance(value, dict):
        return {name: _with_attachments(item, attachments) for name, item in value.items()}
    return [_with_attachments(item, attachments) for item in value] if isinstance(value, list) else value


def _task(sample: Mapping[str, Any]) -> str:
    asked = sample.get("input")
    if not isinstance(asked, list):
        return text_of(asked)
    users = [message for message in asked if fields_of(message).get("role") == "user"]
    return response_text(users[:1]) or ""


def _add_messages(builder: RunBuilder, sample: Mapping[str, Any]) -> None:
    """Add the messages; those of the role `user` that are not in the input of the sample are the program's."""
    asked = sample.get("input")
    users = sum(fields_of(message).get("role") == "user" for message in asked) if isinstance(asked, list) else 1
    for number, message in enumerate(sample.get("messages") or (), 1):
        if not isinstance(message, dict):
            continue
        if message.get("role") != "user":
            add_message(builder, {key: item for key, item in message.items() if key != "source"}, str(number))
            continue
        text = response_text(message) or text_of(message.get("content"))
        is_input = users > 0 and message.get("source") != "generate"
        builder.message("person" if is_input else "harness", text, str(number))
        users -= 1


def _outcome(scores: Mapping[str, Any]) -> tuple[bool | None, float | None, str]:
    """Return the success on which all scores agree that decide, and the number of the only one."""
    values = {name: score["value"] for name, score in scores.items() if isinstance(score, dict) and "value" in score}
    found = {_success(value) for value in values.values()} - {None}
    numbers = [number for value in values.values() if (number := number_of(value)) is not None]
    source = f"scores.{next(iter(values))}" if values else ""
    return found.pop() if len(found) == 1 else None, numbers[0] if len(numbers) == 1 else None, source


def _success(value: object) -> bool | None:
    if isinstance(value, dict):
        found = {_success(item) for item in value.values()}
        return found.pop() if len(found) == 1 else None
    return _GRADES[value] if isinstance(value, str) and value in _GRADES else success_of(value, is_number=True)


def _explanations(sample: Mapping[str, Any]) -> Iterator[str]:
    for score in fields_of(sample.get("scores")).values():
        yield text_of(fields_of(score).get("explanation"))


READERS: Final = (InspectReader(),)

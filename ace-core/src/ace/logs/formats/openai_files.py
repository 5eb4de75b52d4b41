"""Files of OpenAI's evals and of batches of requests, also those of Anthropic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ace.logs.building import RunBuilder, fields_of, text_of
from ace.logs.head import LogHead
from ace.logs.messages import add_messages, response_text
from ace.logs.outcomes import outcome_in
from ace.logs.run import Problem, Run
from ace.logs.source import Source
from ace.logs.usual_fields import tokens_in

__all__ = ["READERS", "BatchReader", "OpenAIEvalsReader"]

_MOST_OF_INPUT: Final = 64_000_000
"""Files beside a batch that are larger are not searched for its requests."""


class OpenAIEvalsReader:
    """Reads the events that OpenAI's evals record: those of one sample are a run."""

    name = "openai-evals"
    title = "OpenAI evals"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = "If a model graded the answers, its calls are not steps of the run."

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for a specification and events of samples."""
        events = [value for value in head.objects if {"run_id", "event_id", "sample_id", "type"} <= value.keys()]
        return 0.95 if events and len(events) * 2 >= len(head.objects) - 2 else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each sample."""
        spec: Mapping[str, Any] = {}
        samples: dict[str, list[Mapping[str, Any]]] = {}
        for record in source.records():
            value = fields_of(record.value)
            spec = fields_of(value.get("spec")) or spec
            if value.get("sample_id") is not None:
                samples.setdefault(text_of(value["sample_id"]), []).append(value)
        for name, events in samples.items():
            yield _sample(name, events, spec)


def _sample(name: str, events: Sequence[Mapping[str, Any]], spec: Mapping[str, Any]) -> Run:
    builder = RunBuilder()
    for event in events:
        builder.at(event.get("created_at"))
    data = {kind: fields_of(event.get("data")) for event in reversed(events) if (kind := event.get("type"))}
    sampling, match = data.get("sampling", {}), data.get("match", {})
    prompt = sampling.get("prompt")
    if isinstance(prompt, list):
        add_messages(builder, prompt)
    else:
        builder.message("person", text_of(prompt))
    sampled = sampling.get("sampled", match.get("sampled"))
    answer = text_of(sampled[0]) if isinstance(sampled, list) and sampled else text_of(sampled)
    builder.message("agent", answer)
    errors = [text_of(fields_of(event.get("data")).get("message")) for event in events if event.get("type") == "error"]
    outcome = outcome_in(match if "correct" in match else data.get("metrics", {}))
    expected = match.get("expected")
    models = spec.get("completion_fns") or [""]
    return builder.run(
        id=name,
        answer=answer,
        success=outcome.success,
        score=outcome.score,
        outcome_from=outcome.source,
        truth="\n".join(map(text_of, expected)) if isinstance(expected, list) else text_of(expected) or None,
        reason="\n".join(errors),
        model=text_of(sampling.get("model") or models[0]),
    )


class BatchReader:
    """Reads the results of batches of requests; the requests are in another file, which should lie beside."""

    name = "batch"
    title = "Results of OpenAI and Anthropic batches"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = "The tasks are in the file of the requests: it is found if it lies in the same folder."

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for requests or responses with an id of their own."""
        objects = head.objects
        fitting = sum(_is_response(value) or _is_request(value) for value in objects)
        return 0.9 if objects and fitting == len(objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each response, with its request."""
        if any(_is_request(value) for value in source.head.objects):
            if not any(_is_response(_first_object(path)) for path in _beside(source.path)):
                yield source.problem("requests of a batch without their results: there is nothing to learn from")
            return
        requests = _requests(source)
        if not requests:
            yield source.problem(
                "the results of a batch, whose tasks are in the file of its requests: put it into the same folder"
            )
        for record in source.records():
            if isinstance(record.value, dict):
                yield _response(record.value, requests.get(text_of(record.value.get("custom_id")), {}))


def _is_response(value: Mapping[str, Any]) -> bool:
    result = value.get("response", value.get("result"))
    is_result = isinstance(result, dict) and bool(result.keys() & {"body", "message", "status_code", "error", "type"})
    return "custom_id" in value and (is_result or isinstance(value.get("error"), dict))


def _is_request(value: Mapping[str, Any]) -> bool:
    return "custom_id" in value and isinstance(value.get("body", value.get("params")), dict)


def _requests(source: Source) -> dict[str, Mapping[str, Any]]:
    """Return the requests of a batch by their ids, from the file beside it that has the first of them."""
    wanted = {text_of(value.get("custom_id")) for value in source.head.objects}
    for path in _beside(source.path):
        if not _is_request(_first_object(path)):
            continue
        found = {text_of(request["custom_id"]): request for request in _lines(path) if _is_request(request)}
        if wanted & found.keys():
            return {name: fields_of(request.get("body", request.get("params"))) for name, request in found.items()}
    return {}


def _beside(path: Path) -> list[Path]:
    if not path.is_file():
        return []
    others = [other for other in path.parent.glob("*.jsonl") if other != path and other.is_file()]
    return sorted(other for other in others if other.stat().st_size < _MOST_OF_INPUT)


def _first_object(path: Path) -> Mapping[str, Any]:
    return next(_lines(path), {})


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            try:
                yield fields_of(json.loads(line))
            except ValueError:  # the reader of that file says so
                continue


def _response(value: Mapping[str, Any], request: Mapping[str, Any]) -> Run:
    builder = RunBuilder()
    add_messages(builder, [{"role": "system", "content": request["system"]}] if request.get("system") else [])
    asked = request.get("messages") or request.get("input") or request.get("prompt")
    add_messages(builder, asked if isinstance(asked, list) else [{"role": "user", "content": asked}] if asked else [])
    result = fields_of(value.get("response") or value.get("result"))
    body = fields_of(result.get("body") or result.get("message"))
    answer = response_text(body) or ""
    builder.message("agent", answer)
    error = value.get("error") or result.get("error") or body.get("error")
    inner = fields_of(error).get("error", error)
    return builder.run(
        id=text_of(value.get("custom_id")),
        answer=answer,
        reason=text_of(fields_of(inner).get("message") or inner),
        model=text_of(body.get("model") or request.get("model")),
        tokens=tokens_in(body),
    )


READERS: Final = (OpenAIEvalsReader(), BatchReader())

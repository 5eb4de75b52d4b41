"""Sessions of Google's Agent Development Kit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ace.logs.building import RunBuilder, key_of, text_of
from ace.logs.head import LogHead
from ace.logs.item_lists import has_item_list, item_lists
from ace.logs.messages import add_message
from ace.logs.run import Problem, Run
from ace.logs.source import Source
from ace.logs.usual_fields import tokens_in

__all__ = ["READERS", "GoogleADKReader"]


class GoogleADKReader:
    """Reads sessions and lists of their events, in camel or snake case."""

    name = "google-adk"
    title = "Google ADK sessions"
    places: Sequence[str] = ()
    side_files: Sequence[str] = ()
    note = ""

    def recognises(self, head: LogHead) -> float:
        """Return a high certainty for events with an author and an invocation."""
        return 0.9 if has_item_list(head, _is_event) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield a run for each session."""
        for found in item_lists(source.records(), _is_event):
            yield _run(found.items, found.outer)


def _is_event(value: Mapping[str, Any]) -> bool:
    return "author" in value and ("invocationId" in value or "invocation_id" in value)


def _run(events: Sequence[Mapping[str, Any]], session: Mapping[str, Any]) -> Run:
    builder = RunBuilder()
    error = ""
    whole = [{key_of(name): value for name, value in event.items()} for event in events]
    whole = [event for event in whole if not event.get("partial")]
    for number, event in enumerate(whole, 1):
        author = text_of(event.get("author"))
        used = tokens_in(event)
        builder.at(event.get("timestamp"))
        builder.spend(used.input, used.output)
        builder.note(model=event.get("modelversion"))
        error = text_of(event.get("errormessage") or event.get("errorcode"))
        builder.message("harness", error, str(number))
        if isinstance(event.get("content"), dict):
            message = {"parts": event["content"].get("parts"), "name": author}
            add_message(builder, message, str(number), role="user" if author == "user" else "assistant")
    return builder.run(
        id=text_of(session.get("id")),
        reason=f"The last event is an error: {error}" if error else "",
        is_interrupted=any(event.get("interrupted") is True for event in whole[-1:]),
    )


READERS: Final = (GoogleADKReader(),)

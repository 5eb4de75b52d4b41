"""The connection to Opik: what it shares, keeps, reports, and leaves to the user."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from ace import ACEStepContext
from ace_opik import OpikStep, connection, flush
from ace_opik.connection import Connection, SpanRecord, TraceRecord, redacted
from ace_opik.steps import extra_steps
from tests.opik.receiver import Receiver
from tests.opik.with_opik import close_connections, without_callbacks

NOW = datetime(2026, 11, 26, 12, 0, 0, tzinfo=UTC)
TRACE = TraceRecord(
    "parcels",
    "ace_sample",
    NOW,
    NOW,
    spans=[
        SpanRecord(
            "chat m",
            NOW,
            NOW,
            "llm",
            metadata={"turn": 1},
            model="m",
            provider="openai",
            usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
        )
    ],
)


@dataclass
class Client:
    """Has the methods of Opik's client that are used; a client that fails in this way cannot be provoked."""

    error: Exception | None = None
    is_flushed: bool = True
    dropped: int = 0
    detail: str | None = "status 503"
    calls: list[str] = field(default_factory=list)
    config: Any = field(default_factory=lambda: SimpleNamespace(url_override="http://opik/api"))

    def trace(self, **fields: object) -> Any:
        if self.error is not None:
            raise self.error
        self.calls.append("trace")
        return SimpleNamespace(id="t")

    def span(self, **fields: object) -> object:
        self.calls.append("span")
        return None

    def flush(self, timeout: float) -> bool:
        self.calls.append("flush" if timeout <= 5 else f"flush for {timeout} seconds")
        return self.is_flushed

    def get_errors_report(self) -> Any:
        failures = [SimpleNamespace(detail=None), SimpleNamespace(detail=self.detail)] if self.dropped else []
        return SimpleNamespace(total_dropped_items=self.dropped, failures=failures)

    def end(self, timeout: float | None = None, *, flush: bool = True) -> object:
        self.calls.append(f"end flush={flush}")
        return None


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with Receiver() as started:
        for name, value in started.environ.items():
            monkeypatch.setenv(name, value)
        yield started
        close_connections()


@pytest.mark.parametrize("error", [OSError("full"), KeyError("id"), RuntimeError("stopped")])
def test_an_error_of_the_client_is_logged_once_and_nothing_is_waited_for(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(error)
    opened = Connection(client)
    for _ in range(2):
        opened.send(TRACE)
    opened.close()
    expected = f"ace-opik: a trace was not sent: {type(error).__name__}: {error}"
    assert [record.getMessage() for record in caplog.records] == [expected]
    assert client.calls == ["end flush=False"]


def test_a_closed_connection_sends_nothing_and_ends_once() -> None:
    client = Client()
    opened = Connection(client)
    opened.send(TRACE)
    opened.close()
    opened.close()
    opened.send(TRACE)
    assert client.calls == ["trace", "span", "flush", "end flush=False"]


@pytest.mark.parametrize(
    ("client", "said"),
    [
        (Client(dropped=2), "2 traces and spans were lost, because http://opik/api did not accept them: status 503"),
        (
            Client(dropped=2, detail=None),
            "2 traces and spans were lost, because http://opik/api did not accept them: it did not answer in time",
        ),
        (
            Client(is_flushed=False),
            "traces were lost, because http://opik/api did not accept them: it did not answer in time",
        ),
    ],
)
def test_what_was_lost_is_reported_at_the_end_even_after_another_warning(
    client: Client, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    opened = Connection(client)
    assert not opened.flush(1.0)
    opened.send(TRACE)
    opened.warn("a call was not reported")
    opened.close()
    assert [record.getMessage() for record in caplog.records] == [
        "ace-opik: a call was not reported",
        f"ace-opik: {said}",
    ]
    assert client.calls[-1] == "end flush=False"


def test_everything_of_a_span_arrives(receiver: Receiver) -> None:
    opened = connection.connect()
    assert opened is not None
    opened.send(TRACE)
    assert flush(timeout=30.0)
    [trace], [span] = receiver.traces, receiver.spans
    assert trace["project_name"] == span["project_name"] == "parcels" and span["trace_id"] == trace["id"]
    assert (span["name"], span["type"], span["model"], span["provider"]) == ("chat m", "llm", "m", "openai")
    assert span["metadata"]["turn"] == 1 and span["usage"]["total_tokens"] == 3


def test_steps_share_a_connection_unless_the_variables_differ(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = connection.connect()
    assert connection.connect() is first
    monkeypatch.setenv("OPIK_WORKSPACE", "other")
    assert connection.connect() is not first


def test_an_own_server_needs_no_key(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("OPIK_API_KEY")
    monkeypatch.delenv("OPIK_WORKSPACE")
    OpikStep()(ACEStepContext(sample="2+2?"))
    assert flush(timeout=30.0)
    [post] = [request for request in receiver.requests if request.path == "/api/v1/private/traces/batch"]
    assert "authorization" not in post.headers and post.headers["comet-workspace"] == "default"
    assert caplog.records == []


@pytest.mark.parametrize("shown", [False, True])
def test_the_variables_of_the_user_are_kept(shown: bool, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("opik")
    monkeypatch.setattr(logger, "level", logging.INFO)
    monkeypatch.setenv("OPIK_DEFAULT_FLUSH_TIMEOUT", "3")
    if shown:
        monkeypatch.setenv("OPIK_CONSOLE_LOGGING_LEVEL", "ERROR")
    OpikStep()
    assert os.environ["OPIK_DEFAULT_FLUSH_TIMEOUT"] == "3"
    assert (logger.level == logging.CRITICAL) is not shown


def test_other_clients_of_the_process_do_not_wait_indefinitely_at_its_end(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPIK_DEFAULT_FLUSH_TIMEOUT", raising=False)
    OpikStep()
    assert float(os.environ["OPIK_DEFAULT_FLUSH_TIMEOUT"]) < 5


def test_there_is_no_step_if_opik_is_switched_off(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    with without_callbacks():
        assert len(extra_steps()) == 1
        monkeypatch.setenv("OPIK_DISABLED", "true")
        assert extra_steps() == [] and connection.connect() is None


def test_redacted_values_keep_their_shape() -> None:
    nested: Any = "kept"
    for _ in range(12):
        nested = [nested]
    value = {"password": "", "api_key": "abc", "ratio": 1.5, "flag": True, "none": None, "pair": ("a", "b"), "deep": 1}
    assert redacted(value) == {**value, "api_key": "[hidden: secret]", "pair": ["a", "b"]}
    assert redacted(nested) == nested
    assert "kept" not in str(redacted([nested])) and "<list>" in str(redacted([nested]))

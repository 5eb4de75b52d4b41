"""A timeout bounds the whole answer, and what was wrong with a connection is named."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from ace.protocols import LLMCallError, LLMResponse
from ace.providers import LiteLLMClient, wrap_with_instructor
from tests.support.clients import client_for
from tests.support.command_line import ace
from tests.support.scripted_server import (
    CutBody,
    Dripping,
    HttpError,
    NoResponse,
    ScriptedServer,
    in_turn,
)

pytestmark = pytest.mark.usefixtures("each_transport")

Complete = Callable[[LiteLLMClient], LLMResponse]


def completed(client: LiteLLMClient) -> LLMResponse:
    return client.complete("x")


def completed_on_loop(client: LiteLLMClient) -> LLMResponse:
    return asyncio.run(client.acomplete("x"))


def completed_by_instructor(client: LiteLLMClient) -> LLMResponse:
    return wrap_with_instructor(client).complete("x")


@pytest.fixture(params=[completed, completed_on_loop, completed_by_instructor], ids=lambda call: call.__name__)
def complete(request: pytest.FixtureRequest) -> Complete:
    with ScriptedServer(in_turn("warm")) as server:  # the first call of a process imports what it needs
        request.param(client_for(server))
    return cast("Complete", request.param)


DRIPPING = Dripping("the whole answer", seconds_between=0.1)
"""Would be complete after more than ten seconds, and every read succeeds long before any timeout."""


def test_an_answer_that_drips_is_given_up_at_the_deadline(complete: Complete) -> None:
    with ScriptedServer(in_turn(DRIPPING)) as server:
        client = client_for(server, timeout=0.5, max_retries=1)
        with pytest.raises(LLMCallError, match=r"timeout: the answer was not complete within 0\.5 s") as raised:
            complete(client)
        assert raised.value.status_code == 408
        while len(server.requests) < raised.value.attempts:  # a busy server may read a request after the deadline
            time.sleep(0.01)
        assert len(server.requests) == client.usage.failed_requests == raised.value.attempts == 2


def test_after_an_answer_that_drips_the_next_one_counts(complete: Complete) -> None:
    with ScriptedServer(in_turn(DRIPPING, "at once")) as server:
        client = client_for(server, timeout=2.0)  # within which a busy machine answers at once, too
        assert complete(client).text == "at once"


def test_a_server_that_says_nothing_is_given_up_too(complete: Complete) -> None:
    with ScriptedServer(in_turn(NoResponse(5.0))) as server, pytest.raises(LLMCallError, match="timeout"):
        complete(client_for(server, timeout=0.5, max_retries=0))


def test_an_answer_that_is_cut_is_named(complete: Complete) -> None:
    with ScriptedServer(in_turn(CutBody())) as server:
        with pytest.raises(LLMCallError, match="closed the connection before its answer was complete") as raised:
            complete(client_for(server, max_retries=0))
        assert raised.value.problem == "the server closed the connection before its answer was complete"


def test_a_server_that_is_not_there_has_no_problem_but_that(complete: Complete) -> None:
    with pytest.raises(LLMCallError) as raised:
        complete(LiteLLMClient("openai/x", api_base="http://127.0.0.1:9/v1", api_key="k", max_retries=0))
    assert raised.value.problem == ""


def test_other_errors_have_no_problem_of_the_connection(complete: Complete) -> None:
    with ScriptedServer(in_turn(HttpError(400, "no good"))) as server:
        with pytest.raises(LLMCallError) as raised:
            complete(client_for(server))
        assert raised.value.problem == ""


@pytest.fixture(scope="module")
def untrusted(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A TLS context whose certificate was signed by itself."""
    folder = tmp_path_factory.mktemp("certificate")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def test_a_certificate_that_is_not_trusted_is_named(complete: Complete, untrusted: ssl.SSLContext) -> None:
    with ScriptedServer(in_turn("never"), tls=untrusted) as server:
        client = LiteLLMClient("openai/x", api_base=server.api_base, api_key="k", max_retries=0)
        with pytest.raises(LLMCallError, match="the certificate of the server is not trusted") as raised:
            complete(client)
        assert raised.value.problem.startswith("the certificate of the server is not trusted: self")
        assert server.requests == []


def test_the_command_names_the_certificate(untrusted: ssl.SSLContext, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a trace", encoding="utf-8")
    with ScriptedServer(in_turn("never"), tls=untrusted) as server:
        done = ace("learn", "t.txt", "--model", "openai/x", "--api-base", server.api_base, folder=tmp_path)
    assert done.code != 0
    assert "the certificate of the server is not trusted" in done.err
    assert "cannot be reached" not in done.err


def test_the_command_names_an_answer_that_was_cut(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a trace", encoding="utf-8")
    with ScriptedServer(in_turn(CutBody())) as server:
        done = ace("learn", "t.txt", "--model", "openai/x", "--api-base", server.api_base, folder=tmp_path)
    assert done.code != 0
    assert "closed the connection before its answer was complete" in done.err
    assert "cannot be reached" not in done.err


def test_the_command_gives_up_an_answer_that_drips(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a trace", encoding="utf-8")
    with ScriptedServer(in_turn("ready", DRIPPING)) as server:
        arguments = ("--model", "openai/x", "--api-base", server.api_base, "--timeout", "0.5")
        done = ace("learn", "t.txt", *arguments, folder=tmp_path)
    assert done.code != 0
    assert "the answer was not complete within 0.5 s" in done.out


def test_the_command_names_no_status_that_the_server_did_not_send(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("a trace", encoding="utf-8")
    with ScriptedServer(in_turn(DRIPPING)) as server:
        arguments = ("--model", "openai/x", "--api-base", server.api_base, "--timeout", "0.5")
        done = ace("learn", "t.txt", *arguments, folder=tmp_path)
    assert done.code == 2
    model = f"the server at {server.api_base} gave no answer for the model 'openai/x'"
    assert f"{model}: the answer was not complete within 0.5 s" in done.err

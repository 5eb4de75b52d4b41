"""Where spans go, and what happens if they cannot be delivered."""

from __future__ import annotations

import base64
import json
import logging
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from ace.integrations import UsageError
from ace.protocols.observers import RunEnded, RunStarted, SampleEnded, SampleStarted, emit
from ace_otel import instrument
from ace_otel.backends import BACKENDS, destination
from ace_otel.plugin import ace_observers
from tests.otel.collector import Collector
from tests.support.command_line import ace
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer


class Documented(NamedTuple):
    """What the documentation of a backend says."""

    variables: Mapping[str, str]
    address: str
    path: str
    headers: Mapping[str, str]
    takes_more: bool = False
    """Whether it receives metrics and log events, too."""


# Checked on 2026-11-24 against the packages langfuse 5.0.4, logfire 5.2.0, mlflow 3.17.2 and arize-phoenix-otel 0.17.2;
# Opik as known on 2026-11-23. The address is the variable that names the collector.
DOCUMENTED = {
    "langfuse": Documented(
        {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-2"},
        "LANGFUSE_BASE_URL",
        "/api/public/otel/v1/traces",
        {
            "authorization": f"Basic {base64.b64encode(b'pk-lf-1:sk-lf-2').decode()}",
            "x-langfuse-ingestion-version": "4",
        },
    ),
    "logfire": Documented(
        {"LOGFIRE_TOKEN": "t"}, "LOGFIRE_BASE_URL", "/v1/traces", {"authorization": "t"}, takes_more=True
    ),
    "mlflow": Documented(
        {"MLFLOW_EXPERIMENT_ID": "7"}, "MLFLOW_TRACKING_URI", "/v1/traces", {"x-mlflow-experiment-id": "7"}
    ),
    "opik": Documented(
        {"OPIK_API_KEY": "k", "OPIK_WORKSPACE": "w", "OPIK_PROJECT_NAME": "p"},
        "OPIK_URL_OVERRIDE",
        "/v1/private/otel/v1/traces",
        {"authorization": "k", "comet-workspace": "w", "projectname": "p"},
    ),
    "phoenix": Documented(
        {"PHOENIX_API_KEY": "k"}, "PHOENIX_COLLECTOR_ENDPOINT", "/v1/traces", {"authorization": "Bearer k"}
    ),
}


def send_a_run() -> None:
    emit(RunStarted("r", "trace_analyser", 1, 1, resumed=False))
    emit(SampleStarted("r", "t", 1, 1))
    emit(SampleEnded("r", "t", 1, 1, None, None, 0.1, already_learned=False))
    emit(RunEnded("r", 1, 0, 0, 0, 0.1, ""))


def test_every_backend_is_documented() -> None:
    assert set(DOCUMENTED) == set(BACKENDS)


@pytest.mark.parametrize("backend", sorted(DOCUMENTED))
def test_a_backend_gets_its_path_and_headers(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    documented = DOCUMENTED[backend]
    with Collector() as collector:
        for name, value in {**documented.variables, documented.address: collector.address}.items():
            monkeypatch.setenv(name, value)
        with instrument(backend):
            send_a_run()
        traces = [post for post in collector.posts if not post.path.endswith(("/metrics", "/logs"))]
        assert {post.path for post in traces} == {documented.path}
        for post in traces:
            assert {name: post.headers[name] for name in documented.headers} == documented.headers
            assert post.headers["content-type"] == "application/x-protobuf"
        others = {post.path for post in collector.posts} - {documented.path}
        assert others == ({"/v1/metrics", "/v1/logs"} if documented.takes_more else set())
        for post in collector.posts:
            assert {name: post.headers[name] for name in documented.headers} == documented.headers
        assert sorted(span.name for span in collector.spans) == ["ace.run", "ace.sample"]


@pytest.mark.parametrize(
    ("token", "address"),
    [
        ("pylf_v1_us_abc", "https://logfire-us.pydantic.dev"),
        ("pylf_v2_eu_abc", "https://logfire-eu.pydantic.dev"),
        ("pylf_v1_mars_abc", "https://logfire-us.pydantic.dev"),
        ("from-before-there-were-regions", "https://logfire-us.pydantic.dev"),
    ],
)
def test_a_token_of_logfire_names_its_region(token: str, address: str) -> None:
    found = destination("logfire", {"LOGFIRE_TOKEN": token})
    assert found.traces == f"{address}/v1/traces"
    assert (found.metrics, found.logs) == (f"{address}/v1/metrics", f"{address}/v1/logs")
    assert found.headers == {"authorization": token}
    own = destination("logfire", {"LOGFIRE_TOKEN": token, "LOGFIRE_BASE_URL": "http://own"})
    assert own.traces == "http://own/v1/traces"


def test_the_project_of_phoenix() -> None:
    older = {"PHOENIX_PROJECT_NAME": "a"}
    assert destination("phoenix", older).resource == {"openinference.project.name": "a"}
    assert destination("phoenix", {**older, "PHOENIX_PROJECT": "b"}).resource == {"openinference.project.name": "b"}


def test_the_credentials_of_mlflow() -> None:
    def authorization(**variables: str) -> str | None:
        return destination("mlflow", variables).headers.get("authorization")

    token, login = {"MLFLOW_TRACKING_TOKEN": "t"}, {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "p"}
    basic = f"Basic {base64.b64encode(b'u:p').decode()}"
    assert authorization() is None
    assert authorization(**token) == authorization(MLFLOW_TRACKING_USERNAME="u", **token) == "Bearer t"
    assert authorization(**login) == authorization(**token, **login) == basic
    assert destination("mlflow", {"MLFLOW_WORKSPACE": "w"}).headers == {
        "x-mlflow-experiment-id": "0",
        "x-mlflow-workspace": "w",
    }


def test_the_variables_of_opentelemetry_take_precedence() -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20x,team=a",
        "PHOENIX_COLLECTOR_ENDPOINT": "http://phoenix",
        "PHOENIX_API_KEY": "k",
    }
    found = destination("phoenix", environ)
    assert found.traces == "http://collector:4318/v1/traces"
    assert found.headers == {"authorization": "Bearer x", "team": "a"}


def test_metrics_and_log_events_can_be_switched_off_or_sent_elsewhere() -> None:
    base = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    found = destination("", base)
    assert (found.metrics, found.logs) == ("http://collector:4318/v1/metrics", "http://collector:4318/v1/logs")
    assert destination("", {**base, "OTEL_METRICS_EXPORTER": "none"}).metrics == ""
    assert destination("", {**base, "OTEL_LOGS_EXPORTER": "none"}).logs == ""
    assert destination("", {**base, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://loki/otlp"}).logs == "http://loki/otlp"
    with Collector() as collector, pytest.MonkeyPatch.context() as environ:
        for name in ("OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"):
            environ.setenv(name, "none")
        environ.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        with instrument():
            send_a_run()
        assert {post.path for post in collector.posts} == {"/v1/traces"}


CLOSED = "http://127.0.0.1:9"
"""Nothing listens on the port for discarded data. A free port could be taken by another server meanwhile."""


@pytest.mark.parametrize("kind", ["unreachable", "error", "silent"])
def test_a_collector_that_does_not_receive(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Collector(status=500 if kind == "error" else 200, silent=kind == "silent") as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", CLOSED if kind == "unreachable" else collector.address)
        with caplog.at_level(logging.WARNING):
            sending = instrument()
            started = time.monotonic()
            send_a_run()
            told = time.monotonic() - started
            sending.close()
            closed = time.monotonic() - started - told
    [warning] = caplog.records
    assert warning.getMessage().startswith("ace-otel: 2 of 2 spans were lost, because http://127.0.0.1:")
    if kind == "unreachable":
        assert "refused" in warning.getMessage()
    # The limit of the design; a process that is not given the processor may take longer.
    print(f"{kind}: events {told * 1e6:.0f} us, end {closed:.2f} s")


def check(folder: Path, address: str) -> tuple[int, bool, str]:
    done = ace("otel", "check", "--json", folder=folder, environ={"OTEL_EXPORTER_OTLP_ENDPOINT": address})
    assert done.data["received"] == (done.code == 0)
    return done.code, done.data["received"], done.data["problem"]


def test_the_check_tells_received_from_lost(tmp_path: Path) -> None:
    with Collector() as collector:
        assert check(tmp_path, collector.address) == (0, True, "")
        assert [span.name for span in collector.spans] == ["ace.otel.check"]
        done = ace("otel", "check", folder=tmp_path, environ=collector.environ)
        assert done.code == 0 and done.out.startswith(f"received: {collector.address}/v1/traces accepted the span")
    with Collector(rejected=1) as collector:
        assert check(tmp_path, collector.address) == (1, False, "it rejected the span: the project does not exist")
    with Collector(status=401) as collector:
        assert check(tmp_path, collector.address) == (1, False, "status 401 Unauthorized")
    with Collector(content_type="text/html", rejected=1) as collector:
        code, _, problem = check(tmp_path, collector.address)
        assert (code, "not the address of an OTLP receiver" in problem) == (1, True)
    code, _, problem = check(tmp_path, CLOSED)
    assert (code, "refused" in problem) == (1, True)


def test_wrong_use_of_the_check(tmp_path: Path) -> None:
    done = ace("otel", "check", "langfuse", folder=tmp_path)
    assert done.code == 2
    assert "langfuse requires the environment variable LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY" in done.err
    done = ace("otel", "check", "fenix", folder=tmp_path)
    assert done.code == 2
    assert "no backend 'fenix'; the backends are langfuse, logfire, mlflow, opik, phoenix" in done.err
    done = ace("otel", "check", folder=tmp_path, environ={"OTEL_SDK_DISABLED": "true"})
    assert done.code == 2 and "OTEL_SDK_DISABLED is set" in done.err


def test_a_backend_without_its_keys_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"question": "2+2?", "answer": "4"}))
    with ScriptedServer(learning_script()) as server:
        model = ["--model", "openai/scripted", "--api-base", server.api_base]
        done = ace("learn", "a.json", "--otel", "langfuse", *model, folder=tmp_path)
        assert done.code == 2 and server.requests == []
    assert done.err == (
        "ace: --otel langfuse requires LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY; set the environment variables\n"
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "a.json"]


def test_the_option_requires_the_keys_that_the_backends_need() -> None:
    [spec] = ace_observers()
    assert spec.options[0].values == tuple(sorted(BACKENDS))
    for backend in BACKENDS:
        required = spec.options[0].required_variables.get(backend, ())
        if required:
            with pytest.raises(UsageError, match=" and ".join(required) + "$"):
                destination(backend, {})
        destination(backend, dict.fromkeys(required, "k"))


def test_the_help_lists_the_options_without_opentelemetry() -> None:
    code = "import sys; from ace.cli.start import run; run(['learn', '--help-all']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown, modules = " ".join(done.stdout.split()), done.stdout.splitlines()[-1].split()
    assert "--otel langfuse|logfire|mlflow|opik|phoenix Send spans" in shown and "--otel-content Also send" in shown
    assert "ace_otel.plugin" in modules and not {"opentelemetry", "ace_otel.backends"} & {*modules}


def test_an_unknown_value_of_the_option(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"question": "2+2?", "answer": "4"}))
    done = ace("learn", "a.json", "--otel=fenix", folder=tmp_path)
    assert done.code == 2
    assert "--otel takes langfuse, logfire, mlflow, opik or phoenix; got 'fenix'" in done.err

"""How Opik is switched off, and what happens if it is missing, misconfigured or does not answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from tests.opik.receiver import Receiver

WITHOUT_OPIK = "import sys\nsys.modules['opik'] = None\n"
USE = """
import json, logging, sys, threading
logging.basicConfig(format="%(message)s")
from ace import ACEStepContext
from ace_opik import OpikStep, RROpikStep, flush, register_opik_litellm_callback

step = OpikStep()
RROpikStep()
for number in range(20):
    step(ACEStepContext(sample=f"question {number}"))
registered = register_opik_litellm_callback()
print(json.dumps([flush(0.5), registered, "opik" in sys.modules and sys.modules["opik"] is not None]))
"""
ENABLED = """
import json
from ace import ACELiteLLM
try:
    ace = ACELiteLLM.from_model("openai/m", api_key="k" * 9, api_base="http://127.0.0.1:9/v1", opik=True)
    print(json.dumps("enabled"))
except (ImportError, RuntimeError) as error:
    print(json.dumps(f"{type(error).__name__}: {error}"))
"""


def result_of(code: str, environ: Mapping[str, str]) -> tuple[object, str]:
    """What a program prints in a process of its own, and what it logs."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OPIK_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "HOME": "/nonexistent", **environ},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize(
    "switch",
    [
        {"OPIK_DISABLED": "true"},
        {"OPIK_DISABLED": " Yes "},
        {"OPIK_DISABLED": "on"},
        {"OPIK_ENABLED": "false"},
        {"OPIK_ENABLED": "0"},
        {"OPIK_ENABLED": "no"},
        {"OPIK_ENABLED": "OFF"},
        {"OPIK_DISABLED": "1", "OPIK_ENABLED": "true"},
    ],
)
def test_switched_off(switch: Mapping[str, str]) -> None:
    with Receiver() as receiver:
        assert result_of(USE, {**receiver.environ, **switch}) == ([True, False, False], "")
        assert receiver.requests == []


def test_without_the_package_the_steps_do_nothing() -> None:
    assert result_of(WITHOUT_OPIK + USE, {}) == ([True, False, False], "")


@pytest.mark.parametrize("value", ["true", "1"])
def test_switched_off_also_if_it_is_enabled_by_argument(value: str) -> None:
    with Receiver() as receiver:
        assert result_of(ENABLED, {**receiver.environ, "OPIK_DISABLED": value}) == ("enabled", "")
        assert receiver.requests == []


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "RuntimeError: Opik's cloud needs a key: set OPIK_API_KEY"),
        ({"OPIK_URL_OVERRIDE": "localhost"}, "RuntimeError: OPIK_URL_OVERRIDE must be a URL such as"),
        ({"OPIK_API_KEY": "k", "OPIK_BACKGROUND_WORKERS": "x"}, "RuntimeError: Opik's client cannot start: "),
    ],
)
def test_a_client_that_cannot_start(environ: Mapping[str, str], said: str) -> None:
    printed, _ = result_of(ENABLED, environ)
    assert str(printed).startswith(said)
    # Used directly, the steps warn instead.
    printed, logged = result_of(USE, environ)
    assert isinstance(printed, list) and printed[:2] == [True, False]
    assert logged.startswith("ace-opik: nothing is sent: " + said.removeprefix("RuntimeError: "))


def test_without_the_package_the_argument_fails() -> None:
    printed, _ = result_of(WITHOUT_OPIK + ENABLED, {"OPIK_URL_OVERRIDE": "http://127.0.0.1:9/api"})
    assert str(printed).startswith(("MissingFrameworkError: ", "ImportError: ", "ModuleNotFoundError: "))


@pytest.mark.parametrize("kind", ["unreachable", "error", "silent"])
def test_a_server_that_does_not_receive(kind: str) -> None:
    with Receiver(status=500 if kind == "error" else 204, silent=kind == "silent") as receiver:
        # Nothing listens on the port for discarded data; a free one could be taken by another server meanwhile.
        address = {"OPIK_URL_OVERRIDE": "http://127.0.0.1:9/api"} if kind == "unreachable" else {}
        printed, logged = result_of(USE, {**receiver.environ, **address})
    assert printed == [False, True, True]
    warnings = [line for line in logged.splitlines() if line.startswith("ace-opik: ")]
    assert len(warnings) == 1 and "lost, because http://127.0.0.1:" in warnings[0], logged


def test_what_is_waiting_is_sent_when_the_process_ends() -> None:
    without_flush = USE.replace("flush(0.5)", "True")
    with Receiver() as receiver:
        assert result_of(without_flush, receiver.environ)[1] == ""
        assert sorted(trace["input"]["question"] for trace in receiver.traces) == sorted(
            f"question {number}" for number in range(20)
        )


def test_opik_reports_nothing_to_its_makers() -> None:
    code = """
import json
from ace.providers import load_litellm
load_litellm()
import sentry_sdk
from ace_opik import OpikStep
OpikStep()
from opik import analytics
print(json.dumps([sentry_sdk.is_initialized(), analytics.reporting_allowed()]))
"""
    with Receiver() as receiver:
        assert result_of(code, receiver.environ)[0] == [False, False]

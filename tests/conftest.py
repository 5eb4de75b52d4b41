"""Settings for all tests, the command line in the process of a test, and a scripted model that learns."""

import gc
import io
import os
import signal
import sys
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.command_line import Done, Run, command_environment
from tests.support.learning_script import learning_script
from tests.support.scripted_server import ScriptedServer

# No test fails for being slow: the machine is shared. Where everything is required, as on CI, the examples are the same
# in every run, so that a failure comes from the change under test.
settings.register_profile(
    "ace",
    max_examples=50,  # a test whose input has many forms asks for more
    deadline=None,
    print_blob=True,
    derandomize="ACE_REQUIRE" in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ace")

# What one test learns about a server is not used in another one, whose server may have the same port. The commands of
# the tests have a home folder of their own, where it is kept.
os.environ["ACE_SERVERS"] = "off"

# Compiling the rules for keys of services takes 3 seconds; a process whose home folder is new would do it again.
os.environ.setdefault("KF_RULE_CACHE_DIR", str(Path.home() / ".cache" / "kingfisher" / "rule-cache"))

# A shell starts its background jobs with Ctrl-C ignored, and whatever they start inherits that; the tests that
# interrupt a process would wait indefinitely.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector never look at the modules of all tests and libraries, which live until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `ace` in this process and in the folder of the test: quicker, where a process of its own shows no more."""
    from ace.cli import main  # not every test has ACE

    environment = command_environment(tmp_path)
    for name in os.environ.keys() - environment.keys():
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def run(
        *arguments: str | Path, folder: Path | None = None, environ: Mapping[str, str] | None = None, stdin: str = ""
    ) -> Done:
        with monkeypatch.context() as changed:
            if folder is not None:
                changed.chdir(folder)
                changed.setenv("HOME", str(folder))
                changed.setenv("XDG_CONFIG_HOME", str(folder / ".config"))
            for name, value in (environ or {}).items():
                changed.setenv(name, value)
            changed.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode("utf-8")), encoding="utf-8"))
            capsys.readouterr()
            code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err, printed.err
        return Done(code, printed.out, printed.err)

    return run


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(learning_script()) as started:
        yield started


@pytest.fixture
def model(server: ScriptedServer) -> list[str]:
    """The arguments that name the scripted model."""
    return ["--model", "openai/scripted", "--api-base", server.api_base]

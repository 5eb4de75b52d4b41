"""The kit that integrations share."""

import subprocess
import sys

import ace._internal.arguments
import ace.calls
import ace.cli.console
import ace.cli.errors
import ace.integrations
import ace.protocols.observers

HEAVY = ("asyncio", "cyclopts", "litellm", "pydantic", "ace.cli", "ace.pipeline")


def test_each_name_of_the_kit_is_there() -> None:
    assert [name for name in ace.integrations.__all__ if getattr(ace.integrations, name, None) is None] == []


def test_a_name_of_the_kit_is_the_same_object_as_where_it_comes_from() -> None:
    assert ace.integrations.note is ace.cli.console.note
    assert ace.integrations.UsageError is ace.cli.errors.UsageError
    assert ace.integrations.within_seconds is ace.calls.within_seconds
    assert ace.integrations.observing is ace.protocols.observers.observing
    assert ace.integrations.checked_arguments is ace._internal.arguments.checked_arguments


def test_the_kit_is_reached_through_ace() -> None:
    code = "import ace; print(ace.integrations.DONE)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "0\n"


def test_importing_the_kit_loads_nothing_of_it() -> None:
    code = "import sys, ace.integrations; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert [name for name in HEAVY if name in done.stdout.split()] == []

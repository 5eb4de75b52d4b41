"""The service is loaded by the commands that need it only, and by their help as little as by any."""

from pathlib import Path

import pytest

from tests.support.loaded_modules import modules_of_command, top_level

SERVICE = {"cryptography", "dbos", "fastapi", "jinja2", "limits", "sqlalchemy", "starlette", "uvicorn"}


@pytest.mark.parametrize("arguments", [["--help"], ["skillbook", "--help"], ["--version"]])
def test_other_commands_do_not_load_the_service(tmp_path: Path, arguments: list[str]) -> None:
    _, loaded = modules_of_command(tmp_path, *arguments, site=True)
    assert "ace.cli.start" in loaded
    assert sorted(SERVICE & set(map(top_level, loaded))) == []


def test_the_help_of_the_service_loads_no_engine(tmp_path: Path) -> None:
    printed, loaded = modules_of_command(tmp_path, "server", "run", "--help", site=True)
    assert "ace server run" in printed
    assert sorted({"ace_server", *SERVICE} & set(map(top_level, loaded))) == []

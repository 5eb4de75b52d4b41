"""`ace plugins --check` imports everything that a plugin names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import ace

SOURCE = """
from ace.plugins import TraceConverterSpec, hookimpl

ACE_API = 1

class ToTrace:
    requires = provides = frozenset({{"trace"}})

    def __call__(self, ctx):
        return ctx

def known(record):
    return 0.0

@hookimpl
def ace_trace_converters():
    yield TraceConverterSpec(name="logbook", target="logbook_plugin:ToTrace", {field}="logbook_plugin:{name}"{also})
"""


@pytest.mark.parametrize("field", ["accepts", "recognises"])
def test_a_reference_of_a_converter_that_does_not_exist_is_named(field: str, tmp_path: Path) -> None:
    info = tmp_path / "site" / "ace_logbook-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ace-logbook\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[ace.plugins]\nlogbook = logbook_plugin\n", encoding="utf-8")
    source = SOURCE.format(field=field, name="lost", also="")
    (tmp_path / "site" / "logbook_plugin.py").write_text(source, encoding="utf-8")
    checked = ace("plugins", "--check", "logbook", folder=tmp_path, environ={"PYTHONPATH": str(tmp_path / "site")})
    assert checked.code == 1
    assert "logbook_plugin:lost" in checked.out + checked.err

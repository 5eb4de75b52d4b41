"""A distribution whose metadata are damaged, as a broken install leaves them, harms no other and no command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import ace

NAME = "Metadata-Version: 2.1\nName: ace-{}\nVersion: 1.0\n"
HOOKS = "[ace.plugins]\n{0} = {0}_plugin\n"
SOURCE = """
from ace.plugins import RunnerSpec, hookimpl

ACE_API = 1

@hookimpl
def ace_runners():
    yield RunnerSpec(name="healthy", target="ace.runners:TraceAnalyser")
"""


def install(site: Path, name: str, metadata: str | None, entry_points: str) -> None:
    info = site / f"ace_{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    if metadata is not None:
        (info / "METADATA").write_text(metadata, encoding="utf-8")


@pytest.mark.parametrize(
    ("metadata", "entry_points", "said"),
    [
        (NAME.format("damaged"), "[ace.plugins]\nno line\n", "ace-damaged"),
        (None, HOOKS.format("damaged"), "site"),
    ],
    ids=["entry points", "no metadata"],
)
def test_it_is_left_out_with_a_warning(metadata: str | None, entry_points: str, said: str, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "damaged", metadata, entry_points)
    install(site, "healthy", NAME.format("healthy"), HOOKS.format("healthy"))
    (site / "healthy_plugin.py").write_text(SOURCE, encoding="utf-8")
    listed = ace("plugins", "--json", folder=tmp_path, environ={"PYTHONPATH": str(site)})
    assert listed.code == 0, listed.err
    names = [info["name"] for info in listed.data["plugins"]]
    assert "healthy" in names and "damaged" not in names
    [warning] = listed.data["warnings"]
    assert said in warning and "reinstall it" in warning
    assert warning in listed.err
    checked = ace("plugins", "--check", "healthy", folder=tmp_path, environ={"PYTHONPATH": str(site)})
    assert checked.code == 0, checked.err


def test_what_gives_no_plugin_may_be_damaged(tmp_path: Path) -> None:
    site = tmp_path / "site"
    install(site, "damaged", NAME.format("damaged"), "[console_scripts]\nno line\n")
    listed = ace("plugins", "--json", folder=tmp_path, environ={"PYTHONPATH": str(site)})
    assert (listed.code, listed.err, listed.data["warnings"]) == (0, "", [])

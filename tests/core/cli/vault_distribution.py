"""A distribution of somebody else, installed in a folder: its plugin `vault` gives a store for `vault://...`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from ace.plugins import temporary

__all__ = ["install_vault", "vault_file", "vault_in_this_process"]


def install_vault(folder: Path) -> dict[str, str]:
    """Install it below a folder, where its skillbooks are too, and return the environment that has it.

    Args:
        folder: An empty folder of the test.
    """
    metadata = folder / "site" / "vault_plugin-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: vault-plugin\nVersion: 1.0\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("[ace.plugins]\nvault = vault_plugin.plugin\n", encoding="utf-8")
    package = folder / "site" / "vault_plugin"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "plugin.py").write_text(PLUGIN, encoding="utf-8")
    (package / "store.py").write_text(STORE, encoding="utf-8")
    return {"PYTHONPATH": str(folder / "site"), "VAULT": str(folder)}


@contextmanager
def vault_in_this_process(environ: dict[str, str]) -> Iterator[None]:
    """Have what was installed in this process too, without its metadata.

    Args:
        environ: What `install_vault` returned.
    """
    with pytest.MonkeyPatch.context() as changed:
        changed.syspath_prepend(environ["PYTHONPATH"])
        changed.setenv("VAULT", environ["VAULT"])
        try:
            with temporary(importlib.import_module("vault_plugin.plugin"), name="vault"):
                yield
        finally:
            for name in [name for name in sys.modules if name.partition(".")[0] == "vault_plugin"]:
                del sys.modules[name]


def vault_file(folder: Path, name: str) -> Path:
    """Return where the store keeps the skillbook `vault://NAME`."""
    return folder / name / "kept.db"


PLUGIN = dedent("""
    from ace.plugins import StoreSpec, hookimpl

    ACE_API = 1

    @hookimpl
    def ace_stores():
        yield StoreSpec(name="vault", target="vault_plugin.store:open_store", schemes=("vault",))
""")

STORE = dedent("""
    import os
    from pathlib import Path

    from ace.skillbook.sqlite_store import SqliteStore


    def open_store(location):
        name = location.removeprefix("vault://")
        if name == location or name.startswith("sealed"):
            raise PermissionError(13, "the vault is sealed", location)
        folder = Path(os.environ["VAULT"], name)
        folder.mkdir(parents=True, exist_ok=True)
        return SqliteStore(folder / "kept.db")
""")

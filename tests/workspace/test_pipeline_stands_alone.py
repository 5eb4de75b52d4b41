"""The engine could be published alone: it needs the standard library and nothing else, under any name."""

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.workspace.project import ROOT

PIPELINE = ROOT / "ace-core" / "src" / "ace" / "pipeline"


def foreign_imports(source: Path, package: Path) -> Iterator[str]:
    """The imports of a module, late ones too, that lead out of its package and the standard library."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"), str(source))):
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(level=0, module=str(module)):
                names = [module]
            case ast.ImportFrom(level=level) if level > len(source.relative_to(package).parts):
                names = [f"{'.' * level}{node.module or ''}"]
            case _:
                continue
        for name in names:
            if name.partition(".")[0] not in sys.stdlib_module_names:
                yield f"{source.name}:{node.lineno}: {name}"


def test_the_engine_imports_itself_relatively_and_the_standard_library() -> None:
    sources = list(PIPELINE.rglob("*.py"))
    assert sources
    assert [foreign for source in sources for foreign in foreign_imports(source, PIPELINE)] == []


def test_a_foreign_import_would_be_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        "import json\nfrom . import step\nfrom .step import Step\n"
        "import ace.skill\nfrom ..skill import Skill\nfrom numpy import array\n"
        "def late():\n    import pydantic\n",
        encoding="utf-8",
    )
    assert list(foreign_imports(module, tmp_path)) == [
        "module.py:4: ace.skill",
        "module.py:5: ..skill",
        "module.py:6: numpy",
        "module.py:8: pydantic",
    ]


def test_the_engine_imports_under_another_name_without_any_installed_package(tmp_path: Path) -> None:
    shutil.copytree(PIPELINE, tmp_path / "engine", ignore=shutil.ignore_patterns("__pycache__"))
    program = (
        "import importlib, pkgutil, sys, engine\n"
        "for module in pkgutil.walk_packages(engine.__path__, 'engine.'):\n"
        "    importlib.import_module(module.name)\n"
        "print(engine.Pipeline.__module__, 'ace' in sys.modules)\n"
    )
    # -S keeps site-packages out. The folder itself is on the path, because the program comes with -c.
    command = [sys.executable, "-S", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env={}, check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.startswith("engine.")
    assert done.stdout.endswith(" False\n")

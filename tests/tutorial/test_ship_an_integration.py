"""The tutorial on plugins, typed as it is written: its commands run, in order, in an empty folder."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "tutorials" / "ship-an-integration.md"
BLOCK = re.compile(r"^```(?P<info>.*)\n(?P<body>(?:.*\n)*?)```$", re.MULTILINE)
END = "--- end of the command, with code "


@dataclass(frozen=True)
class Command:
    """One line that the reader types, and what the page says that it prints."""

    line: str
    printed: str


@dataclass(frozen=True)
class File:
    """A file that the reader writes, or a part of it that replaces what stands there."""

    path: str
    text: str

    @property
    def is_part(self) -> bool:
        return self.text.startswith(" ")


def what_to_do(page: str) -> Iterator[Command | File]:
    for block in BLOCK.finditer(page):
        if block["info"] == "console":
            yield from commands(block["body"])
        elif block["info"] == "{code-block} python":
            options, _, text = block["body"].partition("\n\n")
            yield File(options.splitlines()[0].removeprefix(":caption: "), text)


def commands(body: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        line, _, printed = part.partition("\n")
        yield Command(line, printed)


class Terminal:
    """One shell, in which each command finds what the one before has changed."""

    def __init__(self, folder: Path) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("ACE_", "PYTEST_"))}
        environ.pop("VIRTUAL_ENV", None)
        # The `python` of the reader.
        environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environ["PATH"]])
        environ["ACE"] = str(ROOT)
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env={**environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "NO_COLOR": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def run(self, line: str) -> tuple[int, str]:
        """Type one line; return its exit code and what it printed."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{line}\ncode=$?; echo; echo '{END}'$code\n")
        self._shell.stdin.flush()
        printed: list[str] = []
        for said in self._shell.stdout:
            if said.startswith(END):
                return int(said.removeprefix(END)), "".join(printed).removesuffix("\n")
            printed.append(said)
        raise AssertionError(f"the shell ended: {''.join(printed)}")

    def folder(self) -> Path:
        return Path(self.run("pwd")[1].strip())

    def close(self) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait()
        assert self._shell.stdout is not None
        self._shell.stdout.close()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if "registry" not in os.environ.get("ACE_REQUIRE", "").split(","):
        pytest.skip("it installs from the package registry; `nox --session tutorial` runs it")
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


def write(file: File, folder: Path) -> None:
    path = folder / file.path
    if not file.is_part:
        path.write_text(file.text, encoding="utf-8")
        return
    # The part ends with a line that is there already, and comes in its place.
    last = file.text.splitlines()[-1] + "\n"
    there = path.read_text(encoding="utf-8")
    assert there.count(last) == 1
    path.write_text(there.replace(last, file.text), encoding="utf-8")


def test_a_reader_gets_to_a_working_wheel(terminal: Terminal) -> None:
    for step in what_to_do(PAGE.read_text(encoding="utf-8")):
        if isinstance(step, File):
            write(step, terminal.folder())
            continue
        code, printed = terminal.run(step.line)
        print(f"$ {step.line}\n{printed}")
        expected_code = 1 if " failed" in step.printed else 0
        assert code == expected_code, f"$ {step.line}\n{printed}"
        if step.printed:
            same = doctest.OutputChecker().check_output(step.printed, f"{printed.rstrip()}\n", doctest.ELLIPSIS)
            assert same, f"$ {step.line}\nprinted\n{printed}\nand the page says\n{step.printed}"


def test_the_page_has_commands_files_and_a_part() -> None:
    steps = list(what_to_do(PAGE.read_text(encoding="utf-8")))
    files = [step for step in steps if isinstance(step, File)]
    assert [file.is_part for file in files] == [False, False, True, False]
    assert len(steps) - len(files) > 10

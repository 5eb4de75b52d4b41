"""Runs the Python blocks of a Markdown file.

All blocks of a file run in order in one namespace, as a reader would type them. Where a block fenced with
``text output`` follows a Python block, what the Python block printed must equal it; ``...`` stands for
any text.
"""

import contextlib
import doctest
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

FENCE = re.compile(r"^(?P<fence>```+)(?P<info>.*)\n(?P<body>(?:.*\n)*?)(?P=fence)[ \t]*$", re.MULTILINE)
MODULE_NAME = "markdown_example"


class OutputDiffers(AssertionError):
    """An example printed something else than the file says."""


@dataclass(frozen=True)
class Example:
    """One Python block."""

    source: str
    line: int
    """The line of the file on which the source begins, counted from 1."""
    expected: str | None
    """What it prints according to the file; None where the file does not say."""


def examples_in(text: str) -> list[Example]:
    """All Python blocks of a file's text."""
    blocks = list(FENCE.finditer(text))
    followers: list[re.Match[str] | None] = [*blocks[1:], None]
    return [
        Example(
            source=block["body"],
            line=text.count("\n", 0, block.start("body")) + 1,
            expected=follower["body"] if follower and follower["info"].strip() == "text output" else None,
        )
        for block, follower in zip(blocks, followers, strict=False)
        if block["info"].strip() == "python"
    ]


def run_examples(file: Path) -> None:
    """Run all Python blocks of a file.

    Raises:
        OutputDiffers: A block printed something else than the file says.
    """
    # A module of its own, known to the interpreter, so that dataclasses and type hints in the examples work.
    module = ModuleType(MODULE_NAME)
    sys.modules[MODULE_NAME] = module
    try:
        for example in examples_in(file.read_text(encoding="utf-8")):
            run_example(example, module, file)
    finally:
        del sys.modules[MODULE_NAME]


def run_example(example: Example, module: ModuleType, file: Path) -> None:
    # Empty lines before the source make every traceback show the line of the Markdown file.
    code = compile("\n" * (example.line - 1) + example.source, str(file), "exec")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, module.__dict__)
    if example.expected is None:
        return
    checker = doctest.OutputChecker()
    if not checker.check_output(example.expected, printed.getvalue(), doctest.ELLIPSIS):
        raise OutputDiffers(
            f"{file}:{example.line}: the example printed\n{printed.getvalue()}\nbut the file says\n{example.expected}"
        )

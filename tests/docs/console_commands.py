"""Finds the commands of a page: the lines of its ``console`` blocks that begin with a dollar sign."""

import re
import shlex

BLOCK = re.compile(r"^```console\n(?P<body>(?:.*\n)*?)```$", re.MULTILINE)


def commands_in(text: str) -> list[list[str]]:
    """All commands of a page, each as a list of its words, in order."""
    lines = [line for block in BLOCK.finditer(text) for line in block["body"].splitlines()]
    return [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.startswith("$ ")]

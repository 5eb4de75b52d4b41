"""The command line of the benchmarks that are modules of their own, such as `python -m benchmarks.skillbook`."""

from __future__ import annotations

import argparse


def parser_of(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser without options.

    Args:
        module: The name of the module in `benchmarks`.
        description: What the help says above the options: the docstring of the module.
    """
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks.{module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,  # the docstring has its own paragraphs
    )


def add_quick(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the option `--quick`.

    Args:
        parser: The parser of a benchmark.
        what: How little it measures with this option.
    """
    parser.add_argument("--quick", action="store_true", help=f"{what}; checks that it works, not how fast it is")


def add_markdown(parser: argparse.ArgumentParser) -> None:
    """Add the option `--markdown`."""
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table, as in the documentation")

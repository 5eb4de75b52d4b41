"""The command: `python -m benchmarks.secrets_in_text`."""

from __future__ import annotations

import sys

import benchmarks.secrets_in_text
from ace.redaction import Redactor
from benchmarks.options import parser_of
from benchmarks.secrets_in_text.scores import SETS, false, missed, table


def main() -> int:
    parser_of("secrets_in_text", benchmarks.secrets_in_text.__doc__).parse_args()
    find = Redactor().find
    for name, planted, innocent, _ in SETS:
        for text in missed(planted, find):
            print(f"{name}: missed: {text.kind}: {text.text!r}")
        for words in false(innocent, find):
            print(f"{name}: false: {words!r}")
    print(f"\n{table(find)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

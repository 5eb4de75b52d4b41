"""The module `difflib` for sessions, whose interpreter lacks it: compares texts and lists of lines.

The sandbox is fed the text of this file. It runs there rather than on the host, so that the limits of the session apply
to slow comparisons. Where the standard library returns a generator, this returns a list.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SequenceMatcher", "get_close_matches", "ndiff", "unified_diff"]

_Match = namedtuple("_Match", ["a", "b", "size"])  # a session has no classes with bases

_Opcode = tuple[str, int, int, int, int]


class SequenceMatcher:
    """Compares two sequences by their longest common blocks.

    Args:
        isjunk: Must be None.
        a: The first sequence.
        b: The second sequence.
        autojunk: Whether elements that are very frequent in a long second sequence do not begin a block.
    """

    def __init__(
        self, isjunk: None = None, a: Sequence[Any] = "", b: Sequence[Any] = "", autojunk: bool = True
    ) -> None:
        if isjunk is not None:
            raise ValueError("isjunk must be None in this session")
        self.a = a
        self.b = b
        places: dict[Any, list[int]] = {}
        for index, element in enumerate(b):
            places.setdefault(element, []).append(index)
        if autojunk and len(b) >= 200:
            most = len(b) // 100 + 1
            places = {element: indices for element, indices in places.items() if len(indices) <= most}
        self._places = places

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> _Match:
        """Return the longest common block of two parts, as (a, b, size)."""
        a_end = len(self.a) if ahi is None else ahi
        b_end = len(self.b) if bhi is None else bhi
        best_a, best_b, best = alo, blo, 0
        ending: dict[int, int] = {}  # the length of the block that ends at an index of b, and at the last index of a
        for index in range(alo, a_end):
            here: dict[int, int] = {}
            for other in self._places.get(self.a[index], []):
                if blo <= other < b_end:
                    size = ending.get(other - 1, 0) + 1
                    here[other] = size
                    if size > best:
                        best_a, best_b, best = index - size + 1, other - size + 1, size
            ending = here
        # Frequent elements do not begin a block, but they extend one.
        while best_a > alo and best_b > blo and self.a[best_a - 1] == self.b[best_b - 1]:
            best_a, best_b, best = best_a - 1, best_b - 1, best + 1
        while best_a + best < a_end and best_b + best < b_end and self.a[best_a + best] == self.b[best_b + best]:
            best += 1
        return _Match(best_a, best_b, best)

    def get_matching_blocks(self) -> list[_Match]:
        """Return the common blocks in order; the last one is empty and at the ends."""
        blocks: list[_Match] = []
        waiting = [(0, len(self.a), 0, len(self.b))]
        while waiting:
            a_low, a_high, b_low, b_high = waiting.pop()
            block = self.find_longest_match(a_low, a_high, b_low, b_high)
            if block.size:
                blocks.append(block)
                waiting.append((a_low, block.a, b_low, block.b))
                waiting.append((block.a + block.size, a_high, block.b + block.size, b_high))
        joined: list[_Match] = []
        for block in sorted(blocks):
            last = joined[-1] if joined else _Match(0, 0, 0)
            if joined and (last.a + last.size, last.b + last.size) == (block.a, block.b):
                joined[-1] = _Match(last.a, last.b, last.size + block.size)
            else:
                joined.append(block)
        return [*joined, _Match(len(self.a), len(self.b), 0)]

    def get_opcodes(self) -> list[_Opcode]:
        """Return how to turn a into b: (tag, from and to in a, from and to in b)."""
        a_done = b_done = 0
        opcodes: list[_Opcode] = []
        for block in self.get_matching_blocks():
            if a_done < block.a or b_done < block.b:
                tag = "replace" if a_done < block.a and b_done < block.b else "delete" if a_done < block.a else "insert"
                opcodes.append((tag, a_done, block.a, b_done, block.b))
            a_done, b_done = block.a + block.size, block.b + block.size
            if block.size:
                opcodes.append(("equal", block.a, a_done, block.b, b_done))
        return opcodes

    def ratio(self) -> float:
        """Return how similar the sequences are, from 0 to 1."""
        total = len(self.a) + len(self.b)
        return 2.0 * sum([block.size for block in self.get_matching_blocks()]) / total if total else 1.0

    def quick_ratio(self) -> float:
        """Return the same as `ratio`."""
        return self.ratio()


def get_close_matches(word: str, possibilities: Iterable[str], n: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return the texts that are most similar to a word, the best first.

    Args:
        possibilities: The texts.
        n: At most this many.
        cutoff: How similar they must be, from 0 to 1.
    """
    rated = [(SequenceMatcher(None, text, word).ratio(), text) for text in possibilities]
    return [text for rate, text in sorted(rated, reverse=True) if rate >= cutoff][:n]


def unified_diff(
    a: Sequence[str],
    b: Sequence[str],
    fromfile: str = "",
    tofile: str = "",
    fromfiledate: str = "",
    tofiledate: str = "",
    n: int = 3,
    lineterm: str = "\n",
) -> list[str]:
    """Return the lines of a unified diff of two lists of lines."""
    lines: list[str] = []
    for group in _grouped(SequenceMatcher(None, a, b).get_opcodes(), n):
        if not lines:
            lines.append(f"--- {fromfile}{_dated(fromfiledate)}{lineterm}")
            lines.append(f"+++ {tofile}{_dated(tofiledate)}{lineterm}")
        a_range, b_range = _range(group[0][1], group[-1][2]), _range(group[0][3], group[-1][4])
        lines.append(f"@@ -{a_range} +{b_range} @@{lineterm}")
        for tag, a_low, a_high, b_low, b_high in group:
            if tag == "equal":
                lines.extend([f" {line}" for line in a[a_low:a_high]])
            else:
                lines.extend([f"-{line}" for line in a[a_low:a_high]])
                lines.extend([f"+{line}" for line in b[b_low:b_high]])
    return lines


def ndiff(a: Sequence[str], b: Sequence[str]) -> list[str]:
    """Return all lines of two lists of lines, each after `- `, `+ ` or two spaces."""
    lines: list[str] = []
    for tag, a_low, a_high, b_low, b_high in SequenceMatcher(None, a, b).get_opcodes():
        if tag == "equal":
            lines.extend([f"  {line}" for line in a[a_low:a_high]])
        else:
            lines.extend([f"- {line}" for line in a[a_low:a_high]])
            lines.extend([f"+ {line}" for line in b[b_low:b_high]])
    return lines


def _grouped(opcodes: list[_Opcode], context: int) -> list[list[_Opcode]]:
    """Divide opcodes into the parts of a diff, with some equal lines before and after each."""
    groups: list[list[_Opcode]] = []
    group: list[_Opcode] = []
    last = len(opcodes) - 1
    for index, (tag, a_low, a_high, b_low, b_high) in enumerate(opcodes):
        size = a_high - a_low
        if tag != "equal":
            group.append((tag, a_low, a_high, b_low, b_high))
        elif index == 0:
            kept = min(size, context)
            group.append((tag, a_high - kept, a_high, b_high - kept, b_high))
        elif index == last or size > 2 * context:
            kept = min(size, context)
            group.append((tag, a_low, a_low + kept, b_low, b_low + kept))
            if index < last:
                groups.append(group)
                group = [(tag, a_high - kept, a_high, b_high - kept, b_high)]
        else:
            group.append((tag, a_low, a_high, b_low, b_high))
    if any(opcode[0] != "equal" for opcode in group):
        groups.append(group)
    return groups


def _range(low: int, high: int) -> str:
    size = high - low
    if size == 1:
        return str(low + 1)
    return f"{low + 1 if size else low},{size}"


def _dated(date: str) -> str:
    return f"\t{date}" if date else ""

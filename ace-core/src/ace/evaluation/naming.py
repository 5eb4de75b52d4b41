"""Names samples, whatever their order."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from ace.arguments import checked_arguments
from ace.context import ACESample

__all__ = ["sample_names"]


@checked_arguments()
def sample_names(samples: Sequence[ACESample]) -> list[str]:
    """Return a name for each sample: its own id, else a hash of its texts. A name that comes again gets a number.

    Args:
        samples: The samples.

    Example:
        >>> from ace.environments import Sample
        >>> sample_names([Sample("2+2?", id="a"), Sample("3+3?", id="a")])
        ['a', 'a (2)']
    """
    seen: Counter[str] = Counter()
    names = []
    for sample in samples:
        name = getattr(sample, "id", None) or text_hash(sample.question, sample.context, sample.ground_truth)
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return names


def text_hash(*texts: str | None) -> str:
    """Return a short hash of texts.

    Args:
        *texts: The texts; None differs from an empty one.
    """
    joined = "\x1f".join("\x00" if text is None else text for text in texts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:16]

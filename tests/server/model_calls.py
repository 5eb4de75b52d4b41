"""Counts the calls of the model that were paid for twice."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.support.scripted_server import ScriptedRequest


def paid_again(requests: Sequence[ScriptedRequest]) -> int:
    """Return how many calls were only about lessons that the same role had been asked about before."""
    asked: set[tuple[str, str]] = set()
    count = 0
    for request in requests:
        if request.role == "reflector":
            about = {("reflector", word) for word in re.findall(r"What about (\w+)\?", request.text)}
        else:
            about = {
                ("skill manager", word) for word in re.findall(r'"learning": "Remember LESSON (\w+)', request.text)
            }
        assert about, request.text
        count += about <= asked
        asked |= about
    return count

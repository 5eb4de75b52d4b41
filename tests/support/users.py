"""Tests of files that the user may not read or write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def ordinary_user(folder: Path) -> Iterator[None]:
    """Root may read everything, so a test that runs as root becomes another user for a while."""
    user = os.geteuid()
    if user == 0:
        os.chown(folder, 65534, -1)
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)

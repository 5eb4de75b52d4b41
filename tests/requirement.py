"""What a test needs from the machine, beside Python."""

import os
from typing import NoReturn

import pytest


def missing(what: str, reason: str) -> NoReturn:
    """Skip the running test, because the machine lacks something that it needs.

    Where the environment variable ``ACE_REQUIRE`` names it, as on CI, the test fails instead. (It holds names
    with commas between them.)
    """
    if what in os.environ.get("ACE_REQUIRE", "").split(","):
        pytest.fail(f"ACE_REQUIRE names {what!r}, but {reason}", pytrace=False)
    pytest.skip(reason)

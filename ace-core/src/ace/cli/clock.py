"""The clock of the command line, which `SOURCE_DATE_EPOCH` can stop, so that a run can be repeated to the byte."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from ace.cli.errors import UsageError

__all__ = ["clock_from_environment"]


def clock_from_environment(environ: Mapping[str, str] | None = None) -> Callable[[], datetime]:
    """Return the clock for a skillbook.

    Args:
        environ: The environment; by default that of the process.

    Raises:
        UsageError: `SOURCE_DATE_EPOCH` is not a number of seconds.

    Example:
        >>> clock_from_environment({"SOURCE_DATE_EPOCH": "0"})().isoformat()
        '1970-01-01T00:00:00+00:00'
    """
    variables = os.environ if environ is None else environ
    fixed = variables.get("SOURCE_DATE_EPOCH", "").strip()
    if not fixed:
        return lambda: datetime.now(UTC)
    try:
        moment = datetime.fromtimestamp(int(fixed), UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"the variable SOURCE_DATE_EPOCH must be whole seconds since 1970, got {fixed!r}") from None
    return lambda: moment

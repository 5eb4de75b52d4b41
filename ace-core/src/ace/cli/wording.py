"""How numbers, sizes and times are written for people."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["counted", "duration_text", "shown_time", "size_text"]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where there is not exactly one.

    Args:
        number: How many.
        noun: In the singular; its plural ends in s.

    Example:
        >>> counted(1, "skill"), counted(2, "new skill")
        ('1 skill', '2 new skills')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def duration_text(seconds: float) -> str:
    """Return a duration in the units that a person would use.

    Args:
        seconds: The duration, from 0.

    Example:
        >>> duration_text(4.6), duration_text(200), duration_text(7500)
        ('5 s', '3 min', '2 h 5 min')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def shown_time(time: str) -> str:
    """Return a time to the second, in UTC, which the heading above it has to say.

    Args:
        time: A time of a history, in ISO format.

    Example:
        >>> shown_time("2026-11-22T04:16:43.057031+01:00")
        '2026-11-22 03:16:43'
    """
    try:
        return f"{datetime.fromisoformat(time).astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return time  # written by another framework, in a format of its own


def size_text(size: int) -> str:
    """Return a number of bytes in the largest unit that it has at least one of.

    Args:
        size: How many bytes.

    Example:
        >>> size_text(1_117_320_000), size_text(200_000_000), size_text(400)
        ('1.12 GB', '200 MB', '0 kB')
    """
    if size >= 1_000_000_000:
        return f"{size / 1_000_000_000:.2f} GB"
    return f"{size / 1_000_000:.0f} MB" if size >= 1_000_000 else f"{size / 1000:.0f} kB"

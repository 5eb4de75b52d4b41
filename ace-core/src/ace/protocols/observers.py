"""Who watches what happens in runs, samples and model calls. `ace.plugins` fills this registry."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ace.lazy_plugins import fill
from ace.protocols.errors import error_text
from ace.protocols.events import (
    Event,
    ModelCalled,
    RunEnded,
    RunStarted,
    SampleEnded,
    SampleStarted,
    SkillChange,
    SkillProven,
    SkillsChanged,
    StepEnded,
    StepStarted,
)

__all__ = [
    "Event",
    "ModelCalled",
    "Observer",
    "RunEnded",
    "RunStarted",
    "SampleEnded",
    "SampleStarted",
    "SkillChange",
    "SkillProven",
    "SkillsChanged",
    "StepEnded",
    "StepStarted",
    "emit",
    "is_observed",
    "observing",
    "register_observer",
    "unregister_observer",
]

Observer = Callable[[Event], None]

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_numbers = itertools.count(1)
_failures: dict[str, int] = {}
"""How often each observer has failed since the last run ended, under `_lock`."""
# Replaced, never changed: who emits reads it without the lock.
_observers: tuple[tuple[str, Observer], ...] = ()


def is_observed() -> bool:
    """Return whether there is an observer. Emitters ask first, so that an event without an observer is not created."""
    fill("observers")
    return bool(_observers)


def emit(event: Event) -> None:
    """Tell every observer, on this thread, in the order of their registration.

    An observer that raises is logged with its name and the exception, the first time in a run; how often it failed
    is logged when the run ends. The others and the run continue. So they do if a handler of the log raises as well:
    events are emitted from places that have to count a sample as done.

    Args:
        event: What happened.
    """
    fill("observers")
    for name, observer in _observers:
        try:
            observer(event)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # an observer that calls sys.exit() must not end the run
            with suppress(Exception):
                _log_failure(name, event, error)
    if _failures and isinstance(event, RunEnded):
        with suppress(Exception):
            _log_repeated_failures()


def _log_failure(name: str, event: Event, error: BaseException) -> None:
    with _lock:
        _failures[name] = _failures.get(name, 0) + 1
        is_first = _failures[name] == 1
    if is_first:
        said = ": ".join(filter(None, (type(error).__name__, error_text(error))))
        _logger.error(
            "observer %r failed at %s: %s; the run continues", name, type(event).__name__, said, exc_info=error
        )


def _log_repeated_failures() -> None:
    with _lock:
        failures = dict(_failures)
        _failures.clear()
    for name, count in failures.items():
        if count > 1:
            _logger.error("observer %r failed %d times in this run", name, count)


def register_observer(name: str, observer: Observer) -> None:
    """Have a function called with every event from now on, in all threads of the process.

    Events of different samples may come at the same time, from several threads.

    Args:
        name: A unique name.
        observer: The function. It should be quick, since the run waits for it.

    Raises:
        ValueError: Another observer has the name.
    """
    global _observers
    with _lock:
        for known, other in _observers:
            if known == name:
                if other == observer:
                    return
                raise ValueError(
                    f"an observer named {name!r} is already registered; unregister it first or choose another name"
                )
        _observers = (*_observers, (name, observer))


def unregister_observer(name: str) -> None:
    """Forget an observer; an unknown name is ignored.

    Args:
        name: Its name.
    """
    global _observers
    with _lock:
        _observers = tuple(item for item in _observers if item[0] != name)
        _failures.pop(name, None)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Have a function called with the events of the process while the block runs.

    Args:
        observer: The function.

    Example:
        >>> seen = []
        >>> with observing(seen.append):
        ...     emit(SkillsChanged("run", "trace", (SkillChange("ADD", "maths-00001"),), ()))
        >>> seen[0].applied[0].skill_id
        'maths-00001'
    """
    name = f"{getattr(observer, '__qualname__', type(observer).__name__)} {next(_numbers)}"
    register_observer(name, observer)
    try:
        yield
    finally:
        unregister_observer(name)

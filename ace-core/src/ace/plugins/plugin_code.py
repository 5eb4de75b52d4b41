"""Runs the code of plugins so that its errors are attributed to the plugin and cannot end the program."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Final

from ace.plugins.errors import PluginError, PluginLoadError

__all__ = ["loading_lock", "plugin_code"]

_logger = logging.getLogger(__name__)

loading_lock: Final = threading.RLock()
"""Held while plugins are loaded and registered. It is one lock for all, so that no two threads wait for each other: a
plugin that is being loaded may look into a registry, and a registry that is looked into loads plugins."""

SLOW_AFTER: Final = 5.0
"""Seconds after which the user is told which plugin the program is waiting for."""


@contextlib.contextmanager
def plugin_code(failure: str, doing: str, hint: str = "") -> Iterator[None]:
    """Import a module of a plugin, or call one of its hooks, inside the block.

    A plugin may raise anything, `GeneratorExit` and exceptions derived from `BaseException` included; all of it
    becomes a `PluginLoadError`. `KeyboardInterrupt` is raised as it is, since the user may have pressed Ctrl-C, with a
    note that says what was interrupted.

    Args:
        failure: Begins the error: who failed, and at what.
        doing: What happens in the block, for the messages about a slow plugin and an interrupted one.
        hint: Ends the error.

    Raises:
        PluginLoadError: The block raised.

    Example:
        >>> with plugin_code("plugin 'acme' of acme 1.0: ace_runners failed", "calling ace_runners of plugin 'acme'"):
        ...     raise GeneratorExit
        Traceback (most recent call last):
        ...
        ace.plugins.errors.PluginLoadError: plugin 'acme' of acme 1.0: ace_runners failed: GeneratorExit
    """
    timer = threading.Timer(SLOW_AFTER, _logger.warning, ("%s has taken %g seconds so far", doing, SLOW_AFTER))
    timer.daemon = True
    timer.start()
    try:
        yield
    except PluginError:
        raise
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(f"while {doing}")
        raise
    except BaseException as error:
        from ace.protocols.errors import error_text  # not above: `ace --help` needs no protocols

        said = ": ".join(filter(None, (type(error).__name__, error_text(error))))
        raise PluginLoadError(f"{failure}: {said}{hint}") from error
    finally:
        timer.cancel()

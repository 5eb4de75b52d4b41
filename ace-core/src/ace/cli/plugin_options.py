"""`--no-plugins`, `-P no:NAME` and `--debug`: they decide what is imported and shown, so they are read first."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence

from ace.cli.errors import UsageError

__all__ = ["DEBUG_VARIABLE", "without_plugin_options"]

DEBUG_VARIABLE = "ACE_DEBUG"
"""If this environment variable is set, the traceback of an error is shown before its sentence."""


def without_plugin_options(arguments: Sequence[str], environ: MutableMapping[str, str]) -> list[str]:
    """Return the arguments without these options; what they say is put into the environment.

    Args:
        arguments: What follows `ace`.
        environ: The environment, which processes that are started from here inherit.

    Raises:
        UsageError: `-P` is given something else than `no:NAME`.

    Example:
        >>> environ = {}
        >>> without_plugin_options(["-P", "no:acme", "learn", "a.jsonl"], environ), environ
        (['learn', 'a.jsonl'], {'ACE_PLUGINS_DISABLED': 'acme'})
    """
    left: list[str] = []
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument == "--":
            return [*left, argument, *waiting]
        if argument == "--no-plugins":
            environ["ACE_PLUGINS"] = ""
        elif argument == "--debug" and not left:
            environ[DEBUG_VARIABLE] = "1"
        elif argument == "-P" and not left and not waiting:
            raise _wrong("nothing")
        elif argument == "-P" and (not left or (waiting[:1] and waiting[0].startswith("no:"))):
            _disable(waiting.pop(0), environ)
        elif argument.startswith("-Pno:"):
            _disable(argument.removeprefix("-P"), environ)
        else:
            left.append(argument)
    return left


def _disable(value: str, environ: MutableMapping[str, str]) -> None:
    name = value.removeprefix("no:").strip()
    if not value.startswith("no:") or not name:
        raise _wrong(repr(value))
    environ["ACE_PLUGINS_DISABLED"] = ",".join(filter(None, (environ.get("ACE_PLUGINS_DISABLED", ""), name)))


def _wrong(value: str) -> UsageError:
    return UsageError(f"-P takes no:NAME, which disables the plugin NAME; got {value}")

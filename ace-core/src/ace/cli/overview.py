"""The page of `ace --help`. Neither a command nor a plugin nor the parser of their arguments is imported for it."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Mapping

from ace.cli.command_table import built_in_names, built_in_summaries

__all__ = ["EPILOGUE", "HELP", "overview"]

HELP = "ACE: AI agents learn from their own runs."
EPILOGUE = (
    "Options of all commands: --no-plugins disables all plugins, -P no:NAME disables one; --debug shows the traceback "
    "of an error.\n\n"
    "Settings come from options, ACE_... variables, ace.toml and your own settings file; `ace config` lists them.\n\n"
    "Exit codes: 0 done, 1 done with failures, 2 wrong usage, 130 interrupted."
)
_EXAMPLES_AND_VARIABLES = """\
Examples:
  ace learn logs/                      learn from recorded traces
  ace skillbook show                   show what was learned
  ace ask "What is 2 m + 3 ft?"        answer with what was learned
  ace eval held-out.jsonl              measure whether it helps

Environment variables:
  ACE_MODEL, ACE_API_BASE, ACE_API_KEY the model, its server and its key
  ACE_SKILLBOOK                        the skillbook [default: skills.db]
  ACE_MAX_TOKENS, ACE_WORKERS, ...     one for each setting; see `ace config`
  ACE_MODEL_CLIENT                     litellm: all requests through LiteLLM
  ACE_MODELS                           the folder for models on this machine
  ACE_PLUGINS, ACE_PLUGINS_DISABLED    the plugins that are loaded or not
  VISUAL, EDITOR                       the editor of `ace skillbook edit`
  SOURCE_DATE_EPOCH                    the timestamp of all changes

"""

_FLAGS: dict[str, str] = {"--help, -h": "Show this page, or that of a command.", "--version": "Show the version."}
_WIDEST = 100
"""Characters in a line, in a terminal that is wider."""


def overview() -> str:
    """Return the page: all commands with their summaries, examples, environment variables.

    Example:
        >>> print(overview().partition("\\n")[0])
        Usage: ace COMMAND [OPTIONS] [ARGUMENTS]
    """
    from ace.plugins.catalogue import plugin_commands

    built_in = built_in_summaries()
    plugins = {command.name.replace("_", "-"): f"{command.summary.rstrip('.')}." for command in plugin_commands()}
    of_plugins = {name: summary for name, summary in plugins.items() if name not in built_in}
    width = min(_columns(), _WIDEST)
    indent = max(map(len, (*built_in, *of_plugins, *_FLAGS))) + 2
    parts = [
        "Usage: ace COMMAND [OPTIONS] [ARGUMENTS]",
        HELP,
        "\n".join(("Commands:", *_rows(built_in | _FLAGS, indent, width))),
    ]
    if of_plugins:
        parts.append("\n".join(("Plugin commands:", *_rows(of_plugins, indent, width))))
    broken = _broken_plugins()
    if broken:
        parts.append(
            textwrap.fill(f"Plugins that cannot be loaded (`ace plugins` says why): {', '.join(broken)}.", width)
        )
    parts.append(_EXAMPLES_AND_VARIABLES.rstrip())
    parts += (textwrap.fill(paragraph, width) for paragraph in EPILOGUE.split("\n\n"))
    return "\n\n".join(parts)


def _columns() -> int:
    try:
        return max(os.get_terminal_size().columns, 40)
    except OSError:  # the output is not a terminal
        return 80


def _rows(summaries: Mapping[str, str], indent: int, width: int) -> Iterator[str]:
    """Yield each name with its summary beside it."""
    for name, summary in summaries.items():
        text = f"  {name.ljust(indent)}{' '.join(summary.split())}"
        yield textwrap.fill(text, width, subsequent_indent=" " * (indent + 2))


def _broken_plugins() -> list[str]:
    """Return the plugins that will not work, as far as that is known without importing them."""
    from ace.plugins.catalogue import catalogue, plugin_commands

    broken = {
        plugin.installed.name
        for plugin in catalogue().plugins()
        if plugin.installed.is_enabled and plugin.loading_problem() is not None
    }
    hidden = {command.name for command in plugin_commands() if command.name.replace("_", "-") in built_in_names()}
    return sorted(name.replace("_", "-") for name in broken | hidden)

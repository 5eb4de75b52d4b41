"""The page of `ace --help`. It imports the hook modules of plugins, but no command and no parser of arguments."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from ace.cli.command_table import built_in_summaries

__all__ = ["EPILOGUE", "HELP", "overview"]

HELP = "ACE: AI agents learn from their own runs."
EPILOGUE = (
    "Options of all commands: --no-plugins disables all plugins, -P no:NAME disables one; --debug shows the traceback "
    "of an error.\n\n"
    "Settings come from options, ACE_... variables, ace.toml and your own settings file; `ace config` lists them.\n\n"
    "Exit codes: 0 done, 1 done with failures, 2 wrong usage, 130 interrupted."
)
_EXAMPLES = {
    "ace learn logs/": "learn from recorded traces",
    "ace skillbook show": "show what was learned",
    'ace ask "What is 2 m + 3 ft?"': "answer with what was learned",
    "ace eval held-out.jsonl": "measure whether it helps",
}
_VARIABLES = {
    "ACE_MODEL, ACE_API_BASE, ACE_API_KEY": "the model, its server and its key",
    "ACE_SKILLBOOK": "the skillbook [default: skills.db]",
    "ACE_MAX_TOKENS, ACE_WORKERS, ...": "one for each setting; see `ace config`",
    "ACE_MODEL_CLIENT": "litellm: all requests through LiteLLM",
    "ACE_MODELS": "the folder for models on this machine",
    "ACE_PLUGINS, ACE_PLUGINS_DISABLED": "the plugins that are loaded or not",
    "VISUAL, EDITOR": "the editor of `ace skillbook edit`",
    "SOURCE_DATE_EPOCH": "the timestamp of all changes",
}
_FLAGS: dict[str, str] = {"--help, -h": "Show this page, or that of a command.", "--version": "Show the version."}
_WIDEST = 100
"""Characters in a line, in a terminal that is wider."""
_NARROWEST = 40
_READABLE = 18
"""Characters of a summary in a line; if fewer fit beside the names, it is below them."""


def overview() -> str:
    """Return the page: all commands with their summaries, examples, environment variables.

    Example:
        >>> print(overview().partition("\\n")[0])
        Usage: ace COMMAND [OPTIONS] [ARGUMENTS]
    """
    built_in = built_in_summaries()
    plugins = {name.replace("_", "-"): f"{summary.rstrip('.')}." for name, summary in plugin_summaries().items()}
    of_plugins = {name: summary for name, summary in plugins.items() if name not in built_in}
    width = min(_columns(), _WIDEST)
    indent = max(map(len, (*built_in, *of_plugins, *_FLAGS))) + 2
    parts = [
        "Usage: ace COMMAND [OPTIONS] [ARGUMENTS]",
        textwrap.fill(HELP, width),
        "\n".join(("Commands:", *_rows(built_in | _FLAGS, indent, width))),
    ]
    if of_plugins:
        parts.append("\n".join(("Plugin commands:", *_rows(of_plugins, indent, width))))
    broken = _broken_plugins(plugins.keys() & built_in.keys())
    if broken:
        parts.append(
            textwrap.fill(f"Plugins that cannot be loaded (`ace plugins` says why): {', '.join(broken)}.", width)
        )
    indent = max(map(len, (*_EXAMPLES, *_VARIABLES))) + 1
    parts.append("\n".join(("Examples:", *_rows(_EXAMPLES, indent, width))))
    parts.append("\n".join(("Environment variables:", *_rows(_VARIABLES, indent, width))))
    parts += (textwrap.fill(paragraph, width) for paragraph in EPILOGUE.split("\n\n"))
    return "\n\n".join(parts)


def _columns() -> int:
    """Return the width of the terminal; `COLUMNS` overrides it, as on the pages of the commands."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns[:9]) > 0:
        return max(int(columns[:9]), _NARROWEST)
    try:
        return max(os.get_terminal_size().columns, _NARROWEST)
    except OSError:  # the output is not a terminal
        return 80


def _rows(summaries: Mapping[str, str], indent: int, width: int) -> Iterator[str]:
    """Yield each name with its summary beside it, or below it in a narrow terminal."""
    for name, summary in summaries.items():
        text = " ".join(summary.split())
        if width - indent - 2 < _READABLE:
            yield f"  {name}\n{textwrap.fill(text, width, initial_indent=' ' * 6, subsequent_indent=' ' * 6)}"
        else:
            yield textwrap.fill(f"  {name.ljust(indent)}{text}", width, subsequent_indent=" " * (indent + 2))


def plugin_summaries() -> dict[str, str]:
    """Return what the command of each plugin does, by the name of the plugin. Only the hook modules are imported."""
    from ace.plugins import CommandSpec
    from ace.plugins.catalogue import catalogue

    return {
        plugin.name: plugin.specs_of(CommandSpec)[0].summary or plugin.installed.summary
        for plugin in catalogue().providing(CommandSpec)
    }


def _broken_plugins(hidden: Iterable[str]) -> list[str]:
    """Return the plugins that cannot be loaded, and those whose commands have the names of others."""
    from ace.plugins.catalogue import catalogue

    broken = {
        plugin.name.replace("_", "-")
        for plugin in catalogue().plugins()
        if plugin.installed.is_enabled and plugin.error is not None
    }
    return sorted(broken.union(hidden))

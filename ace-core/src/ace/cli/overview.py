"""The page of `ace --help`. It imports the hook modules of plugins, but no command and no parser of arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ace.cli.command_table import built_in_summaries
from ace.cli.help import EPILOGUE, HelpRow, filled, rows, width

__all__ = ["HELP", "overview"]

HELP = "ACE: AI agents learn from their own runs."
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
    "ACE_SERVERS": "the folder for what was learned about model servers; off keeps nothing",
    "ACE_PLUGINS, ACE_PLUGINS_DISABLED": "the plugins that are loaded or not",
    "VISUAL, EDITOR": "the editor of `ace skillbook edit`",
    "SOURCE_DATE_EPOCH": "the timestamp of all changes",
}
_FLAGS: dict[str, str] = {"--help, -h": "Show this page, or that of a command.", "--version": "Show the version."}


def overview() -> str:
    """Return the page: all commands with their summaries, examples, environment variables.

    Example:
        >>> print(overview().partition("\\n")[0])
        Usage: ace COMMAND [OPTIONS] [ARGUMENTS]
    """
    built_in = built_in_summaries()
    plugins = {name.replace("_", "-"): f"{summary.rstrip('.')}." for name, summary in plugin_summaries().items()}
    of_plugins = {name: summary for name, summary in plugins.items() if name not in built_in}
    columns = width()
    indent = max(map(len, (*built_in, *of_plugins, *_FLAGS))) + 2
    parts = ["Usage: ace COMMAND [OPTIONS] [ARGUMENTS]", filled(HELP, columns)]
    parts.append(_table("Commands", built_in | _FLAGS, indent, columns))
    if of_plugins:
        parts.append(_table("Plugin commands", of_plugins, indent, columns))
    broken = _broken_plugins(plugins.keys() & built_in.keys())
    if broken:
        parts.append(filled(f"Plugins that cannot be loaded (`ace plugins` says why): {', '.join(broken)}.", columns))
    indent = max(map(len, (*_EXAMPLES, *_VARIABLES))) + 1
    parts.append(_table("Examples", _EXAMPLES, indent, columns))
    parts.append(_table("Environment variables", _VARIABLES, indent, columns))
    parts += (filled(paragraph, columns) for paragraph in EPILOGUE.split("\n\n"))
    return "\n\n".join(parts)


def _table(title: str, texts: Mapping[str, str], indent: int, columns: int) -> str:
    return "\n".join((f"{title}:", *rows(map(HelpRow, texts, texts.values()), columns, indent)))


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

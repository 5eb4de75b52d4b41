"""The help of the commands: one look for all of them, without the parser of their arguments, which is slow to import.

Our distributions contain what their commands say about themselves in a file `help.json`, which `python -m
docs.generated_options` writes and a test compares. For the command of another plugin, it is collected from the command.
"""

from __future__ import annotations

import inspect
import json
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ace.cli.command_table import built_in_names

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import Argument

__all__ = [
    "EPILOGUE",
    "HELP_FILE",
    "HELP_FLAGS",
    "HelpPage",
    "HelpRow",
    "asks_for_help",
    "filled",
    "help_of",
    "page_of",
    "rows",
    "width",
]

EPILOGUE: Final = (
    "Options of all commands: --no-plugins disables all plugins, -P no:NAME disables one; --debug shows the traceback "
    "of an error.\n\n"
    "Settings come from options, ACE_... variables, ace.toml and your own settings file; `ace config` lists them.\n\n"
    "Exit codes: 0 done, 1 done with failures, 2 wrong usage, 130 interrupted."
)
HELP_FILE: Final = "help.json"
HELP_FLAGS: Final = frozenset({"--help", "-h", "--help-all"})
_MOST_OPTIONS: Final = 18
"""The number of options up to which `--help` shows all; with the two that show help, there are at most 20."""
_GROUPS: Final = (
    "Options",
    "Files",
    "Model",
    "Run",
    "Learning",
    "Tasks",
    "Validation",
    "Proof",
    "Safeguards",
    "Settings",
)
_SECTIONS: Final = ("Args:", "Returns:", "Raises:", "Example:", "Yields:")
_VALUES: Final[Mapping[type, str]] = {int: "INT", float: "FLOAT", str: "TEXT", Path: "PATH"}
_WIDEST: Final = 100
"""Characters in a line, in a terminal that is wider."""
_NARROWEST: Final = 40
_READABLE: Final = 18
"""Characters of a text in a line; if fewer fit beside the names, it is below them."""
_WIDEST_NAMES: Final = 26
_WIDEST_CHOICES: Final = 40


@dataclass(frozen=True, slots=True)
class HelpRow:
    """An option, an argument or a command, and what it is for."""

    names: str
    text: str
    is_common: bool = True
    """Whether it is shown if there are too many options to show all."""


@dataclass(frozen=True, slots=True)
class HelpPage:
    """What the help says about one command."""

    usage: str
    summary: str
    details: Sequence[str] = ()
    """Further paragraphs."""
    examples: Sequence[str] = ()
    commands: Sequence[HelpRow] = ()
    arguments: Sequence[HelpRow] = ()
    options: Mapping[str, Sequence[HelpRow]] = field(default_factory=dict)
    """The options, by the heading of their group."""

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> HelpPage:
        """Return the page in a help file.

        Args:
            found: What `as_json` returned.
        """
        lists = {name: [HelpRow(**row) for row in found[name]] for name in ("commands", "arguments")}
        options = {group: [HelpRow(**row) for row in of_group] for group, of_group in found["options"].items()}
        return cls(**{**found, **lists, "options": options})

    def as_json(self) -> dict[str, Any]:
        """Return the page as an object for a help file."""
        return asdict(self)

    def text(self, *, everything: bool = False, of_plugins: Iterable[HelpRow] = ()) -> str:
        """Return the page for a terminal.

        Args:
            everything: Whether to show all options.
            of_plugins: Options that plugins add to all commands.
        """
        columns = width()
        parts = [f"Usage: {self.usage}", filled(self.summary, columns)]
        if self.examples:
            parts.append("\n".join(("Examples:", *(_example(line, columns) for line in self.examples))))
        parts += (filled(paragraph, columns) for paragraph in self.details)
        groups = {"Commands": self.commands, "Arguments": self.arguments, **self._shown(everything)}
        groups["Options of plugins, for all commands"] = list(of_plugins)
        parts += ("\n".join((f"{title}:", *rows(group, columns))) for title, group in groups.items() if group)
        count = sum(map(len, self.options.values()))
        if not everything and count > _MOST_OPTIONS:
            called = self.usage.partition(" [")[0]
            hint = f"`{called} --help-all` shows all {count} options, most of which are also settings."
            parts.append(filled(hint, columns))
        parts += (filled(paragraph, columns) for paragraph in EPILOGUE.split("\n\n"))
        return "\n\n".join(parts)

    def _shown(self, everything: bool) -> dict[str, Sequence[HelpRow]]:
        if everything or sum(map(len, self.options.values())) <= _MOST_OPTIONS:
            return dict(self.options)
        return {group: [row for row in of_group if row.is_common] for group, of_group in self.options.items()}


def _example(line: str, columns: int) -> str:
    """Return an example that a shell also understands where it takes several lines."""
    lines = textwrap.wrap(line, columns - 8, break_on_hyphens=False, break_long_words=False)
    return "  " + " \\\n      ".join(lines)


def asks_for_help(arguments: Sequence[str]) -> bool:
    """Return whether one of the options of a command line shows the help.

    Args:
        arguments: What follows `ace`.
    """
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return not HELP_FLAGS.isdisjoint(before)


def help_of(arguments: Sequence[str]) -> str | None:
    """Return the help that a command line asks for; None if it does not ask for help, or no help file contains it.

    Args:
        arguments: What follows `ace`.
    """
    if not asks_for_help(arguments):
        return None
    pages = _pages(arguments[0])
    words = [word.replace("_", "-") for word in arguments if not word.startswith("-")]
    for length in range(len(words), 0, -1):
        if (found := pages.get(" ".join(words[:length]))) is not None:
            everything = "--help-all" in arguments
            return HelpPage.from_json(found).text(everything=everything, of_plugins=_of_plugins() if everything else ())
    return None


def _pages(command: str) -> Mapping[str, Any]:
    """Return the pages of the distribution of a command; empty if it has no help file."""
    if command in built_in_names():
        file = Path(__file__).with_name(HELP_FILE)
    else:
        from ace.plugins import PluginError
        from ace.plugins.catalogue import catalogue

        try:
            module = catalogue().find(command).installed.module  # not loaded: its help file says what it can do
        except PluginError:  # running the command says what is wrong
            return {}
        package = find_spec(module.partition(".")[0])
        if package is None or package.origin is None:
            return {}
        file = Path(package.origin).with_name(HELP_FILE)
    if not file.is_file():
        return {}
    pages: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return pages


def _of_plugins() -> Iterator[HelpRow]:
    """Yield the options of plugins for observers."""
    from ace.plugins import ObserverSpec
    from ace.plugins.catalogue import catalogue

    specs = (spec for plugin in catalogue().providing(ObserverSpec) for spec in plugin.specs_of(ObserverSpec))
    for option in (option for spec in specs for option in spec.options):
        values = f" {'|'.join(option.values)}" if option.values else ""
        yield HelpRow(f"--{option.name}{values}", f"{option.summary.rstrip('.')}.")


def page_of(app: App, chain: Sequence[str]) -> HelpPage:
    """Return what a command says about itself.

    Args:
        app: The command.
        chain: Its names, without `ace`.
    """
    paragraphs, examples = _described(app.help)
    arguments: list[HelpRow] = []
    positional: list[str] = []
    options: dict[str, list[HelpRow]] = {}
    if app.default_command is not None:
        for argument in app.assemble_argument_collection(parse_docstring=True):
            if argument.names == ("*",) or not argument.parse:
                continue
            if argument.index is not None and not argument.name.startswith("-"):
                arguments.append(HelpRow(argument.name.upper(), _text(argument)))
                positional.append(argument.name.upper() if argument.required else f"[{argument.name.upper()}]")
            else:
                titles = [group.name for group in argument.parameter.group or ()]  # type: ignore[union-attr]  # resolved
                title = next((title for title in titles if title != "Parameters"), _GROUPS[0])
                row = HelpRow(_names(argument), _text(argument), argument.parameter.show is not False)
                options.setdefault(title, []).append(row)
    commands = [HelpRow(name, _described(app[name].help)[0][0]) for name in app if not name.startswith("-")]
    known = {title: place for place, title in enumerate(_GROUPS)}
    return HelpPage(
        _usage(app, chain, positional, has_options=bool(options)),
        paragraphs[0] if paragraphs else "",
        paragraphs[1:],
        examples,
        sorted(commands, key=lambda row: row.names),
        arguments,
        dict(sorted(options.items(), key=lambda item: known.get(item[0], len(known)))),
    )


def _described(docstring: str | None) -> tuple[list[str], list[str]]:
    """Return the paragraphs of a docstring, each in one line, and the lines of its examples."""
    paragraphs: list[str] = []
    examples: list[str] = []
    for block in inspect.cleandoc(docstring or "").split("\n\n"):
        if block.strip() in ("For example:", "Examples:"):
            continue
        if block.startswith(_SECTIONS):
            break
        if block.startswith("    "):
            examples += textwrap.dedent(block).splitlines()
        else:
            paragraphs.append(" ".join(block.split()))
    return paragraphs or [""], examples


def _usage(app: App, chain: Sequence[str], arguments: Sequence[str], *, has_options: bool) -> str:
    called = " ".join(("ace", *chain))
    if app.usage:
        return app.usage.strip().removeprefix("Usage:").strip()
    has_commands = any(not name.startswith("-") for name in app)
    parts = [called, *["COMMAND"] * has_commands, *["[OPTIONS]"] * has_options, *arguments]
    return " ".join(parts)


def _names(argument: Argument) -> str:
    """Return the names of an option, with what its value looks like."""
    names = ", ".join(argument.names)
    choices = _choices(argument)
    if choices:
        return f"{names} {'|'.join(choices) if len('|'.join(choices)) <= _WIDEST_CHOICES else 'NAME'}"
    value = next((_VALUES[kind] for kind in _kinds(argument.hint) if kind in _VALUES), "")
    return f"{names} {value}" if value else names


def _choices(argument: Argument) -> list[str]:
    """Return the texts that an argument may be; empty if it is of another type."""
    return [kind for kind in _kinds(argument.hint) if isinstance(kind, str)]


def _kinds(hint: Any) -> Iterator[Any]:
    """Yield the types in an annotation, and the values of its literals."""
    from typing import Annotated, get_args, get_origin

    if get_origin(hint) is Annotated:
        yield from _kinds(get_args(hint)[0])
    elif inner := get_args(hint):
        for kind in inner:
            yield from _kinds(kind)
    else:
        yield hint


def _text(argument: Argument) -> str:
    """Return what an argument is for, with its default."""
    text = " ".join((argument.parameter.help or "").split())
    choices = _choices(argument)
    if len("|".join(choices)) > _WIDEST_CHOICES:
        text = f"{text} [names: {', '.join(choices)}]"
    default = argument.field_info.default
    if argument.required and argument.name.startswith("-"):
        return f"{text} [required]"
    is_shown = argument.parameter.show_default is not False and isinstance(default, int | float | str | Path)
    if not is_shown or default is False or default == "" or "[default" in text:
        return text
    return f"{text} [default: {default}]"


def filled(text: str, columns: int, *, first: str = "", others: str = "") -> str:
    """Return a text in lines; a name with hyphens stays in one.

    Args:
        columns: The width of the page.
        first: What the first line begins with.
        others: What the other lines begin with.
    """
    return textwrap.fill(text, columns, break_on_hyphens=False, initial_indent=first, subsequent_indent=others)


def width() -> int:
    """Return the width of the page; `COLUMNS` overrides that of the terminal."""
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isascii() and chosen.isdigit() and int(chosen[:9]) > 0:
        return min(max(int(chosen[:9]), _NARROWEST), _WIDEST)
    try:
        return min(max(os.get_terminal_size().columns, _NARROWEST), _WIDEST)
    except OSError:  # the output is not a terminal
        return 80


def rows(table: Iterable[HelpRow], columns: int, indent: int = 0) -> Iterator[str]:
    """Yield the names with their texts beside them; below them where the names are long, or the terminal is narrow.

    Args:
        table: The names and texts.
        columns: The width of the page.
        indent: The width of the names; by default, it follows from them.
    """
    table = list(table)
    indent = indent or min(max(len(row.names) for row in table), _WIDEST_NAMES) + 2
    beside = columns - indent - 2 >= _READABLE
    for row in table:
        left = " " * (indent + 2 if beside else 6)
        if beside and len(row.names) < indent:
            yield filled(f"  {row.names.ljust(indent)}{row.text}", columns, others=left)
        else:
            yield f"  {row.names}\n{filled(row.text, columns, first=left, others=left)}"

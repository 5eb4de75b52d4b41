"""`ace plugins`: lists and checks the installed plugins, and creates new ones."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ace.cli.console import note, print_json, print_table, print_text
from ace.cli.errors import DONE, WITH_FAILURES, UsageError, check_is_path
from ace.cli.options import Flag, JsonFlag

if TYPE_CHECKING:
    from ace.plugins import PluginInfo

__all__ = ["app"]

app = App(name="plugins", usage="Usage: ace plugins [OPTIONS] [NAME]\n       ace plugins new [OPTIONS] NAME")


@app.default
def plugins(
    name: str | None = None,
    /,
    *,
    check: Annotated[bool, Flag] = False,
    as_json: JsonFlag = False,
) -> int:
    """List the installed plugins. What they provide is imported only with --check.

    The variables ACE_PLUGINS and ACE_PLUGINS_DISABLED, lists of names, choose which plugins are loaded.

    For example:

        ace plugins
        ace plugins acme --check
        ace plugins new acme

    Args:
        name: Show only this plugin.
        check: Import everything that each plugin provides, check it, and report errors.
        as_json: Print one JSON object.
    """
    from ace.plugins import UnknownPluginError

    try:
        return _check(name, as_json) if check else _list(name, as_json)
    except UnknownPluginError as error:
        raise UsageError(str(error)) from error


@app.command
def new(
    name: str,
    /,
    *,
    extras: Annotated[tuple[str, ...], Parameter(name="--with", negative="", show_default=False)] = (),
    output: Annotated[Path, Parameter(name=["--output", "-o", "--out"], show_default=False)] = Path(),
    as_json: JsonFlag = False,
) -> int:
    """Create a new plugin, with tests from the conformance kit.

    For example:

        ace plugins new acme
        ace plugins new acme --with command,observer --output ~/projects

    Args:
        name: The name of the plugin, such as `acme`; its folder is `ace-acme`.
        extras: What the plugin provides besides an execute step and a trace converter: command, logs, observer,
            runner. Repeat the option or separate the values by commas.
        output: The folder to create it in. [default: the current folder]
        as_json: Print the paths of the files as one JSON object.
    """
    from ace.cli.plugin_template import EXTRAS, names_of_plugin, write_plugin

    check_is_path("--output", output)
    chosen = [extra.strip() for listed in extras for extra in listed.split(",")]
    for extra in chosen:
        if extra not in EXTRAS:
            raise UsageError(f"--with takes {', '.join(EXTRAS)}, not {extra!r}")
    try:
        names = names_of_plugin(name)
    except ValueError as error:
        raise UsageError(str(error)) from error
    folder = output / names.distribution
    try:
        written = write_plugin(names, folder, chosen)
    except FileExistsError as error:
        raise UsageError(f"{folder} already exists, so nothing was written; choose another name or --output") from error
    if as_json:
        print_json({"command": "plugins new", "folder": str(folder), "files": [str(path) for path in written]})
        return DONE
    print_text("\n".join(map(str, written)))
    note(
        f"\nThe plugin is complete. In {folder}, install it and run its tests:\n"
        "  python -m pip install --editable .\n  python -m pytest"
    )
    return DONE


def _list(name: str | None, as_json: bool) -> int:
    from ace.plugins import list_plugins
    from ace.plugins.catalogue import catalogue

    infos = [_with_command_conflict(info) for info in list_plugins(name)]
    _print(infos, list(catalogue().warnings), as_json)
    return DONE


def _with_command_conflict(info: PluginInfo) -> PluginInfo:
    """Return the description of a plugin, with a problem if its command has the name of a built-in one."""
    from ace.cli.command_table import built_in_names

    if info.problem or "commands" not in info.kinds or info.name not in built_in_names():
        return info
    problem = (
        f"plugin {info.name!r} of {info.distribution} {info.version}: its command is not available, since ace has a "
        f"command {info.name!r} of its own; its authors have to rename the plugin"
    )
    return replace(info, status="conflict", problem=problem)


def _check(name: str | None, as_json: bool) -> int:
    from ace.plugins.catalogue import catalogue
    from ace.plugins.checking import check_plugins, foreign_providers_of_ace

    checked = check_plugins(name)
    hiding = [
        f"the distribution {other!r} brings an import package 'ace' too, which may hide that of ace-core; "
        f"run: pip uninstall {other}, then install ace-core again"
        for other in foreign_providers_of_ace()
    ]
    for warning in hiding:
        note(f"ace: warning: {warning}")
    infos = [_with_command_conflict(plugin.info) for plugin in checked]
    _print(infos, [*catalogue().warnings, *hiding], as_json, with_problems=False)
    conflicts = {info.problem for info in infos if info.status == "conflict"}
    problems = list(dict.fromkeys(problem for plugin in checked for problem in plugin.problems))
    shown: set[str] = set()
    for problem in problems:
        note(f"\n{problem.text}")
        if problem.traceback and problem.traceback not in shown:  # several targets may fail at one import
            shown.add(problem.traceback)
            note(problem.traceback)
    for conflict in sorted(conflicts - {problem.text for problem in problems}):
        note(f"\n{conflict}")
    return WITH_FAILURES if problems or conflicts else DONE


def _print(infos: list[PluginInfo], warnings: list[str], as_json: bool, *, with_problems: bool = True) -> None:
    if as_json:
        print_json({"plugins": [asdict(info) for info in infos], "warnings": warnings})
        return
    if not infos:
        print_text("no plugins are installed")
        return
    print_table(
        ["name", "kinds", "distribution", "version", "API", "status", "summary"],
        [
            [
                info.name.replace("_", "-"),
                ", ".join(info.kinds) or "-",
                info.distribution,
                info.version,
                "-" if info.api is None else str(info.api),
                info.status,
                info.summary,
            ]
            for info in infos
        ],
    )
    for problem in dict.fromkeys(info.problem for info in infos if info.problem and with_problems):
        note(f"ace: {problem}")

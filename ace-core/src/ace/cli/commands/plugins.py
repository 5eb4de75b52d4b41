"""`ace plugins`: what is installed, what is wrong with it, and a new one to begin with."""

from __future__ import annotations

import traceback
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from ace.cli.console import note, print_json, print_table, print_text
from ace.cli.errors import DONE, WITH_FAILURES, UsageError
from ace.cli.options import Flag, JsonFlag

if TYPE_CHECKING:
    from ace.plugins import PluginInfo

__all__ = ["app"]

app = App(name="plugins")


@app.default
def plugins(
    name: str | None = None,
    /,
    *,
    check: Annotated[bool, Flag] = False,
    as_json: JsonFlag = False,
) -> int:
    """List the plugins that are installed. Nothing of them is imported, unless they are checked.

    Args:
        name: Only the plugin of this name.
        check: Load everything that they give, and show what is wrong.
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
    output: Annotated[Path, Parameter(name=["--output", "-o", "--out"], show_default=False)] = Path(),
    as_json: JsonFlag = False,
) -> int:
    """Write the source of a new plugin, with the tests of the conformance kit.

    Args:
        name: The name of the plugin, such as `acme`; it becomes the folder `ace-acme`.
        output: The folder to create it in. [default: the current folder]
        as_json: Print the paths of the files as one JSON object.
    """
    from ace.cli.plugin_template import names_of_plugin, write_plugin

    try:
        names = names_of_plugin(name)
    except ValueError as error:
        raise UsageError(str(error)) from error
    folder = output / names.distribution
    try:
        written = write_plugin(names, folder)
    except FileExistsError as error:
        raise UsageError(
            f"{folder} is there already, and nothing was written; choose another name or --output"
        ) from error
    if as_json:
        print_json({"command": "plugins new", "folder": str(folder), "files": [str(each) for each in written]})
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

    _print(list_plugins(name), list(catalogue().warnings), as_json)
    return DONE


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
    _print([info for info, _ in checked], [*catalogue().warnings, *hiding], as_json, with_problems=False)
    for _, errors in checked:
        for error in errors:
            note(f"\n{error}")
            if error.__cause__ is not None:
                note("".join(traceback.format_exception(error.__cause__)).rstrip())
    return WITH_FAILURES if any(errors for _, errors in checked) else DONE


def _print(infos: list[PluginInfo], warnings: list[str], as_json: bool, *, with_problems: bool = True) -> None:
    if as_json:
        print_json({"plugins": [asdict(info) for info in infos], "warnings": warnings})
        return
    if not infos:
        print_text("There are no plugins.")
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

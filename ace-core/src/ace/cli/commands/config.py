"""`ace config`: each setting and where it comes from."""

from __future__ import annotations

import os
from pathlib import Path

from ace.cli.console import print_json, print_table, print_text
from ace.cli.options import JsonFlag
from ace.cli.settings import FIELDS, load_settings, project_file, shown_setting, user_file

__all__ = ["command"]


def command(*, as_json: JsonFlag = False) -> int:
    """Show the settings and where each one comes from. Keys are not shown.

    Later sources override earlier ones: defaults, your own settings file, `ace.toml` of the project, environment
    variables (ACE_...), options of the command.

    For example:

        ace config
        ACE_MODEL=openai/gpt-4o-mini ace config

    Args:
        as_json: Print one JSON object.
    """
    settings = load_settings({})
    shown = [(field, shown_setting(field, settings), settings.origins[field.name]) for field in FIELDS]
    project = project_file(Path.cwd())
    if as_json:
        values = {
            field.name: {"value": value, "from": origin, "variable": field.variable, "about": field.help}
            for field, value, origin in shown
        }
        files = {"user": str(user_file(os.environ)), "project": None if project is None else str(project)}
        print_json({"settings": values, "files": files})
        return 0
    print_table(
        ["setting", "value", "from", "variable"],
        [[field.name, "-" if value is None else str(value), origin, field.variable] for field, value, origin in shown],
    )
    print_text(f"\nuser file: {user_file(os.environ)}\nproject file: {project or 'none (ace.toml)'}")
    return 0

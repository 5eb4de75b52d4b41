"""`ace config`: each setting and where it comes from."""

from __future__ import annotations

import os
from pathlib import Path

from ace.cli.console import print_json, print_table, print_text
from ace.cli.options import JsonFlag
from ace.cli.settings import SETTINGS, SettingValue, load_settings, shown_setting
from ace.cli.settings_file import project_file, user_file

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
    shown = [(setting, shown_setting(setting, settings), settings.origins[name]) for name, setting in SETTINGS.items()]
    project = project_file(Path.cwd())
    if as_json:
        values = {
            setting.name: {"value": value, "from": origin, "variable": setting.variable, "about": setting.help}
            for setting, value, origin in shown
        }
        files = {"user": str(user_file(os.environ)), "project": None if project is None else str(project)}
        print_json({"settings": values, "files": files})
        return 0
    rows = [
        [setting.name, (setting.used if origin == "default" else "") or _text(value), origin, setting.variable]
        for setting, value, origin in shown
    ]
    print_table(["setting", "value", "from", "variable"], rows)
    print_text(f"\nuser file: {user_file(os.environ)}\nproject file: {project or 'none (ace.toml)'}")
    return 0


def _text(value: SettingValue) -> str:
    """Return a value as it is written in a settings file."""
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

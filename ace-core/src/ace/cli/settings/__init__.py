"""The settings of the command line: defaults < user file < project file < environment < flags."""

from ace.cli.settings.fields import FIELDS, SettingField, SettingValue
from ace.cli.settings.loading import Settings, load_settings
from ace.cli.settings.places import project_file, user_file

__all__ = ["FIELDS", "SettingField", "SettingValue", "Settings", "load_settings", "project_file", "user_file"]

"""Writes the source of a new plugin, complete and conforming, for its author to change."""

from ace.cli.plugin_template.writing import EXTRAS, PluginNames, names_of_plugin, plugin_files, write_plugin

__all__ = ["EXTRAS", "PluginNames", "names_of_plugin", "plugin_files", "write_plugin"]

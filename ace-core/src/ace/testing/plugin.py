"""`PluginConformance`: the checks for the entry point, the hook module and the specs of a plugin."""

from __future__ import annotations

import json
from functools import cache
from subprocess import CompletedProcess
from typing import NoReturn

import pytest

from ace import __version__
from ace.plugins import PluginApiError, PluginError
from ace.plugins.checking import resolution_problems
from ace.plugins.loading import Plugin, call_hooks
from ace.plugins.specs import Spec
from ace.testing.suite import Conformance, demand, installed_plugins, last_line, loaded_plugin, run_without

__all__ = ["PluginConformance"]

_IMPORT_HOOKS = """
import json
import ace.plugins
before = set(sys.modules)
import importlib
importlib.import_module(sys.argv[1])
print(json.dumps(sorted(set(sys.modules) - before)))
"""


class PluginConformance(Conformance, is_suite=True):
    """Checks the entry point, the hook module and what it declares. Fixtures: `plugin_name`, `framework_modules`."""

    @pytest.fixture
    def module_budget(self) -> int:
        """The maximum number of modules that the hook module may import, besides those of `ace.plugins`."""
        return 20

    def test_entry_point(self, plugin_name: str) -> None:
        """Exactly one installed distribution provides a plugin of this name, and it is allowed to."""
        plugin = _installed(plugin_name)
        if plugin is None:
            pytest.fail(
                f"no entry point {plugin_name!r} in the group 'ace.plugins'; add it to pyproject.toml, and "
                "install the distribution again",
                pytrace=False,
            )
        problem = plugin.installed.problem
        demand(problem is None, str(problem))

    def test_api_version(self, plugin_name: str) -> None:
        """`ACE_API` is a version of the plugin API that this version of ace-core supports."""
        try:
            _called(_found(plugin_name))
        except PluginApiError as error:
            pytest.fail(str(error), pytrace=False)
        except PluginError as error:
            _cannot("test_hooks", str(error))

    def test_hooks(self, plugin_name: str) -> None:
        """The hook module can be imported, its hooks exist, and each yields specs of its kind."""
        try:
            _called(_found(plugin_name))
        except PluginApiError as error:
            _cannot("test_api_version", str(error))
        except PluginError as error:
            pytest.fail(str(error), pytrace=False)

    def test_names(self, plugin_name: str) -> None:
        """Every spec has the name of the entry point, and each hook yields at most one."""
        try:
            found = _called(_found(plugin_name))
        except PluginError as error:
            _cannot("test_hooks", str(error))
        for kind, specs in found.items():
            names = [spec.name for spec in specs]
            demand(names == [plugin_name], f"ace_{kind} yields {names}; it must yield one spec named {plugin_name!r}")

    def test_targets(self, plugin_name: str) -> None:
        """All targets of the specs can be imported, and their requirements are installed."""
        plugin = loaded_plugin(plugin_name)
        problems = [str(problem) for spec in plugin.specs_of(Spec) for problem in resolution_problems(plugin, spec)]
        demand(not problems, "\n".join(problems))

    def test_range_of_ace_core(self, plugin_name: str) -> None:
        """The distribution requires ace-core in a range with a lower and an upper bound that contains this release."""
        from importlib_metadata import requires
        from packaging.requirements import Requirement
        from packaging.utils import canonicalize_name

        distribution = _found(plugin_name).installed.distribution
        declared = [Requirement(text) for text in requires(distribution) or ()]
        ranges = [
            requirement.specifier for requirement in declared if canonicalize_name(requirement.name) == "ace-core"
        ]
        demand(ranges, f"{distribution!r} does not require ace-core; write a range: 'ace-core>=0.1,<0.2'")
        operators = {part.operator for part in ranges[0]}
        both_ends = operators & {"==", "~=", "==="} or (operators & {">=", ">"} and operators & {"<", "<="})
        demand(both_ends, f"{distribution!r} requires 'ace-core{ranges[0]}'; give the range both ends")
        demand(
            ranges[0].contains(__version__, prereleases=True),
            f"{distribution!r} requires 'ace-core{ranges[0]}', and is tested with ace-core {__version__}",
        )

    def test_hook_module_without_framework(self, plugin_name: str, framework_modules: tuple[str, ...]) -> None:
        """The hook module can be imported without the framework."""
        done = _imported_without(_importable(plugin_name), framework_modules)
        demand(done.returncode == 0, _not_imported(done, framework_modules))

    def test_hook_module_is_light(
        self, plugin_name: str, framework_modules: tuple[str, ...], module_budget: int
    ) -> None:
        """The hook module imports only few modules besides those of `ace.plugins`."""
        done = _imported_without(_importable(plugin_name), framework_modules)
        _needs_import(done, framework_modules)
        modules: list[str] = json.loads(done.stdout.splitlines()[-1])
        demand(
            len(modules) <= module_budget,
            f"importing the hook module loads {len(modules)} modules, more than {module_budget}: {', '.join(modules)}",
        )

    def test_hook_module_is_silent(self, plugin_name: str, framework_modules: tuple[str, ...]) -> None:
        """Importing the hook module prints nothing, because programs may parse the output of a command."""
        done = _imported_without(_importable(plugin_name), framework_modules)
        _needs_import(done, framework_modules)
        printed = "\n".join([*done.stdout.splitlines()[:-1], *done.stderr.splitlines()])
        demand(not printed, f"importing the hook module prints {printed!r}")


def _installed(name: str) -> Plugin | None:
    found = installed_plugins(name)
    return found[0] if found else None


def _found(name: str) -> Plugin:
    plugin = _installed(name)
    if plugin is None:
        _cannot("test_entry_point", f"no such plugin: {name!r}")
    return plugin


def _cannot(before: str, because: str) -> NoReturn:
    pytest.skip(f"cannot be checked before {before} holds: {because}")


def _called(plugin: Plugin) -> dict[str, tuple[Spec, ...]]:
    """Return the specs of the hooks, whatever their names are."""
    return call_hooks(plugin.hook_module(), plugin.owner)


def _importable(name: str) -> str:
    plugin = _found(name)
    try:
        plugin.hook_module()
    except PluginError as error:
        _cannot("test_hooks", str(error))
    return plugin.installed.module.partition(":")[0]


def _needs_import(done: CompletedProcess[str], blocked: tuple[str, ...]) -> None:
    if done.returncode != 0:
        _cannot("test_hook_module_without_framework", _not_imported(done, blocked))


def _not_imported(done: CompletedProcess[str], blocked: tuple[str, ...]) -> str:
    return f"the hook module cannot be imported without {', '.join(blocked)}: {last_line(done.stderr)}"


@cache
def _imported_without(module: str, blocked: tuple[str, ...]) -> CompletedProcess[str]:
    return run_without(blocked, _IMPORT_HOOKS, module)

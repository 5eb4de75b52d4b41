"""Discovery is a pure function of entry points and environment."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ace.plugins import Discovery, PluginConflictError, PluginLoadError, discover


@dataclass
class Distribution:
    name: str
    version: str = "1.0"

    def read_text(self, filename: str) -> str | None:
        described = f"Metadata-Version: 2.4\nName: {self.name}\nVersion: {self.version}\nSummary: Do it.\n\nName: no\n"
        return described if filename == "METADATA" else None


@dataclass
class EntryPoint:
    name: str
    dist: Distribution | None
    value: str = "some.plugin"


def found(*pairs: tuple[str, str], **environ: str) -> Discovery:
    return discover([EntryPoint(name, Distribution(distribution)) for name, distribution in pairs], environ)


def enabled(discovery: Discovery) -> list[str]:
    return [plugin.name for plugin in discovery.plugins if plugin.is_enabled]


PAIRS = (("acme", "ace-acme"), ("langchain", "ace-langchain"))


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({}, ["acme", "langchain"]),
        ({"ACE_PLUGINS": ""}, []),
        ({"ACE_PLUGINS": " , "}, []),
        ({"ACE_PLUGINS": " ACE_Acme ,other"}, ["acme"]),
        ({"ACE_PLUGINS": "langchain"}, ["langchain"]),
        ({"ACE_PLUGINS_DISABLED": ""}, ["acme", "langchain"]),
        ({"ACE_PLUGINS_DISABLED": "langchain"}, ["acme"]),
        ({"ACE_PLUGINS_DISABLED": "ace.acme,Langchain"}, []),
        ({"ACE_PLUGINS": "acme,langchain", "ACE_PLUGINS_DISABLED": "acme"}, ["langchain"]),
    ],
)
def test_plugins_are_chosen_by_name_or_distribution(environ: dict[str, str], names: list[str]) -> None:
    assert enabled(found(*PAIRS, **environ)) == names


def test_a_name_that_matches_nothing_is_warned_about() -> None:
    assert found(*PAIRS, ACE_PLUGINS="acme,acmee", ACE_PLUGINS_DISABLED="x").warnings == (
        "ACE_PLUGINS names 'acmee', but no plugin or distribution has that name",
        "ACE_PLUGINS_DISABLED names 'x', but no plugin or distribution has that name",
    )
    assert found(*PAIRS).warnings == ()


def test_two_distributions_with_one_name_conflict_and_no_other_does() -> None:
    problems = {plugin.distribution: plugin.problem for plugin in found(*PAIRS, ("acme", "acme-again")).plugins}
    assert problems["ace-langchain"] is None
    for distribution in ("ace-acme", "acme-again"):
        problem = problems[distribution]
        assert isinstance(problem, PluginConflictError)
        assert "ace-acme 1.0 and acme-again 1.0" in str(problem)


def test_a_conflict_ends_when_one_of_the_two_is_switched_off() -> None:
    plugins = found(*PAIRS, ("acme", "acme-again"), ACE_PLUGINS_DISABLED="ace-acme").plugins
    assert [(plugin.distribution, plugin.problem) for plugin in plugins if plugin.is_enabled] == [
        ("acme-again", None),
        ("ace-langchain", None),
    ]


def test_the_same_distribution_twice_on_the_path_is_no_conflict() -> None:
    first = EntryPoint("acme", Distribution("ace-acme", "2.0"))
    again = EntryPoint("acme", Distribution("Ace_Acme", "1.0"))
    plugins = discover([first, again], {}).plugins
    assert [(plugin.version, plugin.problem) for plugin in plugins] == [("2.0", None)]


def test_a_first_party_name_is_reserved_for_its_distribution() -> None:
    plugins = found(("langchain", "stranger"), ("langchain", "ace-langchain")).plugins
    assert [(plugin.distribution, type(plugin.problem)) for plugin in plugins] == [
        ("ace-langchain", type(None)),
        ("stranger", PluginConflictError),
    ]


def test_names_that_users_cannot_tell_apart_are_one_name() -> None:
    assert [type(plugin.problem) for plugin in found(("a_b", "one"), ("a__b", "two")).plugins] == [
        PluginConflictError,
        PluginConflictError,
    ]
    [stranger] = found(("claude__code", "stranger")).plugins
    assert "reserved for 'ace-claude-code'" in str(stranger.problem)


@pytest.mark.parametrize("name", ["local", "litellm", "sqlite", "ace"])
def test_no_plugin_takes_a_name_of_ace_itself(name: str) -> None:
    [plugin] = found((name, "stranger")).plugins
    assert isinstance(plugin.problem, PluginConflictError)
    assert "reserved for 'ace-core'" in str(plugin.problem)


@pytest.mark.parametrize("name", ["Acme", "acme-agents", "1acme", "", "ácme"])
def test_a_name_is_written_in_one_way(name: str) -> None:
    [plugin] = found((name, "ace-acme")).plugins
    assert isinstance(plugin.problem, PluginLoadError)


def test_the_distribution_is_described_by_the_headers_of_its_metadata() -> None:
    [plugin] = found(("acme", "ace-acme")).plugins
    assert (plugin.distribution, plugin.version, plugin.summary) == ("ace-acme", "1.0", "Do it.")


def test_an_entry_point_without_a_distribution_is_taken() -> None:
    [plugin] = discover([EntryPoint("acme", None)], {}).plugins
    assert (plugin.name, plugin.distribution, plugin.problem) == ("acme", "", None)

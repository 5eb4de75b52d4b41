"""The conformance kit on the plugin, with a server."""

from __future__ import annotations

import pytest

from ace.testing import PluginConformance, StoreConformance


class Shared:
    @pytest.fixture
    def plugin_name(self) -> str:
        return "postgres"

    @pytest.fixture
    def framework_modules(self) -> tuple[str, ...]:
        return ("psycopg", "psycopg_pool")


class TestPlugin(Shared, PluginConformance):
    pass


class TestStore(StoreConformance):
    @pytest.fixture
    def plugin_name(self) -> str:
        return "postgres"

    @pytest.fixture
    def location(self, postgres: str) -> str:
        return postgres

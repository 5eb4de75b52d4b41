"""The conformance kit on every reader of this library that has a sample log."""

from __future__ import annotations

from pathlib import Path

import pytest

from ace.logs import LogReader, NotALogError, file_source
from ace.logs.formats import built_in
from ace.logs.reading import reader_for
from ace.testing import LogReaderConformance

DATA = Path(__file__).with_name("data")


def _samples() -> dict[str, list[Path]]:
    """Return the sample logs, by the names of the built-in readers that take them."""
    found: dict[str, list[Path]] = {}
    for path in sorted(DATA.iterdir()) if DATA.is_dir() else ():
        try:
            reader = reader_for(file_source(path).head, built_in())
        except NotALogError:
            continue
        if reader is not None:
            found.setdefault(reader.name, []).append(path)
    return found


SAMPLES = _samples()
WITH_SAMPLES = [reader for reader in built_in() if reader.name in SAMPLES]


@pytest.mark.parametrize("name", [reader.name for reader in WITH_SAMPLES])
class TestBuiltIn(LogReaderConformance):
    @pytest.fixture
    def reader(self, name: str) -> LogReader:
        return next(reader for reader in WITH_SAMPLES if reader.name == name)

    @pytest.fixture
    def sample_logs(self, name: str) -> list[Path]:
        return SAMPLES[name]

    @pytest.fixture
    def claims_foreign_logs(self, reader: LogReader) -> bool:
        return reader is built_in()[-1]

"""The default places of logs, which are looked through one by one."""

from __future__ import annotations

from ace.logs import readers


def test_the_places_of_every_reader_are_several_texts() -> None:
    """A text is a sequence of texts, too, and the first letter of a path is the root of the disk."""
    assert [reader.name for reader in readers() if isinstance(reader.places, str)] == []
    assert [reader.name for reader in readers() if isinstance(reader.side_files, str)] == []

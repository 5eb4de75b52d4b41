"""Objects in memory are sources like files."""

from ace.logs.source import live_source


def test_the_text_of_an_object_in_memory_is_what_was_passed() -> None:
    assert live_source("User: Two and two?\nAssistant: Four.").text() == "User: Two and two?\nAssistant: Four."
    assert live_source(["one", {"a": 1}, "two"]).text() == "one\ntwo"

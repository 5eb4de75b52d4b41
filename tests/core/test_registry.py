"""The one class behind the registries of converters, prefixes, embedders, observers and stores."""

import threading

import pytest

from ace._internal.registry import Registry


def test_a_value_is_found_by_its_name_and_forgotten() -> None:
    registry = Registry[int]("nothing", "a number")
    registry.register("two", 2)
    registry.register("one", 1)
    assert registry.get("one") == 1
    assert registry.get("three") is None
    assert list(registry.all()) == ["two", "one"]
    assert registry.sorted() == [1, 2]
    registry.unregister("one")
    registry.unregister("one")
    assert dict(registry.known) == {"two": 2}


def test_a_name_is_taken_once_and_an_equal_value_may_come_again() -> None:
    registry = Registry[str]("nothing", "a colour")
    registry.register("red", "#f00")
    registry.register("red", "#f00")
    with pytest.raises(ValueError, match=r"^a colour named 'red' is already registered; unregister it first or choose"):
        registry.register("red", "#e00")
    assert registry.get("red") == "#f00"


def test_what_was_returned_does_not_change_while_others_register() -> None:
    registry = Registry[int]("nothing", "a number")
    registry.register("first", 0)
    before = registry.all()

    def register(start: int) -> None:
        for number in range(start, start + 100):
            registry.register(f"number {number}", number)

    threads = [threading.Thread(target=register, args=(100 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(before) == {"first": 0}
    assert len(registry.all()) == 401

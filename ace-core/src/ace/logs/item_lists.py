"""Finds the lists of items of one kind in a source: its records themselves, or lists at some depth in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ace.logs.head import LogHead, Record

__all__ = ["ItemList", "has_item_list", "item_lists"]

_DEEPEST: Final = 4
_SHARE: Final = 0.6
_SEARCHED: Final = 6
"""In how many of the first records lists are looked for, since every reader of such a format does so."""


class ItemList(NamedTuple):
    """A list of items, such as messages or events, which is one run."""

    items: list[Any]
    """The items."""
    outer: Mapping[str, Any]
    """The object around the list; empty if there is none."""
    key: str
    """The field of the object that holds the list."""


def has_item_list(head: LogHead, is_item: Callable[[Mapping[str, Any]], bool]) -> bool:
    """Return whether the beginning of a source is or holds a list of items of one kind.

    Args:
        head: The beginning of the source.
        is_item: Whether an object is an item.
    """
    if head.shape in ("text", "table"):
        return False
    objects = head.objects
    if objects and sum(map(is_item, objects)) >= _SHARE * len(head.records):
        return True
    some = head.records[:_SEARCHED]
    found = [next(_inside(record, is_item, _DEEPEST), None) is not None for record in some]
    return bool(found) and sum(found) * 2 > len(found)


def item_lists(records: Iterable[Record], is_item: Callable[[Mapping[str, Any]], bool]) -> Iterator[ItemList]:
    """Yield the lists of items in a source. Records that are items themselves are one list, with all after them.

    Args:
        records: The records of the source.
        is_item: Whether an object is an item.
    """
    own: list[Any] = []
    for record in records:
        value = record.value
        if isinstance(value, dict) and (own or is_item(value)):
            own.append(value)
        else:
            yield from _inside(value, is_item, _DEEPEST)
    if own:
        yield ItemList(own, {}, "")


def _inside(
    value: object, is_item: Callable[[Mapping[str, Any]], bool], depth: int, outer: Mapping[str, Any] | None = None
) -> Iterator[ItemList]:
    if isinstance(value, list) and value:
        if _is_list(value, is_item):
            yield ItemList(value, outer or {}, next((key for key, item in (outer or {}).items() if item is value), ""))
        elif depth:
            for item in value:
                yield from _inside(item, is_item, depth - 1)
    elif isinstance(value, dict) and depth:
        lists = [item for item in value.values() if isinstance(item, list) and _is_list(item, is_item)]
        if lists:
            yield from _inside(max(lists, key=len), is_item, depth, value)
            return
        for item in value.values():
            yield from _inside(item, is_item, depth - 1)


def _is_list(value: list[Any], is_item: Callable[[Mapping[str, Any]], bool]) -> bool:
    return bool(value) and sum(isinstance(item, dict) and is_item(item) for item in value) >= _SHARE * len(value)

"""One trace of every type that the reader knows, each with a marker somewhere in it."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import enum
import json
import uuid
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

__all__ = ["MARK", "SHAPES", "PlainRun"]

MARK = "72617261-7261-4261-8261-726172617261"
"""It is a UUID too, so that an id can hold it."""


@dataclasses.dataclass
class Run:
    task: str
    output: Any
    notes: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class SlottedRun:
    task: str
    output: Any


class PydanticRun(BaseModel):
    model_config = ConfigDict(extra="allow")
    task: str
    output: Any = None
    hidden: str = Field(default="", exclude=True)
    _private: str = PrivateAttr(default="")

    def with_private(self, text: str) -> PydanticRun:
        self._private = text
        return self


class TupleRun(NamedTuple):
    task: str
    output: str


class PlainRun:
    def __init__(self, output: Any) -> None:
        self.task = "t"
        self._log = [output]


class Colour(enum.Enum):
    RED = MARK


SHAPES: dict[str, object] = {
    "text": f"a log line with {MARK}",
    "bytes": f"a log line with {MARK}".encode(),
    "bytearray": bytearray(MARK.encode()),
    "utf-16": MARK.encode("utf-16"),
    "broken utf-8": b"\xff\xfe\xfd" + MARK.encode(),
    "json text": json.dumps({"task": "t", "extra": {"deep": [MARK]}}),
    "json with repeated keys": f'{{"task": "{MARK}", "task": "other"}}',
    "json lines": f'{{"a": 1}}\n{{"b": "{MARK}"}}\n',
    "broken json": f'{{"task": "{MARK}',
    "dataclass": Run("t", MARK),
    "nested dataclass": Run("t", Run("u", {"x": [Run("v", MARK)]})),
    "slotted dataclass": SlottedRun("t", MARK),
    "pydantic": PydanticRun(task="t", output=MARK),
    "pydantic extra": PydanticRun.model_validate({"task": "t", "further": MARK}),
    "pydantic excluded": PydanticRun(task="t", hidden=MARK),
    "pydantic private": PydanticRun(task="t").with_private(MARK),
    "named tuple": TupleRun("t", MARK),
    "object": PlainRun(MARK),
    "namespace": SimpleNamespace(steps=[SimpleNamespace(action=MARK)]),
    "enum": {"task": "t", "colour": Colour.RED},
    "set": {"task": "t", "tags": {MARK, "b"}},
    "deque": collections.deque([{"role": "user", "content": MARK}]),
    "tuple of pairs": [("search", MARK)],
    "path": {"file": PurePosixPath("/a") / MARK},
    "id": {"task": "t", "run_id": uuid.UUID(MARK)},
    "key": {"task": "t", MARK: 1},
    "key that is no text": {("a", MARK): 1},
    "date and bytes inside": {"when": datetime.date(2026, 1, 1), "data": MARK.encode()},
    "exception": ValueError(MARK),
    "exception inside": {"task": "t", "error": RuntimeError("x", {"cause": MARK})},
    "message object": [SimpleNamespace(role="assistant", content=MARK)],
    "message as trace": {"role": "assistant", "content": MARK},
    "step list": {"task": "t", "steps": [{"thought": "x", "action": MARK}]},
    "two step lists": {"steps": [{"a": "b"}], "messages": [{"role": "user", "content": MARK}]},
    "answer as object": {"output": {"messages": [{"content": MARK}]}},
    "number": {"task": "t", "metrics": {MARK: 0.5}},
    "unknown role": [{"role": MARK, "content": "x"}],
    "image": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}, MARK]}],
}

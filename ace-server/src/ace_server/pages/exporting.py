"""Tables as files: what a page lists, with its filters, as CSV for spreadsheets or as JSON for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from ace.integrations import with_hidden_shown

if TYPE_CHECKING:
    from starlette.requests import Request

__all__ = ["FORMATS", "file_response", "iso_time", "table_response", "to_csv", "wants_file"]

FORMATS: Final[Mapping[str, str]] = {"csv": "text/csv", "json": "application/json"}
"""The formats, with their media types. A page is exported with `?format=csv`, beside its filters."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins with one of these is a formula to a spreadsheet."""

Cell = str | int | float | None


def wants_file(request: Request) -> bool:
    """Return whether the address of a page asks for its table as a file."""
    return request.query_params.get("format", "") in FORMATS


def table_response(request: Request, name: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Response:
    """Return a table as the file that the address asks for.

    Args:
        request: The request, for which `wants_file` is true.
        name: The name of the file, without its ending.
        columns: The names of the columns.
        rows: The cells of each row; times as `iso_time`.
    """
    format = request.query_params["format"]
    if format == "csv":
        return file_response(name, format, to_csv(columns, rows))
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    return file_response(name, format, json.dumps(records, ensure_ascii=False, indent=1))


def file_response(name: str, format: str, text: str) -> Response:
    """Return a text as a file to be saved.

    Args:
        name: The name of the file, without its ending.
        format: A key of `FORMATS`.
        text: Its contents.
    """
    ascii_name = f"{name}.{format}".encode("ascii", "replace").decode("ascii").replace('"', "_").replace("?", "_")
    return Response(
        text.encode("utf-8", "backslashreplace"),
        media_type=FORMATS[format],
        headers={"Content-Disposition": f'attachment; filename="{ascii_name}"'},
    )


def to_csv(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table for spreadsheets. An apostrophe keeps a text from being read as a formula.

    Args:
        columns: The names of the columns.
        rows: The cells of each row.

    Example:
        >>> print(to_csv(["id", "text"], [[1, "=1+1"]]), end="")
        id,text
        1,'=1+1
    """
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(columns)
    for row in rows:
        table.writerow(_shown(cell) if isinstance(cell, str) else cell for cell in row)
    return written.getvalue()


def _shown(text: str) -> str:
    """Return a text for a spreadsheet or a terminal: neither a formula nor with hidden characters."""
    text = with_hidden_shown(text)
    return f"'{text}" if text.startswith(_FORMULA) else text


def iso_time(seconds: float | None) -> str | None:
    """Return a time of the service for a file: ISO 8601, UTC; None if there is none.

    Args:
        seconds: The seconds since 1970.
    """
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")

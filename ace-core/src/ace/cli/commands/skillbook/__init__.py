"""`ace skillbook`: looks at a skillbook and its history."""

from __future__ import annotations

from cyclopts import App

from ace.cli.commands.skillbook import (
    blame,
    diff,
    log,
    rollback,
    show,
)

__all__ = ["app"]

app = App(
    name="skillbook",
    help="Look at a skillbook and its history.",
    help_format="plaintext",
)
app.command(show.command, name="show")
app.command(log.command, name="log")
app.command(diff.command, name="diff")
app.command(blame.command, name="blame")
app.command(rollback.command, name="rollback")

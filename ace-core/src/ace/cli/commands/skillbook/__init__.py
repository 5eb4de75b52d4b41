"""`ace skillbook`: looks at a skillbook and its history, and moves skills in and out."""

from __future__ import annotations

from cyclopts import App

from ace.cli.commands.skillbook import (
    blame,
    dedup,
    diff,
    export,
    import_skills,
    log,
    merge,
    prune,
    rollback,
    show,
)

__all__ = ["app"]

app = App(
    name="skillbook",
    help="Look at a skillbook and its history, move skills in and out.",
    help_format="markdown",
)
app.command(show.command, name="show")
app.command(log.command, name="log")
app.command(diff.command, name="diff")
app.command(blame.command, name="blame")
app.command(rollback.command, name="rollback")
app.command(export.command, name="export")
app.command(import_skills.command, name="import")
app.command(merge.command, name="merge")
app.command(prune.command, name="prune")
app.command(dedup.command, name="dedup")

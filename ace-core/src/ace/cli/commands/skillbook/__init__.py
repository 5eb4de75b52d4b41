"""`ace skillbook`: shows and changes a skillbook, its history, and its other formats."""

from __future__ import annotations

from cyclopts import App

from ace.cli.commands.skillbook import (
    add,
    blame,
    dedup,
    diff,
    edit,
    export,
    import_skills,
    log,
    merge,
    pin,
    prune,
    remove,
    restore,
    rollback,
    show,
    test,
)

__all__ = ["app"]

app = App(
    name="skillbook",
    help="Show, edit, import and export skills and their history.",
    help_format="markdown",
)
app.command(show.command, name="show", usage="Usage: ace skillbook show [OPTIONS] [IDS...]")
app.command(add.command, name="add")
app.command(edit.command, name="edit", usage="Usage: ace skillbook edit [OPTIONS] SKILL_ID [TEXT]")
app.command(pin.pin, name="pin")
app.command(pin.unpin, name="unpin")
app.command(remove.command, name="remove")
app.command(restore.command, name="restore")
app.command(log.command, name="log")
app.command(diff.command, name="diff", usage="Usage: ace skillbook diff [OPTIONS] FIRST [SECOND]")
app.command(blame.command, name="blame")
app.command(rollback.command, name="rollback")
app.command(export.command, name="export")
app.command(import_skills.command, name="import")
app.command(merge.command, name="merge")
app.command(test.command, name="test", usage="Usage: ace skillbook test [OPTIONS] [SKILLBOOK]")
app.command(prune.command, name="prune")
app.command(dedup.command, name="dedup")

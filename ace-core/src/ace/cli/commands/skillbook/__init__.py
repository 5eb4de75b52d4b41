"""`ace skillbook`: shows and changes a skillbook, its history, and its other formats.

A command is imported when it is called; the list of all commands imports each for its summary.
"""

from __future__ import annotations

from cyclopts import App

__all__ = ["app"]

app = App(
    name="skillbook",
    help="Show, edit, import and export skills and their history.",
    help_format="markdown",
)
app.command(
    "ace.cli.commands.skillbook.show:command", name="show", usage="Usage: ace skillbook show [OPTIONS] [IDS...]"
)
app.command("ace.cli.commands.skillbook.add:command", name="add")
app.command(
    "ace.cli.commands.skillbook.edit:command", name="edit", usage="Usage: ace skillbook edit [OPTIONS] SKILL_ID [TEXT]"
)
app.command("ace.cli.commands.skillbook.pin:pin", name="pin")
app.command("ace.cli.commands.skillbook.pin:unpin", name="unpin")
app.command("ace.cli.commands.skillbook.remove:command", name="remove")
app.command("ace.cli.commands.skillbook.restore:command", name="restore")
app.command("ace.cli.commands.skillbook.log:command", name="log")
app.command(
    "ace.cli.commands.skillbook.diff:command", name="diff", usage="Usage: ace skillbook diff [OPTIONS] FIRST [SECOND]"
)
app.command("ace.cli.commands.skillbook.blame:command", name="blame")
app.command("ace.cli.commands.skillbook.rollback:command", name="rollback")
app.command("ace.cli.commands.skillbook.export:command", name="export")
app.command("ace.cli.commands.skillbook.import_skills:command", name="import")
app.command("ace.cli.commands.skillbook.merge:command", name="merge")
app.command(
    "ace.cli.commands.skillbook.test:command", name="test", usage="Usage: ace skillbook test [OPTIONS] [SKILLBOOK]"
)
app.command("ace.cli.commands.skillbook.prune:command", name="prune")
app.command("ace.cli.commands.skillbook.dedup:command", name="dedup")
app.command("ace.cli.commands.skillbook.forget:command", name="forget")

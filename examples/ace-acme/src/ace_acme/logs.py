"""`AcmeLogs`, which reads the logs of Acme, and the runs of its results. It does not need the framework."""

from __future__ import annotations

from collections.abc import Iterator

from ace.logs import LogHead, Problem, Run, RunBuilder, Source, fields_of, text_of
from ace_acme.result import AcmeResult, Deed

__all__ = ["AcmeLogs", "run_of_result"]


class AcmeLogs:
    """Reads the file that an Acme agent writes for a run."""

    name = "acme"
    title = "Acme logs"
    places = ("~/.acme/logs/*.json",)
    side_files = ()
    note = "The logs do not say whether a run succeeded."

    def recognises(self, head: LogHead) -> float:
        """Return how certainly this is a log of Acme, from 0 to 1."""
        return 0.9 if any("acme_log" in record for record in head.objects) else 0.0

    def runs(self, source: Source) -> Iterator[Run | Problem]:
        """Yield the run in each log."""
        for log, line in source.records():
            fields = fields_of(log)
            if "acme_log" not in fields:
                yield source.problem("not a log of Acme", line)
                continue
            entries = fields.get("entries")
            found = [fields_of(entry) for entry in entries] if isinstance(entries, list) else []
            deeds = [Deed(*(text_of(entry.get(key)) for key in ("kind", "name", "text"))) for entry in found]
            task, answer = text_of(fields.get("assignment")), text_of(fields.get("answer"))
            yield run_of_result(AcmeResult(task, success=None, output=answer, deeds=tuple(deeds)))


def run_of_result(result: AcmeResult) -> Run:
    """Return the run of a result."""
    builder = RunBuilder()
    for number, deed in enumerate(result.deeds, 1):
        place = str(number)
        if deed.kind == "called":
            builder.call(deed.name, deed.text, place=place)
        elif deed.kind in ("returned", "failed"):
            builder.result(deed.text, place=place, name=deed.name, is_error=deed.kind == "failed")
        else:
            builder.message("harness", deed.text, place, name=deed.name)
    return builder.run(
        task=result.task,
        answer=result.output,
        success=result.success,
        reason=f"The run failed: {result.error}" if result.error else "",
        skill_ids=tuple(result.skill_ids),
        metadata={"integration": "acme"},
    )

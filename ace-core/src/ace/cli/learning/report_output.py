"""Shows the report of a run, as tables or as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from ace.calls.secrets import redact
from ace.cli.console import print_table, print_text, visible
from ace.cli.learning.run_report import ModelUse, RunReport
from ace.cli.wording import counted

__all__ = ["print_report", "report_as_json"]

_MOST_FAILURES_SHOWN = 20
_WANTED = {
    "ADD": "a new skill",
    "UPDATE": "a new text for a skill",
    "TAG": "a judgement of a skill",
    "REMOVE": "the removal of a skill",
    "MERGE": "a merge of skills",
    "DELETE": "the removal of a skill",
}


def report_as_json(report: RunReport) -> dict[str, object]:
    """Return the report as JSON values, for `--json`.

    Args:
        report: The report.
    """
    return {
        "traces": {
            "read": report.read,
            "learned": report.learned,
            "already_learned": report.already_learned,
            "failed": len(report.failures),
            "unreadable": report.unreadable,
            "not_begun": report.not_begun,
        },
        "failures": [{**asdict(failure), "reason": redact(failure.reason)} for failure in report.failures],
        "skills": asdict(report.skills),
        "left_out": [{**asdict(each), "reason": redact(each.reason)} for each in report.left_out],
        "new_skills": [{**asdict(skill), "traces": list(skill.traces)} for skill in report.new_skills],
        "model_use": asdict(report.use),
        "proofs": asdict(report.proofs),
    }


def print_report(report: RunReport, *, title: str, noun: str = "trace", epochs: int = 1) -> None:
    """Print the report for people.

    Args:
        report: The report.
        title: What was done, with the skillbook.
        noun: What one input is called.
        epochs: The number of passes over the inputs.
    """
    print_table(["", "number"], _rows(report, noun, epochs), title=title)
    if report.failures:
        shown = report.failures[:_MOST_FAILURES_SHOWN]
        print_text("")
        print_table(
            ["not learned", "at", "why"],
            [[failure.place, failure.stage, redact(failure.reason)] for failure in shown],
        )
        if len(report.failures) > len(shown):
            print_text(f"... and {len(report.failures) - len(shown)} more; --json lists all")
    if report.left_out:
        print_text("")
        counted_out = Counter((_WANTED.get(each.operation, "a change"), each.reason) for each in report.left_out)
        print_table(
            ["rejected", "why", "times"],
            [[wanted, redact(reason), str(times)] for (wanted, reason), times in counted_out.items()],
        )
    if report.new_skills:
        print_text("\nNew skills:")
    for skill in report.new_skills:
        print_text(f"[{skill.id}] {visible(' '.join(skill.content.split()))}")
        print_text(f"    from {visible(', '.join(skill.traces)) or 'no trace'}")


def _rows(report: RunReport, noun: str, epochs: int) -> list[list[str]]:
    skills, use = report.skills, report.use
    passes = f", {epochs} times each" if epochs > 1 else ""
    proofs = report.proofs
    proof_cost = _cost_of(proofs.use)
    rows = [
        ("inputs that cannot be read", str(report.unreadable) if report.unreadable else ""),
        (f"{noun}s read", f"{report.read}{passes}"),
        (f"{noun}s learned", str(report.learned)),
        ("learned by an earlier run", str(report.already_learned) if report.already_learned else ""),
        ("failed", str(len(report.failures) - report.unreadable)),
        ("not processed", str(report.not_begun) if report.not_begun else ""),
        ("skills added", str(skills.added)),
        ("skills updated", str(skills.updated)),
        ("skills tagged", str(skills.tagged)),
        ("skills merged", str(skills.merged)),
        ("skills removed", str(skills.removed) if skills.removed else ""),
        ("changes rejected", str(skills.skipped) if skills.skipped else ""),
        ("skills in all", str(skills.total)),
        ("model calls", str(use.calls)),
        ("recorded answers reused", str(use.recorded_calls) if use.recorded_calls else ""),
        ("tokens in, out", f"{use.input_tokens}, {use.output_tokens}"),
        ("cost", _cost_of(use)),
        ("proven", f"{proofs.proven}, {proofs.rewritten} of them with another text" if proofs.proven else ""),
        ("kept although their proof failed", str(proofs.failing) if proofs.failing else ""),
        ("rejected by their proof", str(proofs.rejected) if proofs.rejected else ""),
        ("proof not judged", str(proofs.not_judged) if proofs.not_judged else ""),
        ("model calls for proofs", f"{proofs.use.calls}, cost {proof_cost}" if proofs.use.calls else ""),
    ]
    return [[name, value] for name, value in rows if value]


def _cost_of(use: ModelUse) -> str:
    cost = "unknown" if use.calls and use.unpriced_calls == use.calls else f"${use.cost:.4f}"
    if 0 < use.unpriced_calls < use.calls:
        cost += f" and {counted(use.unpriced_calls, 'call')} of unknown price"
    return cost

"""Cases: extracts the questions that skills are learned from out of traces, and checks answers to them strictly."""

from ace.cases.checks import (
    answer_passes,
    cases_of,
    check_for,
    check_of_correction,
    check_passes,
    other_alternatives,
    why_not,
)
from ace.cases.judgements import (
    CheckedJudgement,
    Message,
    NamedJudgement,
    Reply,
    checked_judgements,
    corrections_of,
    judged_trace,
    messages_of,
    redacted_messages,
    replies_in,
)
from ace.cases.values import deciding_values, missing_values, right_values, worked_example

__all__ = [
    "CheckedJudgement",
    "Message",
    "NamedJudgement",
    "Reply",
    "answer_passes",
    "cases_of",
    "check_for",
    "check_of_correction",
    "check_passes",
    "checked_judgements",
    "corrections_of",
    "deciding_values",
    "judged_trace",
    "messages_of",
    "missing_values",
    "other_alternatives",
    "redacted_messages",
    "replies_in",
    "right_values",
    "why_not",
    "worked_example",
]

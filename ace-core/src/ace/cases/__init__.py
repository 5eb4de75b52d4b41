"""Cases: extracts the questions that skills are learned from out of traces, and checks answers to them strictly."""

from ace.cases.checks import (
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
from ace.cases.recoveries import FailedCall, call_text, failed_calls
from ace.cases.values import deciding_values, missing_values, right_values, worked_example
from ace.cases.verdicts import answer_passes

__all__ = [
    "CheckedJudgement",
    "FailedCall",
    "Message",
    "NamedJudgement",
    "Reply",
    "answer_passes",
    "call_text",
    "cases_of",
    "check_for",
    "check_of_correction",
    "check_passes",
    "checked_judgements",
    "corrections_of",
    "deciding_values",
    "failed_calls",
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

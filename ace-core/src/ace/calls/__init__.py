"""How roles and models are called: from plain and asynchronous code, within a budget, and recorded.

Integrations use it for their own model calls.
"""

from ace.calls.calling import BLOCKING, ON_LOOP, Calling, finished, own_twin, within_seconds
from ace.calls.model_calls import (
    AnswerBudget,
    AnswerProblem,
    CallScope,
    RecordedAnswers,
    RejectedAnswer,
    answer_budget,
    call_scope,
    current_answer_budget,
    current_call_scope,
    note_model_call,
    redactor_for,
    until_usable,
)
from ace.calls.secrets import is_secret_name

__all__ = [
    "BLOCKING",
    "ON_LOOP",
    "AnswerBudget",
    "AnswerProblem",
    "CallScope",
    "Calling",
    "RecordedAnswers",
    "RejectedAnswer",
    "answer_budget",
    "call_scope",
    "current_answer_budget",
    "current_call_scope",
    "finished",
    "is_secret_name",
    "note_model_call",
    "own_twin",
    "redactor_for",
    "until_usable",
    "within_seconds",
]

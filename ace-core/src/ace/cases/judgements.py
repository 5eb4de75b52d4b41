"""Checks a person's judgements of answers, as a model names them in a trace, against the messages of the trace.

Which message is a judgement is decided by a model, in any language. Code decides whether it can be one: who wrote the
message, whether the quotes are in the messages, and which judgement of an answer is the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, cast

from ace.traces import TraceCorrection, TraceStep

if TYPE_CHECKING:
    from ace.redaction import Redactor

__all__ = [
    "FEEDBACK",
    "CheckedJudgement",
    "Message",
    "NamedJudgement",
    "Reply",
    "checked_judgements",
    "corrections_of",
    "judged_trace",
    "messages_of",
    "redacted_messages",
    "replies_in",
]

FEEDBACK: Final = "feedback"
"""The number of the feedback on an answer, as that of a message."""

Trace = TypeVar("Trace", bound=Mapping[str, Any])

_SPEAKERS: Final = {"user": "person", "assistant": "agent"}
_QUOTATION_MARKS: Final = (("“", "”"), ("„", "“"), ("«", "»"), ("»", "«"), ("「", "」"), ("『", "』"))
_FENCE: Final = re.compile(r"^\s*(?:```|~~~)", re.MULTILINE)
_TURN: Final = re.compile(
    r"^\W*(?:user|human|customer|assistant|agent|ai|bot|system|tool)\W*:", re.IGNORECASE | re.MULTILINE
)


class NamedJudgement(Protocol):
    """A judgement as a model names it, such as `ace.outputs.Judgement`."""

    @property
    def message(self) -> str:
        """The number of the message."""

    @property
    def quote(self) -> str:
        """The words of the judgement."""

    @property
    def wrong(self) -> str:
        """The words of the answer that is judged."""

    @property
    def right(self) -> str:
        """The right answer, from the message or a later one; empty if no one said it."""

    @property
    def withdraws(self) -> bool:
        """Whether it takes back an earlier judgement of the answer."""


@dataclass(frozen=True, slots=True)
class CheckedJudgement:
    """A judgement that a model named, with the messages that it was checked against."""

    place: str
    """The number of the message, or `feedback`."""
    speaker: str
    """Who wrote the message: `person`, `agent` or the name of another speaker; empty if there is no such message."""
    quote: str
    """The words of the judgement."""
    wrong: str
    """The words of the answer that is judged."""
    right: str
    """The right answer; empty if no one said it."""
    withdraws: bool = False
    """Whether it takes back an earlier judgement of the answer."""
    question: str = ""
    """The question that was answered."""
    answer: str = ""
    """The whole answer that is judged."""
    answer_place: str = ""
    """The number of the message with the answer."""
    correction: str = ""
    """The whole message of the judgement."""
    problem: str = ""
    """Why it is not accepted; empty if it is."""


def judged_trace(trace: Trace, named: Sequence[NamedJudgement], redactor: Redactor) -> Trace:
    """Return a trace with the corrections in it that a model named and that are accepted.

    Args:
        trace: The result of `read_trace`.
        named: The judgements that the model named.
        redactor: The one that redacted what the model has seen.

    Example:
        >>> from ace.outputs import Judgement
        >>> from ace.redaction import Redactor
        >>> trace = {"question": "2+2?", "answer": "5", "feedback": "Non, 4.", "corrections": []}
        >>> named = [Judgement(message="feedback", quote="Non, 4", wrong="5", right="4")]
        >>> [correction["right"] for correction in judged_trace(trace, named, Redactor())["corrections"]]
        ['4']
    """
    if not named:
        return trace
    shown = redacted_messages(trace, redactor)
    known: list[TraceCorrection] = list(trace.get("corrections") or ())
    found = corrections_of(checked_judgements(shown, named), shown)
    corrections = [*known, *(correction for correction in found if correction not in known)]
    return cast("Trace", {**trace, "corrections": corrections})


class Reply(NamedTuple):
    """A message of a person that follows an answer of the agent."""

    place: str
    """Its number, or `feedback`."""
    text: str
    """What the person wrote."""
    question: str
    """The message of a person before the answer."""
    answer: str
    """The answer."""
    next_answer: str
    """The answer of the agent to the message; empty if there is none."""


class Message(NamedTuple):
    """A message of a trace."""

    place: str
    """Its number, or `question`, `answer` or `feedback` for the fields of a trace without messages."""
    speaker: str
    """`person`, `agent` or the name of another speaker."""
    text: str
    """What it says."""


class _Found(NamedTuple):
    """An accepted judgement with the indexes of its message and of the message with the question."""

    at: int
    question: int
    judgement: CheckedJudgement


def checked_judgements(trace: Mapping[str, Any], named: Iterable[NamedJudgement]) -> list[CheckedJudgement]:
    """Check judgements against the messages of a trace.

    A judgement is accepted if a person wrote its message, its quote occurs there outside of pasted text, and the wrong
    answer occurs in an earlier message of the agent. White space and case are ignored. A right answer that occurs
    neither in the message nor in a later one is removed.

    Args:
        trace: The result of `read_trace`, redacted like what the model has seen.
        named: The judgements that the model named.

    Returns:
        All of them, in the order of their messages, with the problem of those that are not accepted.

    Example:
        >>> from ace.outputs import Judgement
        >>> trace = {"question": "Currency?", "answer": "EUR", "feedback": "Nein, SEK."}
        >>> named = [Judgement(message="feedback", quote="Nein", wrong="EUR", right="SEK")]
        >>> [(checked.speaker, checked.right, checked.problem) for checked in checked_judgements(trace, named)]
        [('person', 'SEK', '')]
    """
    messages = messages_of(trace)
    checked = [_checked(trace, messages, judgement) for judgement in named]
    return [judgement for _, judgement in sorted(checked, key=lambda pair: pair[0])]


def corrections_of(checked: Sequence[CheckedJudgement], trace: Mapping[str, Any]) -> list[TraceCorrection]:
    """Return the corrections that remain when the last word about each answer holds.

    Args:
        checked: What `checked_judgements` returned.
        trace: The trace that it was called with.

    Returns:
        The corrections, in order. A later judgement of the same answer replaces an earlier one that says something
        else is right, and a judgement that was taken back is none.

    Example:
        >>> from ace.outputs import Judgement
        >>> from ace.traces import trace_step
        >>> said = ["High water?", "2:30 pm", "Our table has an h: 14h30.", "You're right, sorry! 14h30"]
        >>> speakers = ("user", "assistant", "user", "assistant")
        >>> steps = [trace_step("message", who, text, str(n)) for n, (who, text) in enumerate(zip(speakers, said), 1)]
        >>> named = [Judgement(message="3", quote="Our table has an h", wrong="2:30 pm", right="14h30")]
        >>> found = corrections_of(checked_judgements({"steps": steps}, named), {"steps": steps})
        >>> [(correction["question"], correction["wrong"], correction["right"]) for correction in found]
        [('High water?', '2:30 pm', '14h30')]
    """
    messages = messages_of(trace)
    threads: dict[int, list[_Found]] = {}
    asked_in: dict[int, int] = {}  # by the index of a judgement, that of the question that it is about
    for found in _accepted(messages, checked):
        # An answer to a judgement answers the question again.
        question = asked_in.get(found.question, found.question)
        asked_in[found.at] = question
        thread = threads.setdefault(question, [])
        if found.judgement.withdraws:
            thread.clear()
        else:
            thread.append(found)
    placed = [
        (thread[-1].at, correction)
        for question, thread in threads.items()
        if thread
        for correction in _last_word(thread, messages[question].text if question >= 0 else trace.get("question") or "")
    ]
    return [correction for _, correction in sorted(placed, key=lambda pair: pair[0])]


def replies_in(trace: Mapping[str, Any]) -> list[Reply]:
    """Return what a person wrote after answers of the agent: only these messages can judge an answer.

    Args:
        trace: The result of `read_trace`.

    Example:
        >>> [reply.text for reply in replies_in({"question": "2+2?", "answer": "5", "feedback": "It is 4."})]
        ['It is 4.']
        >>> replies_in({"question": "2+2?", "answer": "5"})
        []
    """
    messages = messages_of(trace)
    found = []
    for at, message in enumerate(messages):
        answer = messages[at - 1] if at else message
        if message.speaker == "person" and answer.speaker == "agent" and _is_own(trace, message):
            following = messages[at + 1] if at + 1 < len(messages) else answer
            asked = _question_before(messages, at - 1)
            found.append(
                Reply(
                    place=message.place,
                    text=message.text,
                    question=messages[asked].text if asked >= 0 else "",
                    answer=answer.text,
                    next_answer=following.text if following is not answer and following.speaker == "agent" else "",
                )
            )
    return found


def redacted_messages(trace: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return a trace with redacted messages, as a model sees them.

    Args:
        trace: The result of `read_trace`.
        redactor: Finds personal data and keys.
    """

    def redacted(steps: Sequence[TraceStep]) -> list[TraceStep]:
        return [
            {**step, "content": redactor.redact(step["content"])} if step["kind"] == "message" else step
            for step in steps
        ]

    texts = {name: redactor.redact(trace[name]) for name in ("question", "answer", "feedback") if trace.get(name)}
    lists = {name: redacted(trace[name]) for name in ("steps", "dialogue") if trace.get(name)}
    return {**trace, **texts, **lists}


def messages_of(trace: Mapping[str, Any]) -> list[Message]:
    """Return the messages of a trace, in order.

    The feedback is one if it can only be that of a person: not in a turn of a conversation, where the next turn has
    what the person said, not in the run of an agent with tools, whose feedback says how the tools failed, and not where
    an environment judged the answer.

    Args:
        trace: The result of `read_trace`.

    Example:
        >>> [message.speaker for message in messages_of({"question": "2+2?", "answer": "5", "feedback": "It is 4."})]
        ['person', 'agent', 'person']
    """
    steps: Sequence[TraceStep] = trace.get("steps") or ()
    messages = [
        Message(step["place"], _SPEAKERS.get(step["name"], step["name"]), step["content"])
        for step in trace.get("dialogue") or steps
        if step["kind"] == "message" and step["content"].strip() and not step["is_error"]
    ]
    if not any(message.speaker == "agent" for message in messages):
        messages.append(Message("question", "person", trace.get("question") or ""))
        messages.append(Message("answer", "agent", trace.get("answer") or ""))
    has_tools = any(step["kind"] in ("call", "result") for step in steps)
    if trace.get("feedback") and not has_tools and "dialogue" not in trace and not _is_judged(trace):
        messages.append(Message(FEEDBACK, "person", trace["feedback"]))
    return messages


def _is_own(trace: Mapping[str, Any], message: Message) -> bool:
    """Whether a message belongs to the trace: the dialogue of a turn also has the messages of earlier turns."""
    steps: Sequence[TraceStep] = trace.get("steps") or ()
    return "dialogue" not in trace or not steps or any(step["place"] == message.place for step in steps)


def _is_judged(trace: Mapping[str, Any]) -> bool:
    """Whether an environment judged the answer, or could not."""
    return bool(trace.get("ground_truth") or trace.get("check")) or "verified" in (trace.get("rest") or {})


def _checked(
    trace: Mapping[str, Any], messages: Sequence[Message], named: NamedJudgement
) -> tuple[int, CheckedJudgement]:
    """Return a judgement with the index of its message, or of the end if there is no such message."""
    place = named.message.strip().strip("[]#").strip() or FEEDBACK
    judgement = CheckedJudgement(
        place, "", named.quote.strip(), named.wrong.strip(), named.right.strip(), withdraws=named.withdraws
    )
    there = [at for at, message in enumerate(messages) if message.place == place]
    if not there:
        return len(messages), replace(judgement, problem="there is no such message")
    at = next((at for at in there if _position(messages[at].text, judgement.quote)), there[0])
    message = messages[at]
    judgement = replace(judgement, speaker=message.speaker, correction=message.text)
    if not _is_own(trace, message):
        return at, replace(judgement, problem="the message belongs to an earlier turn")
    if message.speaker != "person":
        return at, replace(judgement, problem="the message is not by a person")
    positions = _position(message.text, judgement.quote)
    if not positions:
        return at, replace(judgement, problem="the quote is not in the message")
    if all(_is_pasted(message.text, start, end) for start, end in positions):
        return at, replace(judgement, problem="the quote is in pasted text")
    answered = _answer_before(messages, at, judgement.wrong)
    if answered < 0:
        return at, replace(judgement, problem="the wrong answer is in no earlier message of the agent")
    answer = messages[answered]
    asked = _question_before(messages, answered)
    wrong = _verbatim([answer], judgement.wrong)
    said = [later for later in messages[at:] if later.speaker in _SPEAKERS.values()]
    judgement = replace(judgement, wrong=wrong, right=_verbatim(said, judgement.right))
    if judgement.right and _is_same(judgement.right, judgement.wrong):
        return at, replace(judgement, problem="what is said to be right is the wrong answer")
    return at, replace(
        judgement,
        answer=answer.text,
        answer_place=answer.place,
        question=messages[asked].text if asked >= 0 else "",
    )


def _accepted(messages: Sequence[Message], checked: Iterable[CheckedJudgement]) -> list[_Found]:
    found = []
    for judgement in checked:
        if judgement.problem:
            continue
        at = next(
            at
            for at, message in enumerate(messages)
            if message.place == judgement.place and message.text == judgement.correction
        )
        answer = _answer_before(messages, at, judgement.wrong)
        found.append(_Found(at, _question_before(messages, answer), judgement))
    return sorted(found, key=lambda item: item.at)


def _answer_before(messages: Sequence[Message], at: int, wrong: str) -> int:
    """Return the index of the answer with the wrong words before another message; -1 if there is none.

    An agent that insists gives the same answer again: then it is the first of them.
    """
    found = -1
    for index in range(at - 1, -1, -1):
        if messages[index].speaker == "agent":
            if _position(messages[index].text, wrong):
                found = index
            elif found >= 0:
                break
    return found


def _question_before(messages: Sequence[Message], at: int) -> int:
    """Return the index of the last message of a person before another message; -1 if there is none."""
    return next((index for index in range(at - 1, -1, -1) if messages[index].speaker == "person"), -1)


def _last_word(thread: Sequence[_Found], question: str) -> list[TraceCorrection]:
    """Return the corrections of one question: more than one if the last message judges several parts of the answer."""
    first, last = thread[0].judgement, thread[-1].judgement
    together = {found.judgement.wrong: found for found in thread if found.at == thread[-1].at}
    corrections = []
    for found in together.values():
        judgement = found.judgement
        is_alone = len(together) == 1
        if is_alone and found is not thread[0] and judgement.right and _holds(first.wrong, judgement.right):
            continue  # the first answer was right after all
        said = [
            earlier.judgement.correction
            for earlier in thread
            # What was said to be right before holds only as far as the last word repeats it.
            if not (earlier.judgement.right and judgement.right)
            or _holds(judgement.right, earlier.judgement.right)
            or earlier.at == found.at
        ]
        corrections.append(
            TraceCorrection(
                question=question,
                wrong=first.wrong if is_alone else judgement.wrong,
                correction="\n".join(dict.fromkeys(said)),
                right=judgement.right,
                place=last.place,
            )
        )
    return corrections


def _verbatim(messages: Sequence[Message], quote: str) -> str:
    """Return a quote as it is in the first message with it, preferably in the same case; empty if it is in none."""
    spans = (message.text[start:end] for message in messages for start, end in _position(message.text, quote))
    found = list(spans)
    same = (text for text in found if text.split() == quote.split())
    return next(same, found[0] if found else "")


def _position(text: str, quote: str) -> list[tuple[int, int]]:
    """Return where a quote occurs in a text; white space and case are ignored."""
    words = quote.split()
    if not words:
        return []
    return [match.span() for match in re.finditer(r"\s+".join(map(re.escape, words)), text, re.IGNORECASE)]


def _is_pasted(text: str, start: int, end: int) -> bool:
    """Whether a part of a message is marked as a quotation or as code, or is below a turn of another dialogue."""
    line = text.rfind("\n", 0, start) + 1
    if text[line:start].lstrip().startswith(">") or text[start:].startswith(">"):
        return True
    if len(_FENCE.findall(text[:start])) % 2 == 1:
        return True
    if any(turn.start() > 0 and turn.start() <= start for turn in _TURN.finditer(text)):
        return True
    if text[:start].count('"') % 2 == 1 and '"' in text[end:]:
        return True
    return any(
        text.rfind(opening, 0, start) > text.rfind(closing, 0, start) and closing in text[end:]
        for opening, closing in _QUOTATION_MARKS
    )


def _bare(text: str) -> str:
    return " ".join(text.split()).strip(" .!,;:。").casefold()


def _is_same(text: str, other: str) -> bool:
    """Whether two texts are the same answer; its case and the spaces in it may be what is judged."""
    return text.strip(" .!") == other.strip(" .!")


def _holds(text: str, part: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(_bare(part))}(?!\w)", _bare(text)) is not None

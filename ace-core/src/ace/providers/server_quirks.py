"""How model servers differ from the protocol that they speak: one table, `QUIRKS`, decides what is done about it.

A row is data: what the server does, what is changed, and for how many days the change is kept. What a row recognises
is general: a refused parameter is found by its name in the error and in the request, and a context window by its
number. So servers that were not known when the table was written are covered too. The rows are tried in order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = [
    "CONTEXT_WINDOW",
    "QUIRKS",
    "Quirk",
    "Reaction",
    "Refusal",
    "ServerProfile",
    "answer_text",
    "reaction_to",
    "refusal_text",
]

_Messages = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class ServerProfile:
    """What is known about a model on a server, beyond the protocol. Two profiles can be joined with `|`.

    Example:
        >>> known = ServerProfile(omitted=frozenset({"temperature"})) | ServerProfile(max_tokens=512)
        >>> known.adapted({"messages": [], "temperature": 0.0, "max_tokens": 2048})
        {'messages': [], 'max_tokens': 512}
    """

    omitted: frozenset[str] = frozenset()
    """The parameters that are not sent."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The parameters that are sent under another name."""
    max_tokens: int | None = None
    """The maximum length of an answer that the server accepts, in tokens."""
    context_tokens: int | None = None
    """The size of the context window, in tokens."""
    instructions_in_user_message: bool = False
    """Whether the instructions are sent in the user message, and messages of the same role as one."""

    def __or__(self, other: ServerProfile) -> ServerProfile:
        return ServerProfile(
            self.omitted | other.omitted,
            {**self.renamed, **other.renamed},
            _smaller(self.max_tokens, other.max_tokens),
            _smaller(self.context_tokens, other.context_tokens),
            self.instructions_in_user_message or other.instructions_in_user_message,
        )

    @property
    def most_answer_tokens(self) -> int | None:
        """The length of an answer that leaves most of the context window to the prompt; None if neither is known."""
        share = None if self.context_tokens is None else max(1, int(self.context_tokens * _SHARE_OF_ANSWER))
        return _smaller(self.max_tokens, share)

    def adapted(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request as the server accepts it.

        Args:
            request: The arguments of `litellm.completion`.
        """
        sent = {name: value for name, value in request.items() if name not in self.omitted}
        most = self.most_answer_tokens
        if most is not None and isinstance(sent.get("max_tokens"), int):
            sent["max_tokens"] = min(most, sent["max_tokens"])
        for name, other in self.renamed.items():
            if name in sent:
                sent[other] = sent.pop(name)
        if self.instructions_in_user_message:
            sent["messages"] = _without_system_role(request["messages"])
        return sent

    def to_dict(self) -> dict[str, Any]:
        """Return the profile as JSON values, without what is not known."""
        values = {
            "omitted": sorted(self.omitted),
            "renamed": dict(self.renamed),
            "max_tokens": self.max_tokens,
            "context_tokens": self.context_tokens,
            "instructions_in_user_message": self.instructions_in_user_message,
        }
        return {name: value for name, value in values.items() if value}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ServerProfile:
        """Return the profile in JSON values.

        Raises:
            ValueError: They are not those of a profile.

        Example:
            >>> ServerProfile.from_dict({"max_tokens": 512}).to_dict()
            {'max_tokens': 512}
        """
        omitted, renamed = values.get("omitted", []), values.get("renamed", {})
        limits = (values.get("max_tokens"), values.get("context_tokens"))
        if not isinstance(omitted, list) or not isinstance(renamed, dict):
            raise ValueError("a profile needs a list of parameters and a table of other names")
        if not all(isinstance(name, str) for name in [*omitted, *renamed, *renamed.values()]):
            raise ValueError("a profile needs names of parameters")
        if not all(limit is None or (type(limit) is int and limit > 0) for limit in limits):
            raise ValueError("a profile needs limits that are positive numbers")
        return cls(frozenset(omitted), renamed, *limits, values.get("instructions_in_user_message") is True)

    def sentences(self) -> Iterator[str]:
        """Yield what is done for this server, as texts."""
        for name in sorted(self.omitted):
            yield f"{name} is not sent"
        for name, other in sorted(self.renamed.items()):
            if name not in self.omitted:
                yield f"{name} is sent as {other}"
        if self.max_tokens is not None:
            yield f"answers have at most {self.max_tokens} tokens"
        if self.context_tokens is not None:
            yield f"the context window has {self.context_tokens} tokens"
        if self.instructions_in_user_message:
            yield "the instructions are sent in the user message"


_SHARE_OF_ANSWER = 0.25


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((number for number in (one, other) if number is not None), default=None)


def _without_system_role(messages: Sequence[Mapping[str, Any]]) -> _Messages:
    """Return messages that begin with one of the user and in which the roles alternate."""
    found: _Messages = []
    for message in messages:
        role = "user" if message["role"] in _INSTRUCTING_ROLES else message["role"]
        if found and found[-1]["role"] == role and set(message) == {"role", "content"}:
            found[-1]["content"] = _joined(found[-1]["content"], message["content"])
        else:
            found.append({**message, "role": role})
    return found


_INSTRUCTING_ROLES = frozenset({"system", "developer"})


def _joined(one: object, other: object) -> object:
    if isinstance(one, str) and isinstance(other, str):
        return f"{one.rstrip()}\n\n{other}"
    return [*_parts(one), *_parts(other)]


def _parts(content: object) -> list[Any]:
    return list(content) if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that a server did not answer."""

    status: int
    """The HTTP status."""
    text: str
    """The message of the server."""
    request: Mapping[str, Any]
    """The request, before it was adapted to the server."""
    known: ServerProfile = ServerProfile()
    """What was known about the server."""

    @property
    def sent(self) -> Mapping[str, Any]:
        """The request as it was sent."""
        return self.known.adapted(self.request)


Learn = Callable[[Refusal], ServerProfile | None]
"""Returns what an error tells about the server; None if the row does not apply."""


@dataclass(frozen=True, slots=True)
class Quirk:
    """A row of the table."""

    name: str
    """The name of the row."""
    seen: str
    """What the server does."""
    done: str
    """What is done about it."""
    days: int = 0
    """How many days the change is kept for a model on a server; 0 for this request only."""
    learn: Learn | None = None
    """Reads an error. None for rows about answers."""
    text_of: Callable[[Mapping[str, Any]], str] | None = None
    """Returns the text in the message of an answer, or an empty string. None for rows about errors."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """What is done about an error."""

    quirk: Quirk
    """The row that applies."""
    change: ServerProfile
    """What the error tells about the server."""
    is_final: bool
    """Whether asking again does not help, because the same would be sent."""


def reaction_to(refusal: Refusal) -> Reaction | None:
    """Return what is done about an error; None if no row applies.

    Example:
        >>> request = {"model": "m", "messages": [], "temperature": 0.0}
        >>> text = "`temperature` is deprecated for this model."
        >>> reaction_to(Refusal(400, text, request)).change.to_dict()
        {'omitted': ['temperature']}
    """
    for quirk in QUIRKS:
        change = quirk.learn(refusal) if quirk.learn is not None else None
        if change is not None:
            return Reaction(quirk, change, (refusal.known | change).adapted(refusal.request) == refusal.sent)
    return None


_ABOUT_REQUEST = frozenset({400, 404, 406, 413, 415, 422, 500, 501})
"""The statuses of errors about a request. Gateways, and servers that render a template, send 404 or 500 for them."""


# --- An account without money or quota.

_SPENT = re.compile(
    r"insufficient[ _](?:quota|balance|credit|fund)|exceeded your current quota|credit balance|billing|"
    r"(?:requires|add) more credits|out of credits|quota (?:is )?exhausted",
    re.IGNORECASE,
)
_ABOUT_ACCOUNT = frozenset({400, 402, 403, 429})
_PAYMENT_REQUIRED = 402


def _spent(refusal: Refusal) -> ServerProfile | None:
    says_so = refusal.status in _ABOUT_ACCOUNT and _SPENT.search(refusal.text) is not None
    return ServerProfile() if says_so or refusal.status == _PAYMENT_REQUIRED else None


# --- Limits, which are found by their numbers.

_NUMBER = r"[`'\"(\[]*(\d[\d,]{2,}\d|\d{3,})"
_LIMITS = [
    re.compile(pattern + _NUMBER, re.IGNORECASE)
    for pattern in (
        r"n_ctx\W{0,4}",
        r"(?:>|<=?|≤)\s*",
        r"(?:context (?:length|size|window|limit)|n_ctx|(?:model|prompt|sequence) length)\D{0,30}?",
        r"(?:maximum|limit|at most|allowed|less than|up to|equal to)\D{0,60}?",
        r"\[\s*\d+\s*,\s*",  # a range
    )
]
_LIMITS.insert(2, re.compile(_NUMBER + r"(?: tokens)? (?:maximum|or (?:less|fewer))", re.IGNORECASE))


def _limit_in(text: str) -> int | None:
    """Return the number that a text gives as a limit."""
    for pattern in _LIMITS:
        if found := pattern.search(text):
            return int(found[1].replace(",", ""))
    return None


_ANSWER = re.compile(r"max\w*[ _]?(?:completion|new|output)?[ _]?tokens|(?:completion|output) tokens", re.IGNORECASE)
_PROMPT = re.compile(
    r"context (?:length|size|window|limit)|prompt|\binputs?\b|\bmessages?\b|too long|too many tokens", re.IGNORECASE
)


def _answer_limit(refusal: Refusal) -> ServerProfile | None:
    sent = next((value for name, value in refusal.sent.items() if name in _names_of("max_tokens")), None)
    if not isinstance(sent, int) or not _ANSWER.search(refusal.text) or _PROMPT.search(refusal.text):
        return None
    limit = _limit_in(refusal.text)
    return ServerProfile(max_tokens=limit) if limit is not None and limit < sent else None


_ABOUT_LENGTH = re.compile(
    r"context|prompt|\binputs?\b|too (?:long|large|many)|request (?:entity|body)|token (?:count|limit)|"
    r"(?:exceed|reduce|longer)\D{0,40}(?:length|tokens)",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"too (?:long|large|many tokens)|context\W.{0,40}(?:exceed|overflow)|(?:exceed|longer)\w*.{0,40}"
    r"(?:context|length|window|tokens)|reduce the length",
    re.IGNORECASE | re.DOTALL,
)
_SMALLEST_WINDOW = 256
_PAYLOAD_TOO_LARGE = 413


def _context_limit(refusal: Refusal) -> ServerProfile | None:
    is_large = refusal.status == _PAYLOAD_TOO_LARGE
    if not is_large and not (refusal.status in _ABOUT_REQUEST and _ABOUT_LENGTH.search(refusal.text)):
        return None
    limit = _limit_in(refusal.text)
    if limit is not None and limit >= _SMALLEST_WINDOW:
        return ServerProfile(context_tokens=limit)
    return ServerProfile() if is_large or _TOO_LONG.search(refusal.text) else None


# --- Roles.

_ABOUT_ROLES = re.compile(
    r"\broles?\b|\b(?:system|developer)[ _-](?:messages?|prompts?|instructions?)|"
    r"[`'\"](?:system|developer)[`'\"]",
    re.IGNORECASE,
)


def _refused_role(refusal: Refusal) -> ServerProfile | None:
    messages = refusal.sent["messages"]
    if refusal.status not in _ABOUT_REQUEST or not _ABOUT_ROLES.search(refusal.text):
        return None
    return None if messages == _without_system_role(messages) else ServerProfile(instructions_in_user_message=True)


# --- Parameters.

_ESSENTIAL = frozenset(
    {
        "api_base",
        "api_key",
        "drop_params",
        "extra_headers",
        "function_call",
        "functions",
        "messages",
        "model",
        "stream",
        "timeout",
        "tool_choice",
        "tools",
    }
)
"""Arguments that are not sent, and parameters without which the answer would mean something else."""
_OTHER_NAMES: Mapping[str, Sequence[str]] = {
    "max_tokens": ("max_completion_tokens", "max_new_tokens", "max_output_tokens"),
    "stop": ("stop_sequences",),
}
_OTHER_WORDS: Mapping[str, str] = {"response_format": r"response.?format|schema|grammar|structured"}
_REFUSES = re.compile(
    r"support|deprecat|allow|permit|accept|unknown|recogni|expected|invalid|not valid|extra|forbid|must|cannot|"
    r"can't|only|unavailable|available|reject|should",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s|\n")


def _names_of(parameter: str) -> tuple[str, ...]:
    """Return the names by which servers call a parameter."""
    names = (parameter, *_OTHER_NAMES.get(parameter, ()))
    return (*names, *(_in_camel_case(name) for name in names if "_" in name))


def _in_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def _place_in(text: str, parameter: str) -> tuple[int, int] | None:
    """Return how clearly a text names a parameter, and where; None if it does not. Smaller is clearer.

    A name such as `stop` is an English word too: it only counts in quotes, or in a sentence that refuses something.
    """
    names = "|".join(map(re.escape, _names_of(parameter)))
    for found in re.finditer(rf"(?<!\w)(?:{names})(?!\w)", text):
        around = text[max(0, found.start() - 1) : found.end() + 1]
        if not found[0].islower() or "_" in found[0] or re.match(r"[`'\"\[/.<]", around):
            return 0, found.start()
    for found in re.finditer(_OTHER_WORDS.get(parameter, rf"\b(?:{names})\b"), text, re.IGNORECASE):
        if _REFUSES.search(_sentence_at(text, found.start())):
            return 1, found.start()
    return None


def _sentence_at(text: str, place: int) -> str:
    start = max((end.end() for end in _SENTENCE_END.finditer(text, 0, place)), default=0)
    end = _SENTENCE_END.search(text, place)
    return text[start : end.start() if end else len(text)]


def _refused_parameter(refusal: Refusal) -> ServerProfile | None:
    if refusal.status not in _ABOUT_REQUEST:
        return None
    candidates = refusal.request.keys() - refusal.known.omitted - _ESSENTIAL
    places = {name: place for name in candidates if (place := _place_in(refusal.text, name)) is not None}
    if not places:
        return None
    # One at a time: "temperature and top_p cannot both be specified".
    name = min(places, key=lambda found: places[found])
    other = next((other for other in _OTHER_NAMES.get(name, ()) if _advises(refusal.text, other)), None)
    if other is not None and name not in refusal.known.renamed and other not in refusal.sent:
        return ServerProfile(renamed={name: other})
    return ServerProfile(omitted=frozenset({name}))


def _advises(text: str, name: str) -> bool:
    """Return whether a text tells to use a parameter, rather than refuses it."""
    advice = rf"(?:use|instead|did you mean|rename)\W.{{0,60}}{name}|{name}\W{{1,3}}instead"
    return re.search(advice, text, re.IGNORECASE) is not None


_BROKEN_CONSTRAINT = 500
"""The status with which llama.cpp fails to parse an answer that it constrained itself; the next one may be fine."""


def _schema_not_kept(refusal: Refusal) -> ServerProfile | None:
    is_it = refusal.status == _BROKEN_CONSTRAINT and "response_format" in refusal.sent
    return ServerProfile(omitted=frozenset({"response_format"})) if is_it else None


# --- Answers.


def _text_of_content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""


def _text_of_parts(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    texts = [part if isinstance(part, str) else _text_of_part(part) for part in parts]
    return "".join(texts)


def _text_of_part(part: object) -> str:
    if not isinstance(part, Mapping) or part.get("type", "text") not in ("text", "output_text"):
        return ""  # thoughts, images
    return str(part.get("text") or "")


def _text_of_calls(message: Mapping[str, Any]) -> str:
    return "\n".join(str(call["function"]["arguments"]) for call in message.get("tool_calls") or ())


def _text_of_reasoning(message: Mapping[str, Any]) -> str:
    return next((text for name in _THOUGHTS if isinstance(text := message.get(name), str) and text), "")


_THOUGHTS = ("reasoning_content", "reasoning", "thinking")


def answer_text(message: Mapping[str, Any], *, is_cut: bool = False) -> str:
    """Return the text of an answer, which servers put into different fields.

    Args:
        message: The message in a chat completion.
        is_cut: Whether the answer was cut off, so that reasoning without an answer is not one.

    Example:
        >>> answer_text({"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "Paris"}]})
        'Paris'
    """
    rows = [quirk.text_of for quirk in QUIRKS if quirk.text_of is not None]
    if is_cut or refusal_text(message):
        rows.remove(_text_of_reasoning)
    return next((text for row in rows if (text := row(message))), "")


def refusal_text(message: Mapping[str, Any]) -> str:
    """Return the sentence with which a model refuses to answer; empty if it does not."""
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


_MONTH = 30
_WEEK = 7

CONTEXT_WINDOW: Final = Quirk(
    "context window",
    "An error says that the request is too long: `This model's maximum context length is 4096 tokens`, `prompt is too "
    "long: 208310 tokens > 200000 maximum`, `the request exceeds the available context size`, or status 413.",
    "The number in the error is the context window. An answer may take a quarter of it, and the trace is shortened "
    "and asked about again. The report says by how much. Without a number, the trace is halved.",
    _WEEK,
    _context_limit,
)

QUIRKS: Final[Sequence[Quirk]] = (
    Quirk(
        "spent quota",
        "Status 402, or 400, 403 or 429 with a sentence about a quota, credits or billing.",
        "The run stops with the sentence of the server. It is not asked again.",
        0,
        _spent,
    ),
    Quirk(
        "answer limit",
        "An error gives a limit for `max_tokens` that is lower than what was sent, such as `max_tokens is too large: "
        "6000. This model supports at most 4096 completion tokens`.",
        "The limit in the error is used.",
        _MONTH,
        _answer_limit,
    ),
    CONTEXT_WINDOW,
    Quirk(
        "roles",
        "An error is about roles or the system message: `System role not supported`, `Conversation roles must "
        "alternate user/assistant/...`, `Developer instruction is not enabled`.",
        "The instructions are sent at the beginning of the user message, and messages of the same role as one.",
        _MONTH,
        _refused_role,
    ),
    Quirk(
        "parameter",
        "An error names a parameter that was sent, such as `temperature`, `max_tokens`, `seed` or `response_format`.",
        "The parameter is sent under the name that the error advises, such as `max_completion_tokens`, or else not "
        "sent. The fields of the answer are described in the prompt anyway.",
        _MONTH,
        _refused_parameter,
    ),
    Quirk(
        "broken constraint",
        "Status 500 for a request with a schema: llama.cpp cannot parse an answer that it constrained itself.",
        "The request is sent without the schema.",
        0,
        _schema_not_kept,
    ),
    Quirk("text", "The text of the answer is in `content`.", "It is read.", text_of=_text_of_content),
    Quirk(
        "parts",
        "`content` is a list of parts, some of which are thoughts.",
        "The texts are read, without the thoughts.",
        text_of=_text_of_parts,
    ),
    Quirk("tool call", "The model calls a tool instead.", "The arguments are read.", text_of=_text_of_calls),
    Quirk(
        "reasoning",
        "`content` is empty, and the answer is in `reasoning_content` or `reasoning`.",
        "It is read, unless the answer was cut off.",
        text_of=_text_of_reasoning,
    ),
    Quirk(
        "refusal",
        "The answer has a `refusal`, or the finish reason `content_filter`.",
        "The report has the sentence of the model. It is not asked again.",
    ),
    Quirk(
        "cut off",
        "The finish reason is `length`, and the answer is not complete.",
        "The request is sent once more with twice the `max_tokens`, if the model allows that. Otherwise the error says "
        "that the answer was cut off.",
    ),
    Quirk(
        "other JSON",
        "The JSON object is inside another one that has the name of the answer, in `properties` of its schema, in "
        "single quotes, or has text around it.",
        "It is read where only one reading is possible.",
    ),
)
"""The table. Errors are matched from the top, answers too."""

"""Checks the arguments of public functions; the errors name the invalid one."""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final, TypeVar, cast

__all__ = [
    "check_keywords",
    "check_sample",
    "checked_arguments",
    "checked_class",
    "closest_name",
    "file_path",
    "http_address",
    "instance_of",
    "is_http_address",
    "one_of",
    "real_number",
    "sequence_of_steps",
    "shown",
    "whole_number",
    "with_method",
]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_OTHER_WORDS: Final = {
    "base_url": "api_base",
    "api_url": "api_base",
    "playbook": "skillbook",
    "playbook_path": "skillbook_path",
    "generator": "agent",
    "curator": "skill_manager",
    "max_workers": "workers",
    "num_workers": "workers",
    "concurrency": "workers",
    "num_epochs": "epochs",
    "callback": "on_sample_done",
    "on_sample_finished": "on_sample_end",
    "state_folder": "state_dir",
}
"""Other words for arguments, such as those of other libraries."""
_LETTERS_PER_MISTAKE: Final = 3
"""Of how many letters one may be wrong. A more tolerant rule takes `opik` for `api_key` and `out` for `timeout`."""
_LEAST_LETTERS: Final = 3
"""The letters of a name that can be recognised by its beginning, or as a word of a longer one."""


def checked_arguments(
    *options: type, advice: str = "", further: Callable[[str, Collection[str]], Collection[str]] | None = None
) -> Callable[[F], F]:
    """Decorate a public function so that the error for an invalid call is helpful.

    A misspelt keyword gets a suggestion. The error names the class on which the caller called a method, not the one
    that defines it. The arguments are looked at only when a call has failed; where `options` names what the `**`
    parameter takes, before the call.

    Args:
        *options: The `TypedDict` classes whose keys the `**` parameter of the function takes. If there are none, and
            the function has such a parameter, any keyword is accepted.
        advice: What to do about a missing argument, or one too many.
        further: Returns what else the `**` parameter takes, for the name of the function and the keywords that are not
            in `options`.

    Example:
        >>> class Greeter:
        ...     @checked_arguments()
        ...     def greet(self, name: str = "Ann") -> str:
        ...         return f"Hello {name}"
        >>> Greeter().greet(nam="Bob")
        Traceback (most recent call last):
        ...
        TypeError: Greeter.greet() got an unexpected keyword argument 'nam'; did you mean 'name'?
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        parameters = signature.parameters.values()
        known = {
            parameter.name
            for parameter in parameters
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        }
        known -= {"self", "cls"}
        for option in options:
            known |= option.__annotations__.keys()
        collects = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)

        def explained(error: TypeError, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError:
            called = _called(function, args)
            if not collects:
                _check_call(function, args, kwargs, known)
            text = str(error).replace(f"{function.__qualname__}()", f"{called}()")
            return TypeError(f"{text}; {advice}" if advice else text)

        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                # Without a frame below this one, the call itself failed: an argument is missing, or one too many.
                traceback = error.__traceback__
                if traceback is None or traceback.tb_next is not None:
                    raise
                raise explained(error, args, kwargs) from None

        if not (collects and options):
            return cast(F, checked)

        @functools.wraps(function)
        def checked_before(*args: Any, **kwargs: Any) -> Any:
            unknown = kwargs.keys() - known
            if unknown:
                of_plugins = frozenset() if further is None else further(_called(function, args), unknown)
                _check_call(function, args, kwargs, known.union(of_plugins))
            return checked(*args, **kwargs)

        return cast(F, checked_before)

    return decorate


def checked_class(decorated: type[T]) -> type[T]:
    """Decorate a class, such as a dataclass, so that the error for an invalid call is helpful; see `checked_arguments`.

    Args:
        decorated: The class.

    Example:
        >>> from ace.environments import Sample
        >>> Sample("1 + 1?", groundtruth="2")
        Traceback (most recent call last):
        ...
        TypeError: Sample() got an unexpected keyword argument 'groundtruth'; did you mean 'ground_truth'?
    """
    initialise: Any = decorated.__init__
    setattr(decorated, "__init__", checked_arguments()(initialise))  # noqa: B010  # mypy refuses the assignment
    return decorated


def _check_call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Iterable[str], known: set[str]) -> None:
    """Check the keyword arguments of a call. The error names another constructor of the class that takes one of them.

    Raises:
        TypeError: One is unknown.
    """
    called = _called(function, args)
    if function.__name__ == "__init__" and args:
        kind = type(args[0])
        for name in kwargs:
            constructor = None if name in known else _constructor_taking(name, kind)
            if constructor is not None:
                raise TypeError(
                    f"{called}() got an unexpected keyword argument {name!r}; {kind.__name__}.{constructor}() takes it"
                )
    check_keywords(called, kwargs, known)


def _constructor_taking(name: str, kind: type) -> str | None:
    for constructor in sorted(dir(kind)):
        if constructor.startswith("from_") and name in inspect.signature(getattr(kind, constructor)).parameters:
            return constructor
    return None


def check_keywords(called: str, passed: Iterable[str], known: Collection[str]) -> None:
    """Check that a function accepts the keyword arguments of a call.

    Args:
        called: The name of the function as in the call, without parentheses.
        passed: The keywords of the call.
        known: The keywords that the function accepts.

    Raises:
        TypeError: One is unknown. The text suggests a similar one.

    Example:
        >>> check_keywords("ACE.from_model", ["base_url"], ["api_base", "skillbook"])
        Traceback (most recent call last):
        ...
        TypeError: ACE.from_model() got an unexpected keyword argument 'base_url'; did you mean 'api_base'?
    """
    for name in passed:
        if name not in known:
            raise TypeError(f"{called}() got an unexpected keyword argument {name!r}{_suggestion(name, known)}")


def closest_name(name: str, known: Collection[str]) -> str | None:
    """Return the known name that a misspelt one probably means, or None if none is similar enough.

    At most one letter in three may be missing, superfluous, wrong or swapped with its neighbour. Otherwise a known name
    is returned if it is the only one that begins with the given name or shares all words of the shorter name, or the
    other way round. Case, hyphens and underscores do not matter.

    Args:
        name: The misspelt name.
        known: The known names.

    Example:
        >>> closest_name("skill_book", ["skillbook", "skill_manager"])
        'skillbook'
        >>> closest_name("threshold", ["similarity_threshold", "embedding_model"])
        'similarity_threshold'
        >>> closest_name("--out", ["--timeout", "--json"]) is None
        True
    """
    meant = _OTHER_WORDS.get(name)
    if meant in known:
        return meant
    typed = _letters(name)
    if not typed:
        return None
    letters = {option: _letters(option) for option in known}
    mistakes = {option: _mistakes(typed, of) for option, of in letters.items()}
    allowed = {option: max(len(typed), len(of)) // _LETTERS_PER_MISTAKE for option, of in letters.items()}
    near = [option for option, count in mistakes.items() if count <= allowed[option]]
    if near:
        return min(near, key=lambda option: (mistakes[option], abs(len(letters[option]) - len(typed)), option))
    if len(typed) < _LEAST_LETTERS:
        return None
    beginning = [
        option
        for option, of in letters.items()
        if of.startswith(typed) or (len(of) > _LEAST_LETTERS and typed.startswith(of))
    ]
    if beginning:
        return beginning[0] if len(beginning) == 1 else None
    words = _words(name)
    sharing = [option for option in known if words <= _words(option) or _words(option) <= words]
    return sharing[0] if len(sharing) == 1 else None


def _letters(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).lower()


def _words(name: str) -> frozenset[str]:
    """Return the words of a name, without those of a letter or two, such as the `a` of `a-1`."""
    found = re.split(r"[-_\s]+", name.lower())
    return frozenset(word for word in found if len(word) >= _LEAST_LETTERS) or frozenset({name})


def _mistakes(typed: str, meant: str) -> int:
    """Return how many letters must be inserted, removed, replaced or swapped with a neighbour to correct a name."""
    before: list[int] = []
    row = list(range(len(meant) + 1))
    for place, letter in enumerate(typed, 1):
        earlier, before, row = before, row, [place]
        for column, wanted in enumerate(meant, 1):
            count = min(before[column] + 1, row[-1] + 1, before[column - 1] + (letter != wanted))
            is_swapped = place > 1 and column > 1 and letter == meant[column - 2] and typed[place - 2] == wanted
            row.append(min(count, earlier[column - 2] + 1) if is_swapped else count)
    return row[-1]


def _suggestion(name: str, known: Collection[str]) -> str:
    meant = closest_name(name, known)
    if meant is not None:
        return f"; did you mean {meant!r}?"
    return f"; it takes {', '.join(sorted(known))}" if known else "; it takes none"


def _called(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """Return the name of a method with the class of the object, not with the one that defines it."""
    owner, dot, name = function.__qualname__.rpartition(".")
    if not dot or not args or owner.endswith("<locals>"):
        return function.__qualname__
    kind = args[0] if isinstance(args[0], type) else type(args[0])
    return kind.__name__ if name == "__init__" else f"{kind.__name__}.{name}"


def sequence_of_steps(name: str, value: object) -> None:
    """Check that a value is an iterable of steps.

    Args:
        name: The name of the argument.

    Raises:
        TypeError: It is one step, a text, or not iterable.

    Example:
        >>> sequence_of_steps("extra_steps", len)
        Traceback (most recent call last):
        ...
        TypeError: extra_steps must be a list of steps, got <built-in function len>; put it into a list: [step]
    """
    if isinstance(value, str | bytes) or callable(value) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list of steps, got {shown(value)}; put it into a list: [step]")


def one_of(name: str, value: str, allowed: Collection[str]) -> None:
    """Check that a value is one of the allowed ones.

    Args:
        name: The name of the argument.
        allowed: The allowed values.

    Raises:
        ValueError: It is not.

    Example:
        >>> one_of("provenance", "none", ["full", "ids"])
        Traceback (most recent call last):
        ...
        ValueError: provenance must be one of full, ids, got 'none'
    """
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {shown(value)}")


def whole_number(name: str, value: object, *, least: int = 1, of: str = "") -> int:
    """Check that a value is a whole number, and return it.

    Args:
        name: The name of the argument.
        least: The minimum.
        of: What is counted.

    Raises:
        ValueError: It is not, or it is below the minimum.

    Example:
        >>> whole_number("max_adds", -1, least=0, of="operations")
        Traceback (most recent call last):
        ...
        ValueError: max_adds must be at least 0 operations, got -1
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number{f' of {of}' if of else ''}, got {shown(value)}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}{f' {of}' if of else ''}, got {shown(value)}")
    return value


def real_number(
    name: str, value: object, *, least: float | None = None, above: float | None = None, of: str = ""
) -> None:
    """Check that a value is a number, but not NaN.

    Args:
        name: The name of the argument.
        least: The minimum.
        above: What the value must be greater than.
        of: The unit.

    Raises:
        ValueError: It is not, or it is too small.

    Example:
        >>> real_number("temperature", "hot", least=0)
        Traceback (most recent call last):
        ...
        ValueError: temperature must be a number, got 'hot'
        >>> real_number("timeout", 0, above=0, of="seconds")
        Traceback (most recent call last):
        ...
        ValueError: timeout must be more than 0 seconds, got 0
    """
    of = f" {of}" if of else ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number{f' of{of}' if of else ''}, got {shown(value)}")
    if least is not None and not value >= least:
        raise ValueError(f"{name} must be at least {least:g}{of}, got {shown(value)}")
    if math.isnan(value) or (above is not None and not value > above):
        raise ValueError(f"{name} must be more than {above:g}{of}, got {shown(value)}")


def is_http_address(value: object) -> bool:
    """Return whether a value is an address of a web server.

    Example:
        >>> is_http_address("http://localhost:11434/v1"), is_http_address("localhost:11434/v1")
        (True, False)
    """
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(value if isinstance(value, str) else "")
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an IPv6 address without its bracket, or a port that is not one
        return False


def http_address(name: str, value: object) -> None:
    """Check that a value is an address of a web server.

    Args:
        name: The name of the argument.

    Raises:
        ValueError: It is not. The text does not contain the user and the password.

    Example:
        >>> http_address("api_base", "ann:secret@localhost:11434/v1")
        Traceback (most recent call last):
        ...
        ValueError: api_base must be an address such as http://localhost:11434/v1, got 'localhost:11434/v1'
    """
    if not is_http_address(value):
        if isinstance(value, str):
            value = value.rpartition("@")[2]
        raise ValueError(f"{name} must be an address such as http://localhost:11434/v1, got {shown(value)}")


def instance_of(name: str, value: object, kind: type, *, advice: str = "") -> None:
    """Check the class of a value.

    Args:
        name: The name of the argument.
        kind: The class that it must have.
        advice: What to do instead.

    Raises:
        TypeError: It has another class.
    """
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOUaeiou" else "a"
        raise TypeError(
            f"{name} must be {article} {kind.__name__}, got {shown(value)}{f'; {advice}' if advice else ''}"
        )


def file_path(name: str, value: object, *, advice: str = "") -> None:
    """Check that a value is a path.

    Args:
        name: The name of the argument.
        advice: What to do instead.

    Raises:
        TypeError: It is neither a string nor a path.

    Example:
        >>> file_path("checkpoint_dir", 5)
        Traceback (most recent call last):
        ...
        TypeError: checkpoint_dir must be a path, got 5
    """
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be a path, got {shown(value)}{f'; {advice}' if advice else ''}")


def with_method(name: str, value: object, method: str, *, advice: str = "") -> None:
    """Check that a value has a method.

    Args:
        name: The name of the argument.
        method: The name of the method.
        advice: What to do instead.

    Raises:
        TypeError: It has no such method, or is a class.

    Example:
        >>> with_method("reflector", None, "reflect")
        Traceback (most recent call last):
        ...
        TypeError: reflector must be an object with a method reflect(), got None
    """
    if isinstance(value, type) or not callable(getattr(value, method, None)):
        if isinstance(value, type) and hasattr(value, method):
            advice = f"create an instance: {value.__name__}(...)"
        raise TypeError(
            f"{name} must be an object with a method {method}(), got {shown(value)}{f'; {advice}' if advice else ''}"
        )


def check_sample(name: str, value: object) -> None:
    """Check that a value is a sample.

    Args:
        name: What to call it.

    Raises:
        TypeError: It lacks an attribute of a sample.

    Example:
        >>> check_sample("input 1", "What is 2 + 2?")
        Traceback (most recent call last):
        ...
        TypeError: input 1 is a str without question, ...
    """
    missing = [attribute for attribute in ("question", "context", "ground_truth") if not hasattr(value, attribute)]
    if missing:
        raise TypeError(
            f"{name} is a {type(value).__name__} without {', '.join(missing)}; "
            "give samples: ace.Sample(question, ground_truth=...)"
        )


def shown(value: object) -> str:
    """Return the representation of a value for an error, shortened if necessary.

    Example:
        >>> shown("x" * 100)[-10:]
        'xxxxxxx...'
    """
    try:
        text = repr(value)
    except Exception as error:  # a number of thousands of digits, or whatever a caller's object raises
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= 60 else f"{text[:57]}..."

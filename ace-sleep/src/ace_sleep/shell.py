"""Reads command lines of a shell: what they run, what it is for, and whether running it again could do harm."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

__all__ = ["doing", "harm_of", "is_allow_listed", "is_looking", "programs", "purposes", "shown_command"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_OPERATORS: Final = frozenset({"&&", "||", ";", "|", "&", "|&", "(", ")", ";;", "{", "}", "!"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_REDIRECTION: Final = re.compile(r"\d*(?:>>?|<)&?\d*|&>>?")
_SUBSTITUTION: Final = re.compile(r"\$\(|`|<\(")
_KEYWORDS: Final = frozenset({"if", "then", "else", "elif", "fi", "for", "do", "done", "while", "until", "in", "case"})
_WRAPPERS: Final = {
    "env": 0,
    "time": 0,
    "nice": 0,
    "nohup": 0,
    "stdbuf": 0,
    "exec": 0,
    "command": 0,
    "xvfb-run": 0,
    "timeout": 1,
    "npx": 0,
    "bunx": 0,
    "xargs": 0,
}
"""Programs that run the command that follows them, after so many arguments that are not options."""
_RUNNERS: Final = frozenset({"uv", "poetry", "pdm", "hatch", "pipenv", "rye", "bundle", "mise", "conda"})
"""Programs that run the command that follows the word `run` or `exec`."""
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh"})

_LOOKING: Final = _words(
    """
    ls cat head tail less more grep egrep fgrep rg ag find fd tree pwd cd echo printf wc which type whereis file
    stat du df env printenv date whoami uname id ps sleep true false test [ sort uniq cut jq diff cmp awk column nl
    export set source . alias history man read basename dirname realpath readlink
    """
)
_LOOKING_GIT: Final = _words(
    """
    status log diff show branch blame ls-files rev-parse grep remote describe
    """
)

_PURPOSES: Final = {
    "test": """
        test tests check checks verify spec specs pytest unittest tox nox jest vitest mocha ava ctest rspec phpunit
        doctest behave karma minitest gotestsum nextest
    """,
    "lint": "lint linter ruff flake8 pylint eslint stylelint clippy shellcheck rubocop golangci biome vet",
    "types": "mypy pyright tsc typecheck types pytype",
    "format": "format fmt black prettier gofmt rustfmt isort yapf",
    "build": """
        build compile make cmake ninja gcc g++ clang javac rustc bundle dist webpack rollup vite esbuild package
    """,
    "generate": "generate gen codegen protoc regenerate generated",
    "run": "run start serve server dev",
    "docs": "docs doc sphinx mkdocs",
}
_PURPOSE_OF: Final = {word: purpose for purpose, words in _PURPOSES.items() for word in words.split()}
_WORD: Final = re.compile(r"[a-z0-9+]+")

_HARMFUL_WORDS: Final = _words(
    """
    deploy deploys deployment publish release upload migrate migration migrations push rollout provision login
    logout install uninstall upgrade download fetch pull clone
    """
)
_HARMFUL_PROGRAMS: Final = _words(
    """
    curl wget ssh scp sftp rsync ftp nc ncat telnet sudo su doas kubectl helm terraform tofu ansible
    ansible-playbook pulumi docker podman docker-compose aws gcloud az gh glab heroku vercel netlify flyctl fly
    wrangler twine psql mysql mongosh mongo redis-cli alembic flyway liquibase pip pip3 pipx apt apt-get yum dnf
    brew snap pacman apk dd mkfs mount umount shutdown reboot halt systemctl service launchctl crontab kill pkill
    killall chown mail sendmail git-lfs scutil defaults osascript open xdg-open claude codex gemini opencode ace
    """
)
_REMOVING: Final = _words(
    """
    rm rmdir mv shred truncate unlink chmod ln cp install tee
    """
)
_HARMLESS_GIT: Final = _LOOKING_GIT | {"add", "commit", "stash", "checkout", "switch", "restore", "apply", "init"}
_ALLOW_LISTED: Final = _words(
    """
    pytest py.test ruff flake8 pylint mypy pyright black isort eslint prettier tsc jest vitest mocha ctest gcc g++
    clang clang++ javac rustc gofmt rustfmt shellcheck rspec phpunit
    """
)
_ALLOW_LISTED_MODULES: Final = _words(
    """
    pytest unittest ruff flake8 pylint mypy black isort compileall doctest
    """
)
_ALLOW_LISTED_SUBCOMMANDS: Final = {
    "cargo": frozenset({"test", "check", "clippy", "build", "fmt"}),
    "go": frozenset({"test", "vet", "build"}),
    "node": frozenset({"--test", "--check"}),
}


def programs(command: str) -> list[list[str]]:
    """Return the simple commands of a line with their arguments, without settings, redirections and wrappers.

    Args:
        command: What a shell was asked to run.

    Raises:
        ValueError: The quotes do not match.

    Example:
        >>> programs("cd shop && SRC=1 timeout 60 uv run pytest -q tests 2>&1 | tail -3")
        [['cd', 'shop'], ['pytest', '-q', 'tests'], ['tail', '-3']]
    """
    return [words for words in map(_unwrapped, _simple_commands(command)) if words]


def _simple_commands(command: str) -> Iterator[list[str]]:
    for line in command.replace("\\\n", " ").split("\n"):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.commenters = "#"
        words: list[str] = []
        for word in lexer:
            if word in _OPERATORS or word in _KEYWORDS:
                yield words
                words = []
            else:
                words.append(word)
        yield words


def _unwrapped(words: list[str]) -> list[str]:
    """Return a simple command without what is before the program that does the work."""
    words = _without_redirections(words)
    while words:
        name = os.path.basename(words[0])
        if _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif name in _WRAPPERS:
            words = _after_options(words[1:], _WRAPPERS[name])
        elif name in _RUNNERS and len(words) > 2 and words[1] in ("run", "exec"):
            words = _after_options(words[2:], 0)
        elif re.fullmatch(r"python[\d.]*", name) and words[1:2] == ["-m"] and len(words) > 2:
            words = words[2:]
        else:
            return [name, *words[1:]]
    return []


def _without_redirections(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word and _REDIRECTION.fullmatch(word):
            skip = not word[-1].isdigit()
            if kept and kept[-1].isdigit():
                kept.pop()  # the number of the stream, as in `2>&1`
        else:
            kept.append(word)
    return kept


def _after_options(words: Sequence[str], arguments: int) -> list[str]:
    left = list(words)
    while left and left[0].startswith("-"):
        left.pop(0)
    return left[arguments:]


def is_looking(command: str) -> bool:
    """Return whether a command only looks at something, so that it repairs nothing.

    Args:
        command: What a shell was asked to run.

    Example:
        >>> is_looking("cd shop && ls | head -3"), is_looking("cd shop && make check")
        (True, False)
    """
    try:
        found = programs(command)
    except ValueError:
        return True
    return all(_looks(words) for words in found)


def _looks(words: Sequence[str]) -> bool:
    name = words[0]
    if name == "git":
        return next((word for word in words[1:] if not word.startswith("-")), "") in _LOOKING_GIT
    if name == "sed":
        return "-i" not in words
    return name in _LOOKING or words[1:] in (["--version"], ["--help"], ["-h"])


def purposes(command: str) -> frozenset[str]:
    """Return what a command is for, by the names of its programs, sub-commands and files.

    Args:
        command: What a shell was asked to run.

    Example:
        >>> sorted(purposes("make check")), sorted(purposes("pytest -q tests"))
        (['build', 'test'], ['test'])
    """
    words = [word for part in doing(command) for word in part if not word.startswith("-")]
    return frozenset(_PURPOSE_OF[part] for word in words for part in _WORD.findall(word.lower()) if part in _PURPOSE_OF)


def doing(command: str) -> list[list[str]]:
    """Return the simple commands of a line that do more than look at something; none if its quotes do not match.

    Args:
        command: What a shell was asked to run.

    Example:
        >>> doing("cd shop && SRC=1 pytest -q | tail -3")
        [['pytest', '-q']]
    """
    try:
        return [words for words in programs(command) if not _looks(words)]
    except ValueError:
        return []


def harm_of(command: str, root: str) -> str:
    """Return why a command is never run again; empty if it may be.

    Args:
        command: What a shell was asked to run.
        root: The folder of the repository. A command may change files below it.

    Example:
        >>> harm_of("git push origin main", "/home/dev/shop")
        'git push'
        >>> harm_of("rm -rf ../other", "/home/dev/shop"), harm_of("make check", "/home/dev/shop")
        ('rm outside the repository', '')
    """
    try:
        found = programs(command)
    except ValueError:
        return "its quotes do not match"
    if _SUBSTITUTION.search(command) and any(word in _HARMFUL_PROGRAMS for word in re.findall(r"[\w-]+", command)):
        return "it runs a program inside a substitution"
    reasons = [_harm(words, root) for words in found]
    redirected = [word for word in _redirected_to(command) if _is_outside(word, root)]
    return next(filter(None, reasons), "it writes outside the repository" if redirected else "")


def _harm(words: Sequence[str], root: str) -> str:
    name = words[0]
    if name in _SHELLS and "-c" in "".join(words[1:2]) and len(words) > 2:
        return harm_of(words[2], root)
    if name == "eval":
        return harm_of(" ".join(words[1:]), root)
    if name == "git":
        action = next((word for word in words[1:] if not word.startswith("-")), "")
        return "" if action in _HARMLESS_GIT else f"git {action}".strip()
    if name in _HARMFUL_PROGRAMS:
        return name
    if name in _REMOVING and any(_is_outside(word, root) for word in words[1:] if not word.startswith("-")):
        return f"{name} outside the repository"
    # The names of tests may be those of harmful actions; a test runner does nothing else with them.
    named = words[:1] if is_allow_listed(name) or name in _ALLOW_LISTED_SUBCOMMANDS else words
    parts = (part for word in named if not word.startswith("-") for part in _WORD.findall(word.lower()))
    harmful = next((part for part in parts if part in _HARMFUL_WORDS), "")
    return f"{name} {harmful}" if harmful else ""


def _redirected_to(command: str) -> list[str]:
    return [found for found in re.findall(r"(?<![<>&])&?>{1,2}\s*([^\s&|;<>]+)", command) if found != "/dev/null"]


def _is_outside(word: str, root: str) -> bool:
    if word.startswith(("~", "$")):
        return True
    path = os.path.normpath(os.path.join(root, word))
    return path == root or not path.startswith(root.rstrip("/") + "/")


def is_allow_listed(command: str) -> bool:
    """Return whether a command is one test runner, linter or compiler, which may be run without a sandbox.

    Args:
        command: What a shell was asked to run.

    Example:
        >>> is_allow_listed("python -m pytest -q"), is_allow_listed("make check"), is_allow_listed("pytest; rm a")
        (True, False, False)
    """
    if _SUBSTITUTION.search(command) or "\n" in command:
        return False
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        if any(word and set(word) <= set("();<>|&") for word in lexer):
            return False
        found = programs(command)
    except ValueError:
        return False
    if len(found) != 1:
        return False
    name, *arguments = found[0]
    if name in _ALLOW_LISTED or name in _ALLOW_LISTED_MODULES:
        return True
    return bool(arguments) and arguments[0] in _ALLOW_LISTED_SUBCOMMANDS.get(name, ())


_ENTERING: Final = re.compile(r"^\s*cd\s+(?P<folder>\"[^\"]+\"|'[^']+'|[^\s;&|]+)\s*(?:&&|;)\s*")
_TRAILING: Final = re.compile(r"\s*(?:2>&1)?\s*(?:\|\s*(?:head|tail)(?:\s+-n?\s*\d+|\s+-\d+)?)?\s*$")


def shown_command(command: str, root: str) -> str:
    """Return a command as a lesson shows it: without entering the repository, and without cutting the output.

    Args:
        command: What a shell was asked to run.
        root: The folder of the repository.

    Example:
        >>> shown_command("cd /home/dev/shop && make check 2>&1 | tail -20", "/home/dev/shop")
        'make check'
    """
    shown = command.strip()
    entering = _ENTERING.match(shown)
    if entering and os.path.normpath(entering["folder"].strip("\"'")) in (os.path.normpath(root), "."):
        shown = shown[entering.end() :]
    return _TRAILING.sub("", shown) or shown

"""Starts `ace sleep` every night: with a timer of the user's systemd, with launchd, or with cron."""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ace.integrations import replace_file

__all__ = ["NoSchedulerError", "Schedule", "remove", "schedule"]

_NAME: Final = "ace-sleep"
_LABEL: Final = "ace.sleep"
_MARK: Final = "# ace sleep --nightly"


class NoSchedulerError(Exception):
    """This machine has no scheduler that can be used, or it failed."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When which command is started."""

    hour: int
    minute: int
    arguments: Sequence[str]
    """What follows `ace`."""

    @property
    def command(self) -> list[str]:
        """The whole command."""
        return [str(Path(sys.executable).with_name("ace")), *self.arguments]


def schedule(wanted: Schedule) -> list[str]:
    """Start a command every night, in place of an earlier one, and return a description of what was written.

    Args:
        wanted: The command and the time.

    Raises:
        NoSchedulerError: No scheduler was found, or it failed.
    """
    return _schedulers()[_scheduler()][0](wanted)


def remove() -> list[str]:
    """Remove what `schedule` wrote, and return a description of it, which is empty if nothing was scheduled.

    Raises:
        NoSchedulerError: No scheduler was found, or it failed.
    """
    return _schedulers()[_scheduler()][1]()


def _schedulers() -> Mapping[str, tuple[Callable[[Schedule], list[str]], Callable[[], list[str]]]]:
    return {
        "systemd": (_write_timer, _remove_timer),
        "launchd": (_write_agent, _remove_agent),
        "cron": (_write_cron, _remove_cron),
    }


def _scheduler() -> str:
    if shutil.which("systemctl") and _runs("systemctl", "--user", "show-environment"):
        return "systemd"
    if shutil.which("launchctl"):
        return "launchd"
    if shutil.which("crontab"):
        return "cron"
    raise NoSchedulerError("no systemd of the user, launchd or cron was found; start `ace sleep` yourself")


def _runs(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _call(*command: str, text: str | None = None) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoSchedulerError(f"`{shlex.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def _units() -> tuple[Path, Path]:
    named = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path.home() / ".config"
    return base / "systemd" / "user" / f"{_NAME}.service", base / "systemd" / "user" / f"{_NAME}.timer"


def _write_timer(wanted: Schedule) -> list[str]:
    service, timer = _units()
    command = " ".join(map(_quoted_for_systemd, wanted.command))
    path = _quoted_for_systemd(f"PATH={os.environ.get('PATH', os.defpath)}")
    texts = {
        service: f"[Unit]\nDescription=ace sleep\n\n[Service]\nType=oneshot\nEnvironment={path}\nExecStart={command}\n",
        timer: f"[Unit]\nDescription=Start ace sleep every night\n\n[Timer]\n"
        f"OnCalendar=*-*-* {wanted.hour:02}:{wanted.minute:02}:00\nPersistent=true\n\n"
        "[Install]\nWantedBy=timers.target\n",
    }
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, text.encode())
    _call("systemctl", "--user", "daemon-reload")
    _call("systemctl", "--user", "enable", "--now", timer.name)
    return [f"{file}\n{text}" for file, text in texts.items()]


def _quoted_for_systemd(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def _remove_timer() -> list[str]:
    found = [file for file in _units() if file.exists()]
    if found:
        _call("systemctl", "--user", "disable", "--now", f"{_NAME}.timer")
        for file in found:
            file.unlink()
        _call("systemctl", "--user", "daemon-reload")
    return [str(file) for file in found]


def _agent() -> Path:
    return Path.home() / "Library" / "LaunchAgents" / f"{_LABEL}.plist"


def _write_agent(wanted: Schedule) -> list[str]:
    _remove_agent()
    data = plistlib.dumps(
        {
            "Label": _LABEL,
            "ProgramArguments": wanted.command,
            "EnvironmentVariables": {"PATH": os.environ.get("PATH", os.defpath)},
            "StartCalendarInterval": {"Hour": wanted.hour, "Minute": wanted.minute},
        }
    )
    _agent().parent.mkdir(parents=True, exist_ok=True)
    replace_file(_agent(), data)
    _call("launchctl", "load", "-w", str(_agent()))
    return [f"{_agent()}\n{data.decode()}"]


def _remove_agent() -> list[str]:
    if not _agent().exists():
        return []
    _call("launchctl", "unload", "-w", str(_agent()))
    _agent().unlink()
    return [str(_agent())]


def _cron_lines() -> list[str]:
    """Return the lines of other programs; without any, `crontab -l` fails."""
    done = subprocess.run(["crontab", "-l"], capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def _write_cron(wanted: Schedule) -> list[str]:
    path = shlex.quote(os.environ.get("PATH", os.defpath))
    # cron ends a command at a percent sign.
    command = f"PATH={path} {shlex.join(wanted.command)}".replace("%", "\\%")
    line = f"{wanted.minute} {wanted.hour} * * * {command} {_MARK}"
    kept = [other for other in _cron_lines() if not other.endswith(_MARK)]
    _call("crontab", "-", text="".join(f"{entry}\n" for entry in [*kept, line]))
    return [f"crontab\n{line}\n"]


def _remove_cron() -> list[str]:
    lines = _cron_lines()
    kept = [line for line in lines if not line.endswith(_MARK)]
    if len(kept) == len(lines):
        return []
    _call("crontab", "-", text="".join(f"{line}\n" for line in kept))
    return ["the line in the crontab"]

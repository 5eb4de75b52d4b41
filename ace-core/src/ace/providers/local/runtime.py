"""The one place that touches the package `xllamacpp`, which holds llama.cpp's server."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ace.providers.local.errors import LocalModelError, RuntimeMissingError

__all__ = ["NativeServer", "check_runtime", "start_server"]

_OPENMP_LIBRARY = "libgomp.so.1"
_WAIT_WITHOUT_SPINNING = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
"""Otherwise waiting threads burn their cores, and generation collapses as soon as anything else runs."""
_PROMPT_CACHE_MEBIBYTES = 512
_LOG_NOTHING = 0
_LONGEST_START = 900.0
"""Seconds in which a model has to be loaded; gigabytes from a slow disk take minutes."""


class NativeServer(Protocol):
    """A running server of the runtime. It stops when the last reference to it goes."""

    @property
    def listening_address(self) -> str:
        """The address, such as `http://127.0.0.1:40000`."""
        ...


def check_runtime() -> None:
    """Make sure that models can run here, without loading anything large.

    Raises:
        RuntimeMissingError: The package or a library of the system is missing. The text says what to install.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise RuntimeMissingError(
            "models on this machine need the package 'xllamacpp'; install it with: pip install 'ace-core[local]'"
        )
    if sys.platform == "linux" and not _is_loadable(_OPENMP_LIBRARY):
        raise RuntimeMissingError(
            f"models on this machine need the library {_OPENMP_LIBRARY}, which this system lacks; install it with "
            "your system's package manager (Debian and Ubuntu: apt-get install libgomp1; Fedora: dnf install libgomp; "
            "Alpine: apk add libgomp)"
        )


def start_server(
    path: Path, *, slots: int, context_tokens: int, threads: int, repeatable: bool, key: str
) -> NativeServer:
    """Load a model and serve it on a free port of the loopback interface.

    Args:
        path: The GGUF file.
        slots: How many requests are answered side by side.
        context_tokens: The most tokens of one request and its answer.
        threads: How many threads compute.
        repeatable: True computes every prompt anew, so that equal requests get equal answers.
        key: What a request must carry.

    Raises:
        RuntimeMissingError: The runtime is not installed.
        LocalModelError: The file cannot be loaded.
    """
    check_runtime()
    with _environment(_WAIT_WITHOUT_SPINNING):
        runtime: Any = importlib.import_module("xllamacpp")
    params = runtime.CommonParams()
    params.model.path = str(path)
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.ui = False
    params.verbosity = _LOG_NOTHING
    params.n_parallel = slots
    params.n_ctx = context_tokens * slots
    params.cache_prompt = not repeatable
    params.cache_ram_mib = 0 if repeatable else _PROMPT_CACHE_MEBIBYTES
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    return _loaded(lambda: runtime.Server(params), path)


def _loaded(load: Callable[[], NativeServer], path: Path) -> NativeServer:
    """Load a model in a thread of its own, and wait for it.

    On the main thread, a signal handler that raises would do so inside the constructor of the runtime, which then
    waits indefinitely for a server that it has not told to stop. Here the handler raises while this function waits.
    """
    outcome: Future[NativeServer] = Future()

    def run() -> None:
        try:
            outcome.set_result(load())
        except BaseException as error:  # raised to whoever waits
            outcome.set_exception(error)

    loader = threading.Thread(target=run, name="ace-load-model", daemon=True)
    loader.start()
    try:
        return outcome.result(_LONGEST_START)
    except RuntimeError as error:
        raise LocalModelError(
            f"the model file {str(path)!r} cannot be loaded; it is not a whole GGUF file, or too large for the memory",
            model=str(path),
        ) from error
    except TimeoutError as error:
        raise LocalModelError(
            f"the model file {str(path)!r} was not loaded within {_LONGEST_START:g} s; choose a smaller model",
            model=str(path),
        ) from error
    except KeyboardInterrupt:
        loader.join()  # native code cannot be stopped, and must not run while the process ends; a second signal may
        raise


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Set what the runtime reads when it is loaded; what the user has set stays."""
    added = [name for name in settings if name not in os.environ]
    os.environ.update({name: settings[name] for name in added})
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


def _is_loadable(library: str) -> bool:
    try:
        # Loading reads the settings for good, so the first load has to have them.
        with _environment(_WAIT_WITHOUT_SPINNING):
            ctypes.CDLL(library)
    except OSError:
        return False
    return True

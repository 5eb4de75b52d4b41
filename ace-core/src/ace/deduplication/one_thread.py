"""One thread for numpy's matrix products, where `threadpoolctl` is there to arrange it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec

__all__ = ["one_blas_thread"]


def one_blas_thread() -> AbstractContextManager[object]:
    """Return a context in which BLAS uses one thread.

    Its threads wait for each other by spinning: on a machine whose other cores are busy, two of them were up to
    eleven times as slow as one. `threadpoolctl` comes with `ace-core[embeddings]`; without it nothing is limited.
    """
    if find_spec("threadpoolctl") is None:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(limits=1, user_api="blas")
    return limits

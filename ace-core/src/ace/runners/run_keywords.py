"""Written from the declarations of the options by `python -m docs.generated_options`; do not edit it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing import Literal

    from ace.pipeline import CancellationToken
    from ace.runners.run_options import OnSample
__all__ = ["RunOptions"]


class RunOptions(TypedDict, total=False):
    """The keywords of `run` that all runners share."""

    wait: bool
    """Whether to return only when everything is learned; True by default. With False, `run` returns when the last
    foreground part has ended; `max_in_flight` applies here too."""
    workers: int | None
    """The number of inputs to process concurrently. It is how many samples may be in the foreground at once, that is,
    how many agents answer at once; 1 by default. For `TraceAnalyser`, which has no foreground, how many traces are
    reflected on at once in this run, and about how many the skill manager is asked at once; by default three
    reflections, which all runs of the process share, and one update. An update that does not fit what other traces have
    taught in the meantime is requested again."""
    max_in_flight: int | None
    """How many samples may be between their first and their last step at once. With 1, learning is strictly online: a
    sample starts only when the previous one has been learned. The same answers then give the same skills, and even the
    same bytes if the skillbook has a clock of its own, `Skillbook(clock=...)`. By default it is `workers + 4` if an
    agent answers, so that later samples of an epoch benefit from earlier ones, and the engine's background limit for
    recorded traces. None removes the limit, so that `run` with `wait=False` returns after the last answer."""
    on_sample_done: OnSample | None
    """Called with each result when the foreground of its sample has ended."""
    on_sample_end: OnSample | None
    """Called with each result when its sample has been learned, has failed or was cancelled."""
    cancel_token: CancellationToken | None
    """Stops the run: samples that are in a step finish it; the others have a `PipelineCancelled` as their error and are
    left to a resumed run. `max_cost` and `fail_fast` cancel it too."""
    run_id: str | None
    """The name of the run, under which a skillbook in a store keeps its progress; by default a new one."""
    resume: bool | Literal["auto"]
    """Whether to continue a run that was killed or stopped, or in which samples failed: the one named by `run_id`, by
    default the last unfinished one of this kind of runner, else a new one. Samples that it has learned are skipped,
    with `metadata["already_learned"]` in their results. Those that failed are tried again. A model call whose answer
    was recorded is not made again, unless a role could not use the answer. `"auto"` continues the unfinished run over
    these inputs, or the one named by `run_id`, and otherwise starts a new one."""
    max_cost: float | None
    """Stop starting new inputs once the run has cost this much (USD). Only the model calls of this run count."""
    fail_fast: bool
    """Stop at the first input that fails."""
    once: bool
    """Whether to skip what any earlier run into this skillbook has learned, compared by content, which includes
    feedback. If a recorded trace has grown, only what is new in it is learned. It requires a skillbook in a store. The
    epochs of one run are not affected."""
    shuffle: int | None
    """Shuffle the inputs in each epoch, with this random seed. The order is the same on every machine and when the run
    is resumed. The inputs must be a sequence; indexes and results follow the shuffled order. Traces with the same
    `RecordedTrace.group` stay together, in their order."""
    stop_idle: bool
    """Whether the run ends after an epoch in which no skill was added, changed or removed. The run is then complete,
    and the reason in its `RunEnded` event is `nothing_accepted`."""
    reflection_window: int
    """Show the agent and the reflector this many of the most recent reflections. They are part of the task, after
    everything that a provider can cache, take at most 1,500 tokens, and cost no further calls. After a resume they are
    the same ones with `max_in_flight=1`. Roles for small models receive none, and neither do agents outside this
    program or a recursive reflection on several traces."""
    max_consecutive_failures: int
    """Stop after this many inputs in a row whose model could not be reached. It always stops when the server rejects
    the key. A stopped run can be resumed."""
    forget_answers: bool
    """Delete the recorded answers of models from the skillbook when the run is complete. Always done with --provenance
    ids. They are also overwritten. As long as samples are left that failed or were not started, the answers are kept,
    so that the run can be resumed."""

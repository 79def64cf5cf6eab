"""Estimates when a device was off the body, for sources that write zero instead of "not worn"."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool

ZERO_RUN_MINUTES = 90  # Choi et al. 2011; here without their allowance for two-minute interruptions


def unmoved_runs(
    still: Bool[np.ndarray, "minute"], *, run_minutes: int = ZERO_RUN_MINUTES
) -> Bool[np.ndarray, "minute"]:
    """True in every unbroken run of at least `run_minutes` minutes that are `still`.

    Give the whole recording, not single days: a run goes on over midnight.
    """
    edges = np.diff(np.concatenate(([0], still.astype(np.int8), [0])))
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    long = ends - starts >= run_minutes
    change = np.zeros(len(still) + 1, np.int64)
    change[starts[long]] += 1
    change[ends[long]] -= 1
    return np.cumsum(change[:-1]) > 0

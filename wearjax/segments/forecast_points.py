"""Where forecasts start: day indices of each participant's trajectory (OpenMHC evaluation, forecasting track).

Day index d stands for the origin hour 24 d: everything before is history, the next `horizon` hours are the target.
The published names of the three rules are `M` (every target day is retained), `H_7_3` (at least 3 of the 7 days
before are) and `S_100` (at most 100 points a participant).
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Bool

from wearjax import writing
from wearjax.channels import HOURS_PER_DAY
from wearjax.errors import ConfigError, SourceError
from wearjax.segments.trajectories import Trajectories
from wearjax.sources import openmhc
from wearjax.sources.openmhc_trajectories import INDEX_FOLDER

SampleIndex = dict[str, tuple[int, ...]]

CAP = 100
RECENT_DAYS, RECENT_RETAINED_MIN = 7, 3


def start_days(
    retained: Bool[np.ndarray, " day"],
    horizon: int,
    *,
    n_hours: int | None = None,
    whole_target: bool = True,
    recent_days: int = RECENT_DAYS,
    recent_retained_min: int = RECENT_RETAINED_MIN,
) -> list[int]:
    """Day indices of one participant that pass the rules, ascending.

    Args:
        retained: which calendar days pass the day filters.
        horizon: hours of the target.
        n_hours: hours of the trajectory; default whole days.
        whole_target: the rule `M`.
        recent_days, recent_retained_min: the rule `H`; 0 retained days switch it off.
    """
    n_hours = HOURS_PER_DAY * len(retained) if n_hours is None else n_hours
    starts = np.arange(1, (n_hours - horizon) // HOURS_PER_DAY + 1)
    total = np.concatenate([[0], np.cumsum(retained)])
    passing = np.ones(len(starts), bool)
    if whole_target:
        length = -(-horizon // HOURS_PER_DAY)
        passing &= total[starts + length] - total[starts] == length
    passing &= total[starts] - total[np.maximum(starts - recent_days, 0)] >= recent_retained_min
    return starts[passing].tolist()


def thin(points: Mapping[str, Sequence[int]], *, cap: int, seed: int) -> SampleIndex:
    """At most `cap` points of each participant, in the order drawn (rule `S`).

    One stream of Python's `random` serves all participants in turn, so their order matters. Who has no more than
    `cap` points keeps them, in order.

    Raises:
        ConfigError: a cap below one.
    """
    if cap < 1:
        raise ConfigError(f"cap: expected at least 1, got {cap}")
    drawn = random.Random(seed)
    return {
        user: tuple(drawn.sample(list(own), cap) if len(own) > cap else own) for user, own in points.items()
    }


def sample(trajectories: Trajectories, horizon: int, *, cap: int | None = CAP, seed: int = 42) -> SampleIndex:
    """The points of all participants in the order of the data, those without any left out.

    Args:
        cap: most points a participant, as the evaluation has it; None takes all, as training does.
        seed: of the draw.
    """
    points = {
        user: found
        for user in trajectories.stored_order
        if (found := start_days(trajectories.retained(user), horizon))
    }
    if cap is None:
        return {user: tuple(found) for user, found in points.items()}
    return thin(points, cap=cap, seed=seed)


def shipped(data_dir: str | os.PathLike, horizon: int) -> Path | None:
    """The evaluation points that an OpenMHC data root brings along; None where there are none."""
    folder = Path(data_dir) / INDEX_FOLDER
    file = folder / (f"sample_index_P_{horizon}_M_H_{RECENT_DAYS}_{RECENT_RETAINED_MIN}_S_{CAP}.json")
    return file if file.exists() else None


def read(path: str | os.PathLike) -> SampleIndex:
    """Points from a file in the published form, `{user: [day index]}`.

    Raises:
        SourceError: no such file, or another content.
    """
    if not Path(path).exists():
        raise SourceError(f"{path}: no such file; expected time points by participant (JSON)")
    content = openmhc.read_json(Path(path))
    if not isinstance(content, dict):
        raise SourceError(f"{path}: expected {{user: [day index]}}")
    for user, own in content.items():
        if not isinstance(own, list) or not all(type(day) is int for day in own):
            raise SourceError(f"{path}: user {user}: expected a list of whole numbers")
    return {str(user): tuple(own) for user, own in content.items()}


def write(path: str | os.PathLike, points: Mapping[str, Sequence[int]]) -> Path:
    """Writes the published form; the file appears whole or not at all. Returns the file."""
    content = {user: [int(day) for day in own] for user, own in points.items()}
    with writing.file(path) as partial:
        partial.write_text(json.dumps(content) + "\n", encoding="utf-8")
    return Path(path)

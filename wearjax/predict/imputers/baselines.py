"""The nine statistical imputers of the benchmark by name, from one reading of the training days."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from wearjax.days.store import Days
from wearjax.errors import ConfigError, did_you_mean
from wearjax.predict.imputers import personalized, statistical
from wearjax.predict.protocols import Imputer

NAMES = (*statistical.NAMES, *personalized.NAMES)


def build_all(
    names: Iterable[str],
    days: Days,
    train_indices: Sequence[int] | np.ndarray,
    evaluated_indices: Sequence[int] | np.ndarray,
) -> dict[str, Imputer]:
    """Imputers by name, for single days and for windows of several days alike.

    Args:
        names: out of `NAMES`.
        train_indices: store indices of the training days.
        evaluated_indices: store indices of the evaluated split's days in split-local order; the personalised
            imputers learn from a participant's other days among them.

    Raises:
        ConfigError: an unknown name. MethodError: no training day.
    """
    names = tuple(dict.fromkeys(names))
    for name in names:
        if name not in NAMES:
            raise ConfigError(
                f"imputer {name!r} is unknown{did_you_mean(name, NAMES)}; expected some of {', '.join(NAMES)}"
            )
    if not names:
        return {}
    train = statistical.fit_days(days, train_indices, with_modes=any(name.endswith("mode") for name in names))
    evaluated = personalized.evaluated_days(days, evaluated_indices)
    return {
        name: personalized.imputer(name, train, evaluated)
        if name in personalized.NAMES
        else statistical.imputer(name, train)
        for name in names
    }

"""Any trained forecaster from the folder that holds it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wearjax.predict.forecaster import Forecaster

if TYPE_CHECKING:
    from wearjax.convert.bundle import Bundle


def load(path: str | os.PathLike, *, batch_size: int = 64) -> Forecaster:
    """The forecaster of one of our bundles, or of a released PyPOTS model, which is converted in memory.

    Args:
        batch_size: windows a call of the model.

    Raises:
        CheckpointError: neither of the two, or unreadable. MethodError: a model that cannot forecast.
    """
    from wearjax.convert import bundle as bundles
    from wearjax.convert import pypots_forecasters

    if pypots_forecasters.is_release(path):
        return of_bundle(pypots_forecasters.read_forecaster(path), batch_size=batch_size)
    return of_bundle(bundles.load_bundle(path), batch_size=batch_size)


def of_bundle(bundle: Bundle, *, batch_size: int = 64) -> Forecaster:
    """The forecaster of a trained model. Raises MethodError for a kind that cannot forecast."""
    from wearjax.predict.forecasters import series

    return series.SeriesForecaster(bundle, batch_size=batch_size)

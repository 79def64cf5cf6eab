"""Any trained forecaster from the folder that holds it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from wearjax.errors import MethodError
from wearjax.predict.forecaster import Forecaster

if TYPE_CHECKING:
    from wearjax.convert.bundle import Bundle
    from wearjax.days.store import Days


def load(path: str | os.PathLike, *, days: Days | None = None, batch_size: int = 64) -> Forecaster:
    """The forecaster of one of our bundles, or of a released PyPOTS model, which is converted in memory.

    Args:
        days: the store under evaluation, which an LSM-2 reads.
        batch_size: windows a call of the model.

    Raises:
        CheckpointError: neither of the two, or unreadable. MethodError: a model that cannot forecast.
    """
    from wearjax.convert import bundle as bundles
    from wearjax.convert import pypots_forecasters

    if pypots_forecasters.is_release(path):
        return of_bundle(pypots_forecasters.read_forecaster(path), batch_size=batch_size)
    return of_bundle(bundles.load_bundle(path), days=days, batch_size=batch_size)


def of_bundle(bundle: Bundle, *, days: Days | None = None, batch_size: int = 64) -> Forecaster:
    """The forecaster of a trained model.

    Raises MethodError for a model that cannot forecast, or an LSM-2 without the store that it reads.
    """
    from wearjax.predict.forecasters import lsm2_sparse, series

    if bundle.kind in lsm2_sparse.KINDS:
        if not lsm2_sparse.days_of(bundle):
            raise MethodError(
                f"a model of kind {bundle.kind!r} for {bundle.config.minutes} minutes cannot forecast; lsm2_sparse, "
                "lsm2 of several days and the models of hours can"
            )
        if days is None:
            raise MethodError(
                f"a model of kind {bundle.kind!r} forecasts from the minutes of a store, not from a history of hours: "
                "wearjax.evaluate_forecasting(model, data_dir=...) gives it one"
            )
        return lsm2_sparse.LSM2Forecaster(bundle, days, batch_size=min(batch_size, 16))
    return series.SeriesForecaster(bundle, batch_size=batch_size)

"""What a method under evaluation must offer, and the one place where its answers are checked."""

from __future__ import annotations

import inspect
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Shaped

from wearjax.errors import MethodError


@runtime_checkable
class Imputer(Protocol):
    """Fills hidden cells of days. The contract is OpenMHC's: such methods run here unchanged.

    Beside its three arrays a method may declare keywords, and is passed those that it declares:

        sample_indices: int64 (batch,), split-local position of the day, or of a window's first real day.
        user_ids: participant of each sample.
        dates: ISO date of the day, or of a window's first real day.
        day_offsets: int64 (batch, n_days), calendar days since the window's first real day, -1 in padded
            slots; only for windows of several days.

    A true attribute `requires_user_grouped_batches` asks for batches that hold whole participants.
    """

    def impute(
        self,
        data: Float32[np.ndarray, "batch channel=19 time"],
        observed_mask: Shaped[np.ndarray, "batch channel=19 time"],
        target_mask: Shaped[np.ndarray, "batch channel=19 time"],
        /,
    ) -> Float32[np.ndarray, "batch channel=19 time"]:
        """Returns `data` with values at the target cells.

        Args:
            data: measured values, NaN where missing or hidden; one day or several days in a row.
            observed_mask: where the sensors measured, hidden cells included.
            target_mask: the hidden cells that must be filled.
        """
        ...


def call_impute(
    imputer: Any,
    data: Float32[np.ndarray, "batch channel time"],
    observed_mask: Bool[np.ndarray, "batch channel time"],
    target_mask: Bool[np.ndarray, "batch channel time"],
    **metadata: Any,
) -> Float32[np.ndarray, "batch channel time"]:
    """Calls a method with the keywords that it declares, and checks what it returns.

    Keywords that are None are not passed. Values need not be finite: substitution is the caller's step.

    Raises:
        MethodError: no `impute`, or an answer of another shape or of a type that is not real floating point.
    """
    name = method_name(imputer)
    impute = getattr(imputer, "impute", None)
    if not callable(impute):
        raise MethodError(f"{name}: has no impute(data, observed_mask, target_mask) method")
    out = np.asarray(impute(data, observed_mask, target_mask, **_declared(impute, metadata)))
    if out.shape != data.shape:
        raise MethodError(f"{name}.impute: returned shape {out.shape}, expected {data.shape}")
    if out.dtype.kind != "f":
        raise MethodError(f"{name}.impute: returned {out.dtype}, expected float32")
    # A float64 answer beyond float32 becomes infinite and is substituted like any other non-finite value.
    with np.errstate(over="ignore"):
        return out.astype(np.float32, copy=False)


def method_name(method: Any) -> str:
    """The name a method goes by where the user gave none: its `name` attribute, else its class."""
    name = getattr(method, "name", None)
    return name if isinstance(name, str) and name else type(method).__name__


def _declared(function: Any, metadata: dict[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in metadata.items() if value is not None}
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return given
    by_keyword = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = {parameter.name for parameter in parameters if parameter.kind in by_keyword}
    return {key: value for key, value in given.items() if key in names}

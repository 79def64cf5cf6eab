"""What a method under evaluation must offer, and the one place where its answers are checked."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Shaped

from wearjax.errors import ConfigError, MethodError, WearjaxError
from wearjax.predict import own_code

_T = TypeVar("_T")


@runtime_checkable
class Imputer(Protocol):
    """Fills hidden cells of days. The contract is OpenMHC's: such methods run here unchanged.

    Beside its three arrays a method may declare keywords, and is passed those that it declares:

        sample_indices: int64 (batch,), split-local position of the day, or of a window's first real day.
        user_ids: participant of each sample.
        dates: ISO date of the day, or of a window's first real day.
        day_offsets: int64 (batch, n_days), calendar days since the window's first real day, -1 in padded
            slots; only for windows of several days.

    A true attribute `requires_user_grouped_batches` asks for batches that hold whole participants. A true
    `on_accelerator` keeps a method in the evaluating process, whatever `engine` is asked for.
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


def check_elsewhere(methods: Mapping[str, Any]) -> None:
    """Raises ConfigError for a method that must run in this process, with its accelerators."""
    for name, method in methods.items():
        if getattr(method, "on_accelerator", False):
            raise ConfigError(
                f"{name}: runs on the accelerators of this process; --engine and --jobs (engine=, jobs=) are for "
                "methods in NumPy: evaluate it in a run of its own"
            )


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
        MethodError: no `impute`, one that fails, or an answer of another shape, or not of real numbers.
    """
    name = method_name(imputer)
    impute = getattr(imputer, "impute", None)
    if not callable(impute):
        raise MethodError(f"{name}: has no impute(data, observed_mask, target_mask) method")
    try:
        found = impute(data, observed_mask, target_mask, **_declared(impute, metadata))
    except WearjaxError:
        raise
    except Exception as error:  # whatever a method raises says which method it was
        raise MethodError(f"{name}.impute: {own_code.told(error)}") from error
    if found is None:
        raise MethodError(f"{name}.impute: returned nothing, expected an array of shape {data.shape}")
    out = np.asarray(found)
    if out.shape != data.shape:
        raise MethodError(f"{name}.impute: returned shape {out.shape}, expected {data.shape}")
    if out.dtype.kind not in "fiub":
        raise MethodError(f"{name}.impute: returned {out.dtype}, expected float32")
    # A float64 answer beyond float32 becomes infinite and is substituted like any other non-finite value.
    with np.errstate(over="ignore"):
        return out.astype(np.float32, copy=False)


@dataclass(frozen=True)
class DataSpec:
    """What a predictor wants to be given of each participant (OpenMHC evaluation, method protocol).

    `("hourly", "day")` is `(n_days, 24, 38)`, `("hourly", "series", N)` is `(N, 38)`, `("minute", "day")` is
    `(n_days, 1440, 38)`; 38 = 19 values, NaN where missing, and 19 flags, 1 where missing.

    Raises:
        ConfigError: anything else.
    """

    granularity: Literal["hourly", "minute"] = "hourly"
    layout: Literal["day", "series"] = "day"
    length: int | None = None

    def __post_init__(self):
        asked = (self.granularity, self.layout)
        if asked == ("hourly", "series"):
            if isinstance(self.length, bool) or not isinstance(self.length, int) or self.length < 1:
                raise ConfigError(
                    f"DataSpec: an hourly series needs its length in hours, at least 1; got {self.length!r}"
                )
        elif asked not in (("hourly", "day"), ("minute", "day")):
            raise ConfigError(
                f"DataSpec{asked}: expected ('hourly', 'day'), ('hourly', 'series', N) or ('minute', 'day')"
            )
        elif self.length is not None:
            raise ConfigError(f"DataSpec: only a series has a length; got {self.length!r} for days")


@dataclass(frozen=True)
class EvalContext:
    """Which participants come next, and which of their days.

    Attributes:
        task: code of the task.
        split: `train` before `fit`; before `predict` the split under evaluation.
        user_ids: in the order of the data.
        dates: eligible ISO dates of each, ascending.
        label_window: `full_history`; `forward` where no day after the last eligible one may be read (an ablation).
    """

    task: str
    split: str
    user_ids: tuple[str, ...]
    dates: tuple[tuple[str, ...], ...]
    label_window: str = "full_history"


@runtime_checkable
class Predictor(Protocol):
    """Predicts a label of participants from their days. The contract is OpenMHC's: such methods run here unchanged.

    A method may also declare:

        name: what results call it.
        data_spec: a `DataSpec` (or its values, as a tuple); hourly days without one.
        set_context(context): called with an `EvalContext` before `fit` and before `predict`.
        fit(data, labels, task_type): called once a task. `labels` are float64 (n,), `task_type` is `binary`,
            `ordinal`, `regression` or `multiclass`.
        settings: a dict of plain values that change its predictions; results of other settings are not reused.

    `data` is a sequence of arrays, one a participant, read when an item is taken; it may be gone through again.
    Days that the context names may be absent from it. The harness of wearjax also gives it `dates`: the ISO dates
    of the days in each array.

    Of what else OpenMHC's contract knows, `streaming` and `needs_segments` have nothing to change here, since no array
    is read before it is taken; `check_supported` refuses what the harness cannot give.
    """

    def predict(self, data: Sequence[Float32[np.ndarray, "..."]], /) -> Float[np.ndarray, "n"]:
        """One number a participant: the score of class 1 of a binary task, else the level or value.

        A number that is not finite is no prediction; the Linear baseline takes its place and is counted.
        """
        ...


def data_spec_of(method: Any) -> DataSpec:
    """The inputs that a predictor asks for; hourly days where it says nothing.

    Raises:
        ConfigError: it asks for something else than the three kinds.
    """
    spec = getattr(method, "data_spec", None)
    if isinstance(spec, DataSpec):
        return spec
    if spec is None:
        return DataSpec(getattr(method, "input_granularity", None) or "hourly")
    if dataclasses.is_dataclass(spec) and not isinstance(spec, type):
        spec = dataclasses.astuple(spec)
    if not isinstance(spec, tuple | list) or not 2 <= len(spec) <= 3:
        raise ConfigError(f"{method_name(method)}.data_spec: expected a DataSpec, got {spec!r}")
    return DataSpec(*spec)


# Calls in which OpenMHC's harness hands over more than the arrays: raw recordings, and the window of an ablation.
_NOT_CALLED = {
    "set_loader": "no loader of raw recordings",
    "set_temporal_window": "no window by which a method cuts recordings of its own",
}


def check_supported(method: Any, spec: DataSpec, *, name: str | None = None) -> None:
    """Raises MethodError, naming the attribute, where a predictor relies on what it would not be given here.

    That is a `set_loader` or `set_temporal_window`, or a `segment_resolution` other than days (or than the granularity
    of its `data_spec`).
    """
    called = name or method_name(method)
    for attribute, absent in _NOT_CALLED.items():
        if callable(getattr(method, attribute, None)):
            raise MethodError(
                f"{called}.{attribute}: is never called here, {absent} is handed to a method; data_spec, set_context "
                "and the data passed to fit and predict say what it gets"
            )
    resolution = getattr(method, "segment_resolution", None)
    if resolution not in (None, "day", "daily", spec.granularity):
        raise MethodError(
            f"{called}.segment_resolution: {resolution!r} is not given here; a method gets days, as its data_spec says"
        )


def call_set_context(method: Any, context: EvalContext, *, name: str | None = None) -> None:
    """Tells a predictor who comes next, if it listens. Raises MethodError when that fails."""
    set_context = getattr(method, "set_context", None)
    if callable(set_context):
        _naming(method, name, context.task, "set_context", lambda: set_context(context))


def call_fit(
    method: Any,
    data: Sequence[Float32[np.ndarray, "..."]],
    labels: Float64[np.ndarray, "n"],
    task_type: str,
    *,
    task: str,
    name: str | None = None,
) -> None:
    """Fits a predictor to a task, if it learns. Raises MethodError, naming method and task, when that fails."""
    fit = getattr(method, "fit", None)
    if callable(fit):
        # A copy, so that a method which writes into its arguments harms only itself.
        _naming(method, name, task, "fit", lambda: fit(data, labels.copy(), task_type))


def call_predict(
    method: Any, data: Sequence[Float32[np.ndarray, "..."]], *, task: str, name: str | None = None
) -> Float64[np.ndarray, "n"]:
    """Predictions of one task, which need not be finite.

    Raises:
        MethodError: no `predict`, one that fails, or an answer that is not one real number a participant.
    """
    called = name or method_name(method)
    predict = getattr(method, "predict", None)
    if not callable(predict):
        raise MethodError(f"{called}: has no predict(data) method")
    found = _naming(method, name, task, "predict", lambda: predict(data))
    if found is None:
        raise MethodError(
            f"{called}.predict, task {task!r}: returned nothing, expected one number a participant"
        )
    out = np.asarray(found)
    if out.shape != (len(data),):
        raise MethodError(
            f"{called}.predict, task {task!r}: returned shape {out.shape}, expected ({len(data)},), "
            "one number a participant"
        )
    if out.dtype.kind not in "fiub":
        raise MethodError(f"{called}.predict, task {task!r}: returned {out.dtype}, expected real numbers")
    return out.astype(np.float64)


def _naming(method: Any, name: str | None, task: str, what: str, call: Callable[[], _T]) -> _T:
    """Whatever a method raises says which method and task it was."""
    try:
        return call()
    except Exception as error:
        raise MethodError(
            f"{name or method_name(method)}.{what}, task {task!r}: {own_code.told(error)}"
        ) from error


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

"""What to train for a model configuration: the module, its objective and its examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from flax import nnx

from wearjax.channels import MINUTES_PER_DAY
from wearjax.days.hourly_scaler import HourlyScaler
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import ConfigError
from wearjax.models import lsm2_sparse, registry, wbm
from wearjax.objectives.contrastive import WeekContrast
from wearjax.objectives.forecast import MaskedForecast
from wearjax.objectives.masked_imputation import MaskedImputation, RecurrentImputation
from wearjax.objectives.masked_reconstruction import MaskedReconstruction, SparseReconstruction
from wearjax.segments.seven_days import N_DAYS
from wearjax.train import data
from wearjax.train.state import Frozen


@dataclass(frozen=True)
class Task:
    """A model to build and an objective to minimise; the loop knows no more of either.

    Attributes:
        kind: name of the model in a bundle.
        build: makes the module from random streams.
        objective: makes the `step.Objective` from the statistics of the train days. With the keyword
            `axis_name` where the task is to run under pmap.
        examples: cuts the days of a run into examples.
        statistics: what `objective` takes, and `examples` fits.
        frozen: parameters that training leaves as they are; None trains all.
        starts_from: other kinds of bundle that may start a run (`loop.init_from`), and the first names of the
            parameters taken from them. Their normalization is taken too.
        needs_start: whether a run without `loop.init_from` makes no sense.
    """

    kind: str
    build: Callable[[nnx.Rngs], nnx.Module]
    objective: Callable[..., Any]
    examples: Callable[..., data.TrainingExamples] = data.day_examples
    statistics: type[NormalizationStats] = NormalizationStats
    frozen: Frozen = None
    starts_from: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    needs_start: bool = False


def task_of(model: Any) -> Task:
    """The task of a model configuration. Raises ConfigError for a class that has none."""
    architecture = registry.of(model)
    return _TASKS[architecture.kind](model, lambda rngs: architecture.build(model, rngs=rngs))


def _lsm2(model: Any, build: Callable[[nnx.Rngs], nnx.Module]) -> Task:
    if model.minutes == MINUTES_PER_DAY:
        examples = data.day_examples
    elif model.minutes == N_DAYS * MINUTES_PER_DAY:
        examples = data.window_examples
    else:
        raise ConfigError(
            f"model.minutes: {model.minutes} is neither a day ({MINUTES_PER_DAY}) nor {N_DAYS} days"
        )
    return Task("lsm2", build, _of(MaskedReconstruction), examples)


def _lsm2_sparse(model: Any, build: Callable[[nnx.Rngs], nnx.Module]) -> Task:
    if (model.minutes, model.n_days) != (MINUTES_PER_DAY, N_DAYS):
        raise ConfigError(
            f"model.n_days: training takes {N_DAYS} days of {MINUTES_PER_DAY} minutes, got {model.n_days} of "
            f"{model.minutes}"
        )
    return Task(
        "lsm2_sparse", build, _of(SparseReconstruction), data.window_examples, frozen=lsm2_sparse.frozen,
        starts_from={"lsm2": lsm2_sparse.FROM_DAILY}, needs_start=True,
    )  # fmt: skip


def _wbm(model: Any, build: Callable[[nnx.Rngs], nnx.Module]) -> Task:
    if model.hours != wbm.HOURS_PER_WEEK:
        raise ConfigError(
            f"model.hours: training takes weeks of {wbm.HOURS_PER_WEEK} hours, got {model.hours}"
        )
    return Task("wbm", build, _of(WeekContrast), data.week_examples)


def _series(kind: str, objective: type) -> Callable[..., Task]:
    """Imputers of series: part of a day, a day, or a window of days."""

    def task(model: Any, build: Callable[[nnx.Rngs], nnx.Module]) -> Task:
        if MINUTES_PER_DAY % model.minutes == 0:
            examples = data.day_examples
        elif model.minutes == N_DAYS * MINUTES_PER_DAY:
            examples = data.window_examples
        else:
            raise ConfigError(
                f"model.minutes: {model.minutes} neither divides a day ({MINUTES_PER_DAY}) nor is {N_DAYS} days"
            )
        return Task(kind, build, _of(objective), examples)

    return task


def _forecaster(kind: str) -> Callable[..., Task]:
    """Models that continue the hours of a participant."""

    def task(model: Any, build: Callable[[nnx.Rngs], nnx.Module]) -> Task:
        examples = partial(data.forecast_examples, steps=model.steps, horizon=model.horizon)
        return Task(kind, build, _of(MaskedForecast), examples, HourlyScaler)

    return task


def _of(objective: type) -> Callable[..., Any]:
    def make(stats: NormalizationStats, axis_name: str | None = None) -> Any:
        return objective(stats, axis_name)

    return make


_TASKS: dict[str, Callable[..., Task]] = {
    "lsm2": _lsm2,
    "lsm2_sparse": _lsm2_sparse,
    "wbm": _wbm,
    "dlinear": _series("dlinear", MaskedImputation),
    "brits": _series("brits", RecurrentImputation),
    **{kind: _forecaster(kind) for kind in registry.FORECASTERS},
}

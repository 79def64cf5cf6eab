"""What a hyper-parameter search may vary: small tables from field names to ranges, one a kind of model.

Of the published searches of OpenMHC only these facts are established: WBM took 15 trials and selected a drop
probability of 0.223 and a KoLeo weight of 0.689; LSM-2 took 15 trials of 25 epochs (daily) and 30 trials of 50
epochs (sparse), with learning rate, weight decay, batch size and (daily) warm-up among what was searched; the
forecasters of hours took 15 trials each; all used Hyperband with at least 5 units and a reduction factor of 3.
THE RANGES ARE NOT PUBLISHED: those below are this library's choice, wide around the values that are known. The
searches print that.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wearjax.errors import ConfigError


@dataclass(frozen=True)
class Uniform:
    """A number from low to high."""

    low: float
    high: float

    def __post_init__(self):
        _check_bounds(self.low, self.high, above=-math.inf)

    def ends(self) -> tuple[float, ...]:
        """Values that show whether a field takes the range."""
        return self.low, self.high

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class LogUniform:
    """A positive number from low to high, each factor as likely as any other of its size."""

    low: float
    high: float

    def __post_init__(self):
        _check_bounds(self.low, self.high, above=0.0)

    def ends(self) -> tuple[float, ...]:
        """Values that show whether a field takes the range."""
        return self.low, self.high

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}, logarithmic"


@dataclass(frozen=True)
class Choice:
    """One of a few values."""

    values: tuple[Any, ...]

    def __post_init__(self):
        if not self.values or len(set(self.values)) < len(self.values):
            raise ConfigError(f"search space: choices must be distinct and at least one, got {self.values}")

    def ends(self) -> tuple[Any, ...]:
        """All of them."""
        return self.values

    def __str__(self) -> str:
        return "one of " + ", ".join(map(str, self.values))


Range = Uniform | LogUniform | Choice


def _check_bounds(low: float, high: float, *, above: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high) and above < low < high):
        positive = "positive, " if above == 0 else ""
        raise ConfigError(f"search space: bounds must be {positive}finite and rising, got {low} to {high}")


@dataclass(frozen=True)
class SearchSpace:
    """What to vary, and how many trials the published search took.

    Attributes:
        parameters: dotted field of the configuration → range. Several fields that share one value are written
            with commas: `"model.dropout,model.token_drop"`.
        trials: default number of trials.
        metric: validation metric to make small. It must mean the same in every trial: where the weight of a
            part of the loss is varied, the loss itself does not.
        note: what of the space is published; printed above every search.
    """

    parameters: Mapping[str, Range]
    trials: int
    metric: str = "loss"
    note: str = ""

    def __post_init__(self):
        if not self.parameters:
            raise ConfigError("search space: nothing to vary")

    def to_json(self) -> dict[str, str]:
        """Each range in words, for records and comparisons."""
        return {name: str(found) for name, found in self.parameters.items()}


_OURS = "ranges are not published and are this library's choice"
_LEARNING_RATE = LogUniform(1e-5, 1e-3)
_WEIGHT_DECAY = LogUniform(1e-3, 0.3)

_FORECAST_RATE = LogUniform(1e-4, 1e-2)  # around the published 1e-3
_BATCH = Choice((32, 64, 128, 256))


def _forecasting(name: str, **sizes: Range) -> SearchSpace:
    parameters: dict[str, Range] = {"optimizer.learning_rate": _FORECAST_RATE, "data.batch_size": _BATCH}
    return SearchSpace(
        parameters | {f"model.{field}": found for field, found in sizes.items()},
        trials=15,
        note=f"{name} forecaster (paper, Table 30): 15 trials and the selected sizes are published; {_OURS}",
    )


SPACES: dict[str, SearchSpace] = {
    "lsm2": SearchSpace(
        {
            "optimizer.learning_rate": _LEARNING_RATE,
            "optimizer.weight_decay": _WEIGHT_DECAY,
            "optimizer.warmup_fraction": Uniform(0.01, 0.2),
            "data.batch_size": Choice((32, 64, 128)),
        },
        trials=15,
        note=f"LSM-2 (paper, Table 24): 15 trials of 25 epochs are published; {_OURS}",
    ),
    "lsm2_sparse": SearchSpace(
        {
            "optimizer.learning_rate": _LEARNING_RATE,
            "optimizer.weight_decay": _WEIGHT_DECAY,
            "data.batch_size": Choice((8, 16, 32)),
        },
        trials=30,
        note=f"LSM-2-Sparse (paper, Table 25): 30 trials of 50 epochs are published; {_OURS}",
    ),
    "wbm": SearchSpace(
        {
            "optimizer.learning_rate": _LEARNING_RATE,
            "model.dropout,model.token_drop": Uniform(0.05, 0.5),  # one probability in the published model
            "model.koleo_weight": Uniform(0.0, 1.0),
        },
        trials=15,
        metric="loss_infonce",
        note=f"WBM (paper, Table 15): 15 trials and the selected drop probability 0.223 and KoLeo weight 0.689 "
        f"are published; {_OURS}",
    ),
    "dlinear_forecast": _forecasting(
        "DLinear", window=Choice((25, 73, 169, 301)), d_model=Choice((32, 64, 128, 256))
    ),
    "segrnn": _forecasting(
        "SegRNN", segment=Choice((6, 12, 24)), d_model=Choice((32, 64, 128, 256)), dropout=Uniform(0.0, 0.5)
    ),
    "mixlinear": _forecasting(
        "MixLinear",
        period=Choice((6, 12, 24)),
        frequencies=Choice((2, 4, 8)),
        rank=Choice((1, 2, 4)),
        time_share=Uniform(0.0, 1.0),
    ),
}


def space_of(config: Any) -> SearchSpace:
    """The published search of a configuration's kind of model. Raises ConfigError where there is none."""
    from wearjax.models import registry  # the tables alone start no accelerator stack

    kind = registry.of(config.model).kind
    if kind not in SPACES:
        raise ConfigError(f"no search space for models of kind {kind!r}; known: {', '.join(SPACES)}")
    return SPACES[kind]


def apply(config: Any, parameters: Mapping[str, Any]) -> Any:
    """The configuration with values of a search space in place. Raises ConfigError for a name it lacks."""
    for names, value in parameters.items():
        for name in names.split(","):
            config = _replaced(config, name.strip(), value, full=name.strip())
    return config


def overrides(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted field → value, with shared values written out."""
    return {name.strip(): value for names, value in parameters.items() for name in names.split(",")}


def _replaced(config: Any, name: str, value: Any, *, full: str) -> Any:
    head, _, rest = name.partition(".")
    known = [f.name for f in dataclasses.fields(config)] if dataclasses.is_dataclass(config) else []
    if head not in known:
        near = difflib.get_close_matches(head, known, n=1, cutoff=0.5)
        hint = f" (did you mean {full.removesuffix(name)}{near[0]}?)" if near else ""
        raise ConfigError(f"search space: the configuration has no field {full}{hint}")
    if rest:
        value = _replaced(getattr(config, head), rest, value, full=full)
    elif dataclasses.is_dataclass(getattr(config, head)):
        raise ConfigError(f"search space: {full} is a section, not a field")
    return dataclasses.replace(config, **{head: value})

"""The compiled parts of VitalBench training: windows cut on the device, several steps a call, forecasts of a batch.

All scaled rows of a split lie on the device once, and a window is a slice of them, taken inside the step by the row it
ends at. Which channels a model sees and which count is data, not shape; only the width they are filled up to is
compiled in. How many steps a call makes is data too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array, Bool, Float, Int, Int32

from wearjax.objectives import vital_forecast
from wearjax.segments.vital_scaled import ScaledCases

ABSENT = -1  # in place of a channel: fills a row of channels up


class Rows(NamedTuple):
    """A split on the device.

    Attributes:
        values: preceded by L - 1 rows of zeros, so that a window that starts before the first row is a slice too.
        starts: first row of the case of each row.
    """

    values: Float[Array, "L-1+row K"]
    targets: Float[Array, "row Kd"]
    observed: Bool[Array, "row Kd"]
    starts: Int32[Array, "row"]


def rows_of(cases: ScaledCases, context: int) -> Rows:
    """Moves a split to the device."""
    padded = np.concatenate((np.zeros((context - 1, cases.n_channels), np.float32), cases.values))
    return Rows(
        *(jnp.asarray(array) for array in (padded, cases.targets, cases.observed, cases.case_starts()))
    )


def _slices(array: Float[Array, "row K"], first: Int[Array, "B"], length: int) -> Float[Array, "B length K"]:
    return jax.vmap(lambda at: jax.lax.dynamic_slice_in_dim(array, at, length))(first)


def _columns(block: Array, columns: Int[Array, "..."]) -> Array:
    """Columns of (B, T, C): the same for all samples, or (B, k); the first one for `ABSENT`."""
    columns = jnp.maximum(columns, 0)
    if columns.ndim == 1:
        return jnp.take(block, columns, axis=2)
    return jnp.take_along_axis(block, columns[:, None, :], axis=2)


def inputs(
    rows: Rows, ends: Int[Array, "B"], channels: Int[Array, "..."], context: int
) -> Float[Array, "B L k"]:
    """What the model sees of windows: channels (k,) or (B, k); zeros before the case began and for `ABSENT`."""
    x = _columns(_slices(rows.values, ends, context), channels)
    began = ends[:, None] + jnp.arange(1 - context, 1) >= rows.starts[ends][:, None]
    there = (channels >= 0)[None, None] if channels.ndim == 1 else (channels >= 0)[:, None]
    return jnp.where(began[..., None] & there, x, 0.0)


def futures(
    rows: Rows, ends: Int[Array, "B"], channels: Int[Array, "..."], scored: Bool[Array, "..."], horizon: int
) -> tuple[Float[Array, "B T k"], Bool[Array, "B T k"]]:
    """Values to forecast in the given channels, and where they count: observed entries of scored targets."""
    n_covariates = rows.values.shape[1] - rows.targets.shape[1]
    target = jnp.maximum(channels - n_covariates, 0)
    counts = scored & (channels >= n_covariates)
    y = _columns(_slices(rows.targets, ends + 1, horizon), target)
    observed = _columns(_slices(rows.observed, ends + 1, horizon), target)
    return y, observed & (counts[None, None] if counts.ndim == 1 else counts[:, None])


def permutations(key: Array, count: int, n: int, kept: Int[Array, ""] | int) -> Int[Array, "count n"]:
    """Random orders of the first `kept` of n, the rest behind them as they stand.

    A rank is that of a random word: few are compared faster than a sort compiles.
    """
    place = jnp.arange(n)
    words = jnp.where(place < kept, jax.random.bits(key, (count, n)), jnp.uint32(0xFFFFFFFF))
    mine, other = words[:, :, None], words[:, None, :]
    return ((other < mine) | ((other == mine) & (place < place[:, None]))).sum(axis=2)


class TrainState(NamedTuple):
    """All that a step changes; `costs` only where channels are permuted."""

    params: Any
    moments: Any
    step: Int32[Array, ""]
    costs: vital_forecast.OrderCosts | None


@dataclass(frozen=True, eq=False)
class Steps:
    """The compiled functions of one model, context and horizon.

    Attributes:
        graph: of the module, as `nnx.split` gives it.
        call: `call(module, x, key)` forecasts every channel of x; without a key in evaluation. With a fourth
            argument, only the first so many channels are there.
        reduction: of the loss.
        permute: every sample's channels in an order of their own, whose cost is kept (MambaTS).
        faithful_costs: credit the costs as the released code does.
        filled_up: channels may be `ABSENT`, the last ones, the same number in all samples of a batch.
    """

    graph: nnx.GraphDef
    call: Callable[..., Float[Array, "B T k"]]
    context: int
    horizon: int
    reduction: str
    permute: bool = False
    faithful_costs: bool = False
    filled_up: bool = False

    @functools.cached_property
    def train(self) -> Callable[..., Any]:
        return jax.jit(self._train, donate_argnums=0)

    @functools.cached_property
    def errors(self) -> Callable[..., Any]:
        return jax.jit(self._errors)

    @functools.cached_property
    def forecast(self) -> Callable[..., Any]:
        return jax.jit(self._forecast)

    def start(self, params: Any, n_channels: int) -> TrainState:
        """State before the first step; takes its own copy of the parameters."""
        params = jax.tree.map(jnp.copy, params)
        costs = vital_forecast.no_costs(n_channels) if self.permute else None
        return TrainState(params, _ADAM.init(params), jnp.int32(0), costs)

    def _train(
        self,
        state: TrainState,
        rows: Rows,
        ends: Int[Array, "S B"],
        channels: Int[Array, "S k"],
        scored: Bool[Array, "S k"],
        count: Int32[Array, ""],
        rate: Float[Array, ""],
        key: Array,
    ) -> tuple[TrainState, tuple[Float[Array, "S"], Float[Array, "S"]]]:
        """The first `count` of S steps; returns the loss of each and its number of observed entries."""
        batches = (ends, channels, scored)

        def one(i, carry):
            state, sums = carry
            batch = jax.tree.map(lambda array: array[i], batches)
            state, found = self._step(state, rows, batch, rate, jax.random.fold_in(key, state.step))
            return state, jax.tree.map(lambda all_, value: all_.at[i].set(value), sums, found)

        nothing = jnp.zeros(len(ends), jnp.float32)
        return jax.lax.fori_loop(0, count, one, (state, (nothing, nothing)))

    def _step(self, state, rows, batch, rate, key):
        ends, channels, scored = batch
        model_key, order_key = jax.random.split(key)
        n_scored = scored.sum().astype(jnp.float32)
        if self.permute:
            order = permutations(order_key, len(ends), len(channels), (channels >= 0).sum())
            channels, scored = channels[order], scored[order]
        x = inputs(rows, ends, channels, self.context)
        y, counts = futures(rows, ends, channels, scored, self.horizon)
        per_sample = self.horizon * n_scored

        def loss(params):
            found = self._forecasts(params, x, channels, model_key)
            value = vital_forecast.masked_mse(
                found, y, counts, reduction=self.reduction, entries=len(ends) * per_sample
            )
            return value, vital_forecast.squared_sums(found, y, counts)

        (value, (squared, observed)), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
        updates, moments = _ADAM.update(gradient, state.moments, state.params)
        params = jax.tree.map(lambda p, u: p - rate * u, state.params, updates)
        costs = state.costs
        if costs is not None:
            over = per_sample if self.reduction == "all" else jnp.maximum(observed, 1.0)
            costs = vital_forecast.credit(costs, channels, squared / over, faithful=self.faithful_costs)
        return TrainState(params, moments, state.step + 1, costs), (value, observed.sum())

    def _forecast(self, params, rows: Rows, ends: Int[Array, "B"], channels: Int[Array, "..."]):
        """Forecasts (B, T, k) of the given channels, in their order."""
        return self._forecasts(params, inputs(rows, ends, channels, self.context), channels, None)

    def _forecasts(self, params, x: Float[Array, "B L k"], channels: Int[Array, "..."], key: Array | None):
        module = nnx.merge(self.graph, params)
        if not self.filled_up:
            return self.call(module, x, key)
        return self.call(module, x, key, (channels >= 0).sum(axis=-1).reshape(-1)[0])

    def _errors(self, params, rows: Rows, ends, channels, scored):
        """Squared error and observed entries of each window; `channels` and `scored` are (B, k)."""
        found = self._forecast(params, rows, ends, channels)
        return vital_forecast.squared_sums(found, *futures(rows, ends, channels, scored, self.horizon))


_ADAM = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)

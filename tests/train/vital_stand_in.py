"""Small surgeries and models for tests of VitalBench training."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from wearjax.segments import vital_scaled
from wearjax.segments.vital_settings import VitalSettings
from wearjax.train.vital_networks import Network
from wearjax.train.vitals import VitalTraining

N_TARGETS = 3
CONTEXT, HORIZON = 6, 2


def records(n_cases: int, *, seed: int = 0, n_channels: int = 5, rows: int = 20) -> list[np.ndarray]:
    """Smooth series of different lengths with a third of the entries missing."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n_cases):
        walk = 50 + np.cumsum(rng.normal(size=(rows + 3 * i, n_channels)), axis=0)
        found.append(np.where(rng.random(walk.shape) < 0.33, 0, walk).astype(np.float32))
    return found


def cases(n_cases: int, *, settings: VitalSettings | None = None, **changes) -> vital_scaled.ScaledCases:
    made = records(n_cases, **changes)
    return vital_scaled.prepare(
        [f"case{i}" for i in range(n_cases)], made.__getitem__, N_TARGETS, settings or VitalSettings()
    )


def training(**changes) -> VitalTraining:
    base = {"context": CONTEXT, "horizon": HORIZON, "learning_rate": 1e-2, "epochs": 3, "batch_size": 16}
    return VitalTraining(**(base | {"steps_per_call": 2} | changes))


class Alone(nnx.Module):
    """One linear map over time for every channel."""

    def __init__(self, *, rngs: nnx.Rngs):
        self.kernel = nnx.Param(jax.random.normal(rngs.params(), (CONTEXT, HORIZON)) * 0.1)
        self.bias = nnx.Param(jnp.zeros(HORIZON))

    def __call__(self, x):
        return jnp.einsum("blk,lt->btk", x, self.kernel[...]) + self.bias[...][:, None]


class Mixing(Alone):
    """Also sees what stands before a channel: the running mean over channels, in the order they are given."""

    def __init__(self, *, rngs: nnx.Rngs):
        super().__init__(rngs=rngs)
        self.before = nnx.Param(jax.random.normal(rngs.params(), (CONTEXT, HORIZON)) * 0.1)

    def __call__(self, x):
        mean = jnp.cumsum(x, axis=2) / jnp.arange(1, x.shape[2] + 1)
        return super().__call__(x) + jnp.einsum("blk,lt->btk", mean, self.before[...])


def call(module, x, key, kept=None):
    """With a little noise in training, so that the random streams matter."""
    del kept  # what fills a row up stands behind the rest, where no mean of what came before sees it
    found = module(x)
    return found if key is None else found + 0.01 * jax.random.normal(key, found.shape)


ALONE = Network("alone", lambda rngs: Alone(rngs=rngs), call, mixes=False)
MIXING = Network("mixing", lambda rngs: Mixing(rngs=rngs), call, mixes=True)
PERMUTED = Network(
    "permuted", lambda rngs: Mixing(rngs=rngs), call, mixes=True, permutes=True, reduction="all",
    order=lambda costs, kept: kept[::-1],
)  # fmt: skip

"""One loss of many labels, each known for some participants only.

OpenMHC, GRU-D baseline: cross-entropy with balanced classes, cumulative binary cross-entropy for ordinal labels
(Cheng, Wang & Pollastri 2008), squared error of standardised values; the mean over the tasks that a batch has labels
of.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from wearjax.errors import ConfigError
from wearjax.models.grud import KINDS


@dataclass(frozen=True)
class Target:
    """A label as the training participants show it.

    Attributes:
        n_classes: classes or levels, the largest training label + 1 and at least 2; 1 for regression.
        weights: binary and multiclass, the weight of each class, n / (n_classes * n of the class); ordinal, that of a
            participant above level k against one who is not, their number over that of the others.
        mean, std: regression, by which labels are standardised.
    """

    kind: str
    n_classes: int = 1
    weights: tuple[float, ...] = ()
    mean: float = 0.0
    std: float = 1.0


def target_of(labels: Float64[np.ndarray, "participant"], kind: str) -> Target:
    """Classes, weights and scale of the training labels; NaN = no label.

    A class that nobody has gets the weight that a single participant would give it, and a label that does not vary
    is only centred. Spread is that of the population.

    Raises:
        ConfigError: an unknown kind, no label, or classes that are not whole numbers from 0 up.
    """
    if kind not in KINDS:
        raise ConfigError(f"kind {kind!r}; expected one of {', '.join(KINDS)}")
    known = np.asarray(labels, np.float64)
    known = known[~np.isnan(known)]
    if not len(known):
        raise ConfigError(f"{kind} label: no training participant has one")
    if kind == "regression":
        std = float(known.std())
        return Target(kind, mean=float(known.mean()), std=std if std > 0 else 1.0)
    if np.any(known < 0) or np.any(known != np.rint(known)):
        raise ConfigError(
            f"{kind} label: expected whole numbers from 0 up, found {known[known != np.rint(known)][:1]}"
        )
    n_classes = max(2, int(known.max()) + 1)
    if kind == "binary" and n_classes > 2:
        raise ConfigError(f"binary label: expected 0 and 1, found {int(known.max())}")
    counts = np.bincount(known.astype(np.int64), minlength=n_classes)
    if kind == "ordinal":
        above = len(known) - np.cumsum(counts)[:-1]
        weights = (len(known) - above) / np.maximum(above, 1)
    else:
        weights = len(known) / (n_classes * np.maximum(counts, 1))
    return Target(kind, n_classes, tuple(weights.tolist()))


def task_losses(
    outputs: Sequence[Float[Array, "B O"]], labels: Float[Array, "B task"], targets: Sequence[Target]
) -> tuple[Float[Array, "task"], Float[Array, "task"]]:
    """Loss of each task over the participants with a label, and how many they are; 0 of none.

    The place of a missing label (NaN) is filled before any arithmetic, so it reaches neither value nor gradient. A
    class beyond those of training counts as missing.
    """
    alike: dict[tuple[str, int], list[int]] = {}
    for place, target in enumerate(targets):
        alike.setdefault((target.kind, target.n_classes), []).append(place)
    found, order = [], []
    for (kind, n_classes), places in alike.items():  # one program for all tasks of a shape
        chosen = [targets[place] for place in places]
        scale = np.array([(target.mean, target.std) for target in chosen], np.float32)
        weights = np.array([target.weights for target in chosen], np.float32)
        one = functools.partial(_LOSSES[kind], n_classes)
        found.append(
            jax.vmap(one)(jnp.stack([outputs[p] for p in places]), labels.T[np.array(places)], weights, scale)
        )
        order += places
    back = np.argsort(order)
    losses, numbers = (jnp.concatenate(column)[back] for column in zip(*found, strict=True))
    return losses, numbers


def loss(
    outputs: Sequence[Float[Array, "B O"]], labels: Float[Array, "B task"], targets: Sequence[Target]
) -> Float[Array, ""]:
    """Mean of `task_losses` over the tasks with a label in the batch; 0 without any."""
    losses, numbers = task_losses(outputs, labels, targets)
    valid = numbers > 0
    return jnp.where(valid, losses, 0.0).sum() / jnp.maximum(valid.sum(), 1)


def _known(labels, highest: float = np.inf):
    known = ~jnp.isnan(labels) & (labels <= highest)
    return jnp.where(known, labels, 0.0), known.astype(jnp.float32)


def _squared(n_classes, outputs, labels, weights, scale):
    labels, known = _known(labels)
    error = jnp.square(outputs[:, 0] - (labels - scale[0]) / scale[1])
    return (error * known).sum() / jnp.maximum(known.sum(), 1.0), known.sum()


def _cumulative(n_classes, outputs, labels, weights, scale):
    labels, known = _known(labels)
    above = (labels[:, None] > np.arange(n_classes - 1)).astype(jnp.float32)
    entropy = above * weights * jax.nn.softplus(-outputs) + (1.0 - above) * jax.nn.softplus(outputs)
    return (entropy.mean(axis=1) * known).sum() / jnp.maximum(known.sum(), 1.0), known.sum()


def _cross_entropy(n_classes, outputs, labels, weights, scale):
    labels, known = _known(labels, highest=n_classes - 1)
    chosen = jax.nn.one_hot(labels.astype(jnp.int32), n_classes)
    weight = known * (chosen @ weights)
    total = weight.sum()
    surprise = -(jax.nn.log_softmax(outputs) * chosen).sum(axis=1)
    return (surprise * weight).sum() / jnp.where(total > 0, total, 1.0), known.sum()


_LOSSES = {
    "binary": _cross_entropy, "multiclass": _cross_entropy, "ordinal": _cumulative, "regression": _squared,
}  # fmt: skip


def read_out(outputs: Float[np.ndarray, "n O"], target: Target) -> Float64[np.ndarray, "n"]:
    """A number a participant: chance of class 1, most likely class, expected level, or value in its own unit."""
    outputs = np.asarray(outputs, np.float64)
    if target.kind == "regression":
        return outputs[:, 0] * target.std + target.mean
    if target.kind == "ordinal":
        return (0.5 * (1.0 + np.tanh(0.5 * outputs))).sum(axis=1)  # sigmoids
    if target.kind == "binary":
        return 0.5 * (1.0 + np.tanh(0.5 * (outputs[:, 1] - outputs[:, 0])))
    return outputs.argmax(axis=1).astype(np.float64)

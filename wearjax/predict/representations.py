"""Vectors of weeks from a trained weekly encoder, and how well they tell participants apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
from flax import nnx
from jaxtyping import Float, Float32, Int64, Shaped

from wearjax.batches import weeks
from wearjax.convert.bundle import Bundle
from wearjax.days.store import Days
from wearjax.errors import ConfigError, MethodError
from wearjax.predict import batched

_ROWS_AT_ONCE = 1024


class WeekEncoder:
    """Weeks of raw hours to the vectors that downstream tasks use, before the projection of pretraining.

    Args:
        bundle: a trained model of kind `wbm`.
        batch_size: weeks a call of the model; the last call is padded, so that it compiles once.
    """

    def __init__(self, bundle: Bundle, *, batch_size: int = 32):
        if bundle.kind != "wbm":
            raise MethodError(f"WeekEncoder: expected a bundle of kind 'wbm', got {bundle.kind!r}")
        if batch_size < 1:
            raise MethodError(f"batch_size: must be at least 1, got {batch_size}")
        self.bundle = bundle
        self.batch_size = batch_size
        graph, self._state = nnx.split(bundle.model)
        self._embed = jax.jit(partial(_embed, graph, bundle.stats))

    def __call__(self, values: Float32[np.ndarray, "week hour 19"]) -> Float32[np.ndarray, "week D"]:
        """One vector a week; NaN = missing, and missing hours are part of the mean.

        Raises:
            MethodError: not weeks of the model's length.
        """
        config = self.bundle.config
        if values.ndim != 3 or values.shape[1:] != (config.hours, config.channels):
            raise MethodError(
                f"WeekEncoder: expected (week, {config.hours}, {config.channels}) hours, got {values.shape}"
            )
        vectors = np.empty((len(values), config.dim), np.float32)
        embed = partial(self._embed, self._state)
        return batched.rows(embed, values, out=vectors, fill=np.nan, batch_size=self.batch_size)


def _embed(graph, stats, state, values):
    return nnx.merge(graph, state).embed(values, stats)


def week_retrieval(
    encoder: WeekEncoder,
    days: Days,
    indices: Int64[np.ndarray, "day"],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """`retrieval_accuracy` of the weeks that can be cut from the given days.

    Raises:
        ConfigError: no week can be cut.
    """
    hours = weeks.hours_of(days, indices, progress=progress)
    values, participants = weeks.weeks_of(days, indices, hours)
    if not len(values):
        raise ConfigError(f"{days.path}: no participant with 5 days within 7 among {len(indices)} days")
    found = retrieval_accuracy(encoder(values), participants)
    if not found["asked"]:
        raise ConfigError(
            f"{days.path}: none of {found['participants']} participants has two weeks to compare"
        )
    return found


def retrieval_accuracy(
    vectors: Float[np.ndarray, "N D"], participants: Shaped[np.ndarray, "N"], *, k: int = 5
) -> dict[str, float]:
    """How often the nearest other week (by cosine) is one of the same participant.

    Only weeks whose participant has another one are asked; the others stay among the answers and are counted.

    Returns:
        `top1`: share of asked weeks whose nearest other week is of the same participant; `recall_at_k`: share with
        any such week among the k nearest, `k`; `chance`: what `top1` would be for random answers, the mean of
        (weeks of the participant - 1) / (N - 1); `weeks`, `asked`, `participants`: counts. The three shares are NaN
        if no week can be asked.

    Raises:
        ConfigError: not one participant a vector, vectors that are not finite, or k below 1.
    """
    vectors, participants = np.asarray(vectors, np.float64), np.asarray(participants)
    if vectors.ndim != 2 or participants.shape != vectors.shape[:1]:
        raise ConfigError(f"{participants.shape} participants for vectors {vectors.shape}: expected one each")
    if not np.isfinite(vectors).all():
        raise ConfigError("vectors: must be finite")
    if k < 1:
        raise ConfigError(f"k must be at least 1, got {k}")
    _, owner = np.unique(participants, return_inverse=True)
    own = np.bincount(owner)[owner] if len(owner) else np.empty(0, np.int64)
    asked = np.flatnonzero(own > 1)
    counts = {"weeks": len(owner), "asked": len(asked), "participants": len(np.unique(owner)), "k": k}
    if not len(asked):
        return {"top1": np.nan, "recall_at_k": np.nan, "chance": np.nan, **counts}
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1.0)
    rank = np.concatenate([_rank_of_same(unit, owner, rows) for rows in _blocks(asked)])
    return {
        "top1": float((rank < 1).mean()),
        "recall_at_k": float((rank < k).mean()),
        "chance": float(((own[asked] - 1) / (len(owner) - 1)).mean()),
        **counts,
    }


def _blocks(rows):
    return np.split(rows, range(_ROWS_AT_ONCE, len(rows), _ROWS_AT_ONCE))


def _rank_of_same(unit, owner, rows):
    """How many weeks of others are at least as near as the nearest of the same participant (ties count against)."""
    cosine = unit @ unit[rows].T  # (N, rows)
    same = owner[:, None] == owner[rows]
    others = np.where(same, -np.inf, cosine)
    cosine[rows, np.arange(len(rows))] = -np.inf
    best = np.where(same, cosine, -np.inf).max(axis=0)
    return (others >= best).sum(axis=0)

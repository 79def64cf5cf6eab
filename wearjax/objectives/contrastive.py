"""Contrastive pretraining of the weekly encoder: InfoNCE between two views of a week, and KoLeo.

Two views of a week differ in the hours that are left out of its mean (and in dropout); the loss asks each view to
find its partner among the weeks of other participants (van den Oord et al. 2018). KoLeo keeps the vectors apart
(Sablayrolles et al. 2019). Settings are those of the OpenMHC paper, weekly encoder section.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32

from wearjax.layers import dropout
from wearjax.models import wbm

if TYPE_CHECKING:
    from wearjax.days.normalization import NormalizationStats

KOLEO_EPSILON = 1e-8  # inside the logarithm; the paper does not give its own
FAR_BELOW = np.float32(-1e30)  # stands in for -inf, whose difference with itself would be NaN


def candidates(
    rows: Int32[Array, "B"], own: Int32[Array, "B"], everyone: Int32[Array, "A"]
) -> Bool[Array, "B A"]:
    """Whom each anchor is compared with: its own partner view, and the weeks of other participants.

    Args:
        rows: place of each anchor in the global batch.
        own, everyone: participants of the anchors and of the global batch.
    """
    is_partner = rows[:, None] == jnp.arange(everyone.shape[0])
    return is_partner | (own[:, None] != everyone)


def info_nce(
    similarity: Float[Array, "B A"], partner: Int32[Array, "B"], allowed: Bool[Array, "B A"]
) -> tuple[Float[Array, "B"], Bool[Array, "B"]]:
    """-log softmax of the partner's similarity among the allowed ones; and whether the partner is the nearest.

    A tie does not count as found, so a model that maps all weeks to one vector finds none.
    """
    similarity = jnp.where(allowed, similarity, FAR_BELOW)
    of_partner = jnp.take_along_axis(similarity, partner[:, None], axis=1)
    is_partner = partner[:, None] == jnp.arange(similarity.shape[1])
    best_other = jnp.where(is_partner, FAR_BELOW, similarity).max(axis=1)
    loss = jax.nn.logsumexp(similarity, axis=1) - of_partner[:, 0]
    return loss, of_partner[:, 0] > best_other


def koleo(
    own: Float[Array, "B E"], rows: Int32[Array, "B"], everyone: Float[Array, "A E"]
) -> Float[Array, "B"]:
    """-log of the squared distance from each vector to its nearest other; zero where there is no other.

    The neighbour is found by products, the distance taken as a difference: `2 - 2 h·h'` has no digits left for
    near ones.
    """
    if everyone.shape[0] < 2:
        return jnp.zeros(own.shape[0])
    itself = rows[:, None] == jnp.arange(everyone.shape[0])
    nearest = jnp.where(itself, FAR_BELOW, jax.lax.stop_gradient(own @ everyone.T)).argmax(axis=1)
    return -jnp.log(jnp.square(own - everyone[nearest]).sum(axis=1) + KOLEO_EPSILON)


@dataclass(frozen=True, eq=False)
class WeekContrast:
    """Loss of a WBM on a batch of weeks; token-drop rate, temperature and KoLeo weight are fields of its config.

    Attributes:
        stats: hourly training statistics of the continuous channels.
        axis_name: mapped axis of data-parallel devices under `pmap` or `shard_map`; vectors are then compared with
            those of all devices, and loss and metrics are those of the global batch. None under plain `jit`.
    """

    stats: NormalizationStats
    axis_name: str | None = None

    def __call__(
        self, model: wbm.WBM, batch: Mapping[str, jax.Array], *, key: jax.Array, train: bool
    ) -> tuple[Float[Array, ""], dict[str, Float[Array, ""]]]:
        """Loss and metrics.

        Args:
            batch: `values` float32 (B, 168, 19), raw hours, NaN = missing, and `participant` (B,); weeks of one
                participant are never each other's negatives. Other entries are ignored.
            key: source of the views and, if `train`, of dropout. The draw of an example depends on the key and
                on its place in the global batch only.

        Returns: the loss, and `loss_infonce`, `loss_koleo` (not weighted), `top1` (share of views whose partner is
            the nearest of the allowed).
        """
        values, participant = batch["values"], jnp.asarray(batch["participant"])
        rows = self._rows(values.shape[0])
        tokens = wbm.tokens_of(values, self.stats)
        views = tuple(model.project(r) for r in self._views(model, tokens, key, rows, train))
        everyone, participants = self._gathered(views), self._gathered(participant)
        allowed = candidates(rows, participant, participants)
        sums = {"infonce": jnp.float32(0), "koleo": jnp.float32(0), "top1": jnp.float32(0)}
        for view, same_side, other_side in ((views[0], *everyone), (views[1], *everyone[::-1])):
            loss, found = info_nce(view @ other_side.T / model.config.temperature, rows, allowed)
            sums["infonce"] += loss.sum()
            sums["koleo"] += koleo(view, rows, same_side).sum()
            sums["top1"] += found.sum()
        if self.axis_name is not None:
            sums = jax.lax.psum(sums, self.axis_name)
        means = {name: total / (2 * participants.shape[0]) for name, total in sums.items()}
        metrics = {"loss_infonce": means["infonce"], "loss_koleo": means["koleo"], "top1": means["top1"]}
        loss = means["infonce"] + model.config.koleo_weight * means["koleo"]
        return loss, jax.lax.stop_gradient(metrics)

    def _rows(self, batch_size: int) -> Int32[Array, "B"]:
        """Place of each example in the global batch."""
        first = 0 if self.axis_name is None else jax.lax.axis_index(self.axis_name) * batch_size
        return first + jnp.arange(batch_size)

    def _gathered(self, x):
        """The examples of all devices, in the order of the global batch."""
        if self.axis_name is None:
            return x
        return jax.tree.map(lambda v: jax.lax.all_gather(v, self.axis_name, tiled=True), x)

    def _views(self, model, tokens, key, rows, train):
        """Means over the kept hours in two independent draws.

        Only dropout makes the encodings of the two views differ; without it the weeks are encoded once.
        """
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(rows)
        hours_key, *dropout_keys = jnp.unstack(jax.vmap(lambda k: jax.random.split(k, 3))(keys), axis=1)
        batch, length = tokens.shape[:2]
        words = dropout.draw_words(hours_key, 2 * length).reshape(batch, 2, length)
        keep = words >= dropout.threshold(model.config.token_drop)
        if train and model.config.dropout > 0.0:
            encoded = jnp.split(model.contextual(tokens, keys=jnp.concatenate(dropout_keys)), 2)
        else:
            encoded = [model.contextual(tokens)] * 2
        return [wbm.pool(z, keep[:, i]) for i, z in enumerate(encoded)]

"""The participant bootstrap: one shared draw matrix, and means of precomputed statistics by matrix products.

A mean over resampled participants is a product with the matrix of how often each was drawn, so no draw ever
visits the data again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from wearjax.scores import intervals


def derived_seed(seed: int, tag: str) -> int:
    """Seed of one benchmark's draws: the first 31 bits, after the sign bit, of SHA-256 of `"seed|tag"`."""
    digest = hashlib.sha256(f"{seed}|{tag}".encode("ascii")).digest()
    return int.from_bytes(digest[:4], "big") & 0x7FFFFFFF


def resample_matrix(seed: int, n_participants: int, n_draws: int) -> Int[np.ndarray, "draw participant"]:
    """Row b holds the participants of draw b, as positions."""
    generator = np.random.default_rng(seed)
    return generator.integers(0, n_participants, size=(n_draws, n_participants), dtype=np.int64)


def multiplicities(draws: Int[np.ndarray, "draw participant"]) -> Float[np.ndarray, "draw participant"]:
    """How often each participant occurs in each draw."""
    n_draws, n = draws.shape
    flat = (draws + n * np.arange(n_draws)[:, None]).ravel()
    return np.bincount(flat, minlength=n_draws * n).reshape(n_draws, n).astype(np.float64)


def weighted_means(
    counts: Float[np.ndarray, "draw participant"], values: Float[np.ndarray, "*rest participant"]
) -> Float[np.ndarray, "draw ..."]:
    """Mean over participants for each row of counts, NaN ignored; NaN where nobody drawn has a value."""
    rest = values.shape[:-1]
    columns = values.reshape(-1, values.shape[-1])
    finite = np.isfinite(columns)
    out = np.full((len(counts), len(columns)), np.nan)
    used = np.flatnonzero(finite.any(axis=1))  # statistics that nobody has stay NaN
    if len(used):
        finite, columns = finite[used], columns[used]
        rows = np.flatnonzero(finite.any(axis=0))  # a subgroup concerns few participants
        finite, columns, counts = finite[:, rows], columns[:, rows], counts[:, rows]
        total = counts @ np.where(finite, columns, 0.0).T
        patterns, pattern = np.unique(np.packbits(finite, axis=1), axis=0, return_inverse=True)
        members = np.unpackbits(patterns, axis=1, count=len(rows)).astype(np.float64)
        weight = (counts @ members.T)[:, pattern.ravel()]  # methods share who has a value: few products
        out[:, used] = np.divide(total, weight, out=np.full(total.shape, np.nan), where=weight > 0)
    return out.reshape(len(counts), *rest)


def leave_one_out_means(
    values: Float[np.ndarray, "*rest participant"],
) -> Float[np.ndarray, "participant ..."]:
    """Mean over the others, for each participant left out, NaN ignored.

    Sums of those before plus those after, not total minus own: equal values stay exactly equal.
    """
    finite = np.isfinite(values)
    filled = np.where(finite, values, 0.0)
    before = np.zeros(values.shape)
    after = np.zeros(values.shape)
    np.cumsum(filled[..., :-1], axis=-1, out=before[..., 1:])
    after[..., :-1] = np.cumsum(filled[..., :0:-1], axis=-1)[..., ::-1]
    count = finite.sum(axis=-1, keepdims=True) - finite
    mean = np.divide(before + after, count, out=np.full(values.shape, np.nan), where=count > 0)
    return np.moveaxis(mean, -1, 0)


@dataclass(frozen=True, eq=False)
class Summary:
    """Mean, standard error, percentile interval and number of finite draws of each statistic."""

    mean: Float[np.ndarray, "*rest"]
    se: Float[np.ndarray, "*rest"]
    low: Float[np.ndarray, "*rest"]
    high: Float[np.ndarray, "*rest"]
    n: Int[np.ndarray, "*rest"]


def summarise(draws: Float[np.ndarray, "draw ..."], *, level: float = intervals.LEVEL) -> Summary:
    """Percentile summary along the first axis; draws that are not finite are left out."""
    rest = draws.shape[1:]
    columns = draws.reshape(len(draws), -1)
    finite = np.isfinite(columns)
    out = np.full((4, columns.shape[1]), np.nan)
    n = finite.sum(axis=0)
    whole = n == len(columns)
    if whole.any() and len(columns):
        out[:, whole] = _moments(columns[:, whole], level)
    for i in np.flatnonzero(~whole & (n > 0)):
        out[:, i] = _moments(columns[finite[:, i], i], level)
    mean, se, low, high = (row.reshape(rest) for row in out)
    return Summary(mean, se, low, high, n.reshape(rest))


def _moments(draws: np.ndarray, level: float) -> tuple:
    low, high = np.percentile(draws, intervals.percents(level), axis=0)
    # One draw has no spread; the reference reports zero.
    spread = draws.std(axis=0, ddof=1) if len(draws) > 1 else np.zeros(draws.shape[1:])
    return draws.mean(axis=0), spread, low, high

"""The transform against a plain restatement, against the library whose numbers it gives, and its draws."""

from __future__ import annotations

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wearjax.errors import ConfigError
from wearjax.models import multirocket

SMALL = multirocket.MultiRocketConfig(n_kernels=84 * 3, max_dilations=4, seed=3)
LENGTH = 18  # the shortest with two dilations of both representations


def made_days(n=6, channels=4, length=LENGTH, seed=0):
    """Days on a grid of 1/64, where sums are exact in any order; some channels are flat, some days silent."""
    rng = np.random.default_rng(seed)
    days = np.round(rng.normal(size=(n, channels, length)) * 64) / 64
    days[:, -1] = np.where(rng.random((n, 1)) < 0.5, 0.0, -0.25)
    days[rng.random((n, channels)) < 0.2] = 0.0
    return days.astype(np.float32)


def fitted(days, config=SMALL):
    return multirocket.fit(lambda rows: days[rows], len(days), shape=days.shape[1:], config=config)


def plain_convolution(series, raised, dilation, before_too_near=0):
    """One channel, tap by tap."""
    out = []
    for t in range(len(series)):
        value = 0.0
        for tap in range(9):
            at = t + (tap - 4) * dilation + (before_too_near if tap < 4 else 0)
            if 0 <= at < len(series):
                value += (2.0 if tap in raised else -1.0) * float(series[at])
        out.append(value)
    return out


def plain_pooling(values, bias):
    positive = [i for i, v in enumerate(values) if v > bias]
    below = [i for i, v in enumerate(values) if v < bias]
    marks = [0, *below]
    stretches = [b - a for a, b in itertools.pairwise(marks)] + [len(values) - 1 - marks[-1]]
    return (
        len(positive) / len(values),
        max(stretches),
        sum(values[i] + bias for i in positive) / len(positive) if positive else 0.0,
        sum(positive) / len(positive) if positive else -1.0,
    )


def plain_transform(day, kernels):
    """The features of one day, in the order of the published library."""
    features = []
    n_channels = len(day)
    for order in (0, 1):
        series = np.diff(day.astype(np.float64), order)
        pooled, biases, combination = [], iter(kernels.biases[order]), 0
        for number, (dilation, count) in enumerate(
            zip(kernels.dilations[order], kernels.counts[order], strict=True)
        ):
            for kernel, raised in enumerate(itertools.combinations(range(9), 3)):
                channels = [c for c in kernels.subsets[0 if order else combination] if c < n_channels]
                parts = [plain_convolution(series[c], raised, dilation, order) for c in channels]
                values = [sum(column) for column in zip(*parts, strict=True)]
                if (number + kernel) % 2:
                    values = values[4 * dilation : -4 * dilation]
                pooled += [plain_pooling(values, float(next(biases))) for _ in range(count)]
                combination += 1
        features += [p[i] for i in range(4) for p in pooled]
    return features


def test_features_are_the_plain_loops():
    days = made_days()
    kernels = fitted(days)
    assert kernels.dilations == ((1, 2), (1, 2))
    found = np.asarray(multirocket.Transform(kernels)(days[:2]))
    assert found.shape == (2, kernels.n_features) == (2, 2 * 4 * 84 * 3)
    wanted = np.array([plain_transform(day, kernels) for day in days[:2]])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    assert np.mean(found[0] != found[1]) > 0.5


def test_thresholds_are_quantiles_of_a_drawn_day():
    days = made_days(seed=1)
    kernels = fitted(days)
    rng = np.random.RandomState(SMALL.seed)
    drawn = [rng.randint(len(days)) for _ in range(2 * 84)]
    ratio = (math.sqrt(5) + 1) / 2
    for order in (0, 1):
        taken, combination = 0, 0
        for dilation, count in zip(kernels.dilations[order], kernels.counts[order], strict=True):
            for raised in itertools.combinations(range(9), 3):
                series = np.diff(days[drawn[combination]].astype(np.float64), order)
                channels = [c for c in kernels.subsets[combination] if c < days.shape[1]]
                values = np.sum([plain_convolution(series[c], raised, dilation) for c in channels], axis=0)
                levels = [np.float32((i + 1) * ratio % 1) for i in range(taken, taken + count)]
                np.testing.assert_allclose(
                    kernels.biases[order][taken : taken + count],
                    np.quantile(values, levels),
                    rtol=1e-5,
                    atol=1e-5,
                )
                taken, combination = taken + count, combination + 1
        assert taken == len(kernels.biases[order]) == 84 * 3


def test_sizes_of_the_published_transform():
    config = multirocket.MultiRocketConfig()
    assert multirocket.dilations_of(24, config) == ((1, 2), (49, 25))
    assert multirocket.dilations_of(23, config) == ((1, 2), (51, 23))
    assert sum((49, 25)) * 84 == 6216
    # numpy.random.RandomState(42), as the reference seeds itself
    subsets = multirocket.draw_subsets(19, 168, 42)
    assert (subsets < 19).sum(axis=1)[:5].tolist() == [2, 8, 5, 3, 1]
    assert subsets[0, :3].tolist() == [5, 11, 19]
    assert all(len(set(row[row < 19])) == (row < 19).sum() for row in subsets)
    assert (subsets < 19).sum(axis=1).max() <= 9
    assert multirocket.draw_days(300, 3, 42).tolist() == [102, 270, 106]


@pytest.mark.parametrize("early", [0, 1])
def test_thresholds_and_features_round_alike(early):
    """Thresholds are taken in NumPy and applied in JAX: a flat series must meet its own threshold exactly."""
    rng = np.random.default_rng(0)
    series = np.concatenate([rng.normal(size=(3, 18, 2)), np.full((2, 18, 2), 0.1)]).astype(np.float32)
    subset, triple = np.array([4, 0, 2, 3, 5]), np.array([1, 4, 8])

    def response(xp, x):
        return multirocket._response(*multirocket._copies(xp, x, 2, early), subset, triple)

    plain, compiled = response(np, series), np.asarray(jax.jit(functools.partial(response, jnp))(series))
    np.testing.assert_array_equal(plain, compiled)
    exact = [plain_convolution(series[c, :, 0], triple, 2, early) for c in subset[:-1]]
    np.testing.assert_allclose(plain[:, 0], np.sum(exact, axis=0), rtol=1e-5, atol=1e-5)


def test_sums_by_owner():
    days = made_days(n=7, length=10, seed=2)
    transform = multirocket.Transform(fitted(days))
    assert transform.kernels.dilations == ((1,), (1,))
    each = np.asarray(transform(days), np.float64)
    owners = np.array([1, 0, 1, -1, 2, 0, 3])
    found = np.asarray(transform.sums(days, owners, 3))
    wanted = np.stack([each[owners == owner].sum(axis=0) for owner in range(3)])
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_seeds_and_digests():
    days = made_days()
    same, again = fitted(days), fitted(days)
    other = fitted(days, multirocket.MultiRocketConfig(n_kernels=84 * 3, max_dilations=4, seed=4))
    assert same.digest() == again.digest() != other.digest()
    read = []
    multirocket.fit(
        lambda rows: read.append(rows) or np.zeros((len(rows), 4, LENGTH)),
        9999,
        shape=(4, LENGTH),
        config=SMALL,
    )
    assert max(map(len, read)) <= 168


def test_impossible_sizes():
    with pytest.raises(ConfigError, match="n_kernels: must be at least 84"):
        multirocket.MultiRocketConfig(n_kernels=10)
    with pytest.raises(ConfigError, match="10 to 1023 steps"):
        multirocket.fit(lambda rows: rows, 3, shape=(2, 9))
    days = made_days(n=1)
    with pytest.raises(ConfigError, match=r"expected \(B, \*\(4, 18\)\) series"):
        multirocket.Transform(fitted(days))(days[:, :3])


def test_is_the_transform_of_sktime():
    """With the library's own fitted parameters, and with ours; on a grid where sums are exact in any order."""
    rocket = pytest.importorskip("sktime.transformations.rocket")
    pytest.importorskip("numba")
    days = made_days(n=20, channels=19, length=24, seed=5)
    theirs = rocket.MultiRocketMultivariate(num_kernels=6250, random_state=42)
    theirs.fit(days.astype(np.float64))
    wanted = np.asarray(theirs.transform(days.astype(np.float64)))
    ours = fitted(days, multirocket.MultiRocketConfig())
    sizes, channels, dilations, counts, biases = theirs.parameter
    subsets = np.full((len(sizes), 9), 19)
    for row, start, size in zip(subsets, np.cumsum(sizes) - sizes, sizes, strict=True):
        row[:size] = channels[start : start + size]
    given = multirocket.Kernels(
        (19, 24), (tuple(dilations), tuple(theirs.parameter1[2])), (tuple(counts), tuple(theirs.parameter1[3])),
        subsets, (biases, theirs.parameter1[4]),
    )  # fmt: skip
    np.testing.assert_array_equal(ours.subsets, subsets)
    for order in (0, 1):
        np.testing.assert_allclose(ours.biases[order], given.biases[order], rtol=1e-5, atol=1e-5)
    for kernels in (given, ours):
        found = np.asarray(multirocket.Transform(kernels)(days))
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)

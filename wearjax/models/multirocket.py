"""MultiRocket: random convolutions of days, pooled four ways; nothing is learnt but thresholds.

Tan, Dempster, Bergmeir & Webb 2022 (MultiRocket) with the kernels of MiniRocket (Dempster, Schmidt & Webb 2021), in
the multivariate form of the sktime library (1.0.1), whose numbers OpenMHC's are. It departs from the papers thrice:
the mean of positive values adds the threshold instead of subtracting it; the convolutions of first differences have
the taps before the middle one step too near, and add the channels of the first combination whatever their own;
and the longest stretch is the largest distance of two values below the threshold, or of one to either end.

All 84 kernels have nine taps of weight -1, of which three are raised to 2. A convolution is therefore the negative
sum of nine shifted copies of the series plus three of them times three, and only additions are needed. Their order
is fixed and the same when thresholds are taken and when they are applied: on flat series (a flag that is never set)
a threshold equals the convolution exactly, and another rounding would turn features over.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Int64

from wearjax.errors import ConfigError

TAPS = 9
MIDDLE = TAPS // 2
TRIPLES = np.array(list(itertools.combinations(range(TAPS), 3)))  # the raised taps of each kernel
N_TRIPLES = len(TRIPLES)
MIN_LENGTH = 10
_COUNT_BITS = 10
MAX_LENGTH = (1 << _COUNT_BITS) - 1  # counts of values are packed beside the sums of their indices
POOLINGS = 4  # share of positive values, longest stretch, mean of positive values, mean of their indices
GOLDEN_RATIO = (np.sqrt(5) + 1) / 2


@dataclass(frozen=True)
class MultiRocketConfig:
    """Size of the transform; the defaults are OpenMHC's (49,728 features of days of 24 hours).

    Attributes:
        n_kernels: pairs of convolution and threshold a representation, rounded down to a multiple of 84.
        max_dilations: most dilations; fewer are left where they coincide.
        seed: of channel subsets and of the days that set the thresholds.
    """

    n_kernels: int = 6250
    max_dilations: int = 32
    seed: int = 42

    def __post_init__(self):
        if self.n_kernels < N_TRIPLES:
            raise ConfigError(f"n_kernels: must be at least {N_TRIPLES}, got {self.n_kernels}")
        if self.max_dilations < 1:
            raise ConfigError(f"max_dilations: must be at least 1, got {self.max_dilations}")


@dataclass(frozen=True, eq=False)
class Kernels:
    """A fitted transform.

    Pairs are of the series and of its first differences. Combinations run over dilations, and within a dilation over
    the 84 kernels; thresholds over combinations, and within a combination over its own.

    Attributes:
        shape: channels and steps of a series.
        dilations: distances of the taps.
        counts: thresholds a combination, of each dilation.
        subsets: channels whose convolutions a combination adds up, filled with the number of channels.
        biases: the thresholds.
    """

    shape: tuple[int, int]
    dilations: tuple[tuple[int, ...], tuple[int, ...]]
    counts: tuple[tuple[int, ...], tuple[int, ...]]
    subsets: Int64[np.ndarray, "combination slot"]
    biases: tuple[Float32[np.ndarray, "threshold"], Float32[np.ndarray, "threshold"]]

    @property
    def n_features(self) -> int:
        return POOLINGS * sum(map(len, self.biases))

    def digest(self) -> str:
        """Names the transform: equal digests give equal features."""
        found = hashlib.sha256(repr((self.shape, self.dilations, self.counts)).encode())
        for array in (self.subsets, *self.biases):
            found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()[:24]


def dilations_of(length: int, config: MultiRocketConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dilations of a series, and how many thresholds a kernel has at each.

    Exponents are spaced evenly up to log2((length - 1) / 8), and dilations are whole; one that comes up n times
    gets n shares of the thresholds, and what rounding leaves is dealt out from the first on.
    """
    per_kernel = config.n_kernels // N_TRIPLES
    n_exponents = min(per_kernel, config.max_dilations)
    exponents = np.linspace(0, np.log2((length - 1) / (TAPS - 1)), n_exponents)
    dilations, times = np.unique((2**exponents).astype(np.int64), return_counts=True)
    counts = (times * (per_kernel / n_exponents)).astype(np.int64)
    for i in range(per_kernel - counts.sum()):
        counts[i % len(counts)] += 1
    return tuple(dilations.tolist()), tuple(counts.tolist())


def quantiles(n: int) -> Float32[np.ndarray, "n"]:
    """Quantiles at which thresholds are taken: multiples of the golden ratio, modulo 1."""
    return (np.arange(1, n + 1) * GOLDEN_RATIO % 1).astype(np.float32)


def draw_subsets(n_channels: int, n_combinations: int, seed: int) -> Int64[np.ndarray, "combination slot"]:
    """Channels of each combination: 2^u of them, u uniform up to log2 of one more than the most, which is nine.

    From the legacy generator of NumPy, as the reference draws them.
    """
    most = min(n_channels, TAPS)
    rng = np.random.RandomState(seed)
    sizes = (2 ** rng.uniform(0, np.log2(most + 1), n_combinations)).astype(np.int64)
    subsets = np.full((n_combinations, most), n_channels, np.int64)
    for row, size in zip(subsets, sizes, strict=True):
        row[:size] = rng.choice(n_channels, size, replace=False)
    return subsets


def draw_days(n_days: int, n_combinations: int, seed: int) -> Int64[np.ndarray, "combination"]:
    """The training day that sets the thresholds of each combination, from the reference's stream again."""
    rng = np.random.RandomState(seed)
    return np.array([rng.randint(n_days) for _ in range(n_combinations)], np.int64)


def fit(
    read: Callable[[Int64[np.ndarray, "row"]], Float[np.ndarray, "row channel time"]],
    n_days: int,
    *,
    shape: tuple[int, int],
    config: MultiRocketConfig | None = None,
) -> Kernels:
    """Draws channel subsets, and takes the thresholds from random training days.

    Only as many days are read as there are combinations (168 for days of 24 hours). The same days in the same
    order give the reference's kernels, up to the rounding of thresholds.

    Args:
        read: days by their numbers from 0 to `n_days` - 1, without NaN.
        shape: channels and steps of a day.

    Raises:
        ConfigError: no day, or days that are not of 10 to 1023 steps.
    """
    config = config or MultiRocketConfig()
    n_channels, length = shape
    if n_days < 1 or n_channels < 1 or not MIN_LENGTH <= length <= MAX_LENGTH:
        raise ConfigError(
            f"MultiRocket: {n_days} days of shape {shape}; "
            f"at least one, of {MIN_LENGTH} to {MAX_LENGTH} steps, is needed"
        )
    dilations, counts = zip(*(dilations_of(length - order, config) for order in (0, 1)), strict=True)
    subsets, biases = [], []
    for order in (0, 1):
        # Seeded anew for each representation: with as many dilations both get the same subsets and days.
        n_combinations = N_TRIPLES * len(dilations[order])
        subsets.append(draw_subsets(n_channels, n_combinations, config.seed))
        which, place = np.unique(draw_days(n_days, n_combinations, config.seed), return_inverse=True)
        series = np.diff(np.asarray(read(which), np.float32), order)[place]
        biases.append(_thresholds(series, dilations[order], counts[order], subsets[order]))
    return Kernels((n_channels, length), dilations, counts, subsets[0], (biases[0], biases[1]))


def _thresholds(series, dilations, counts, subsets) -> Float32[np.ndarray, "threshold"]:
    levels = quantiles(N_TRIPLES * sum(counts))
    found, taken = [], 0
    for number, (dilation, count) in enumerate(zip(dilations, counts, strict=True)):
        for kernel, triple in enumerate(TRIPLES):
            combination = number * N_TRIPLES + kernel
            lowered, raised = _copies(np, series[combination][..., None], dilation)
            response = _response(lowered, raised, subsets[combination], triple).ravel().astype(np.float64)
            found.append(np.quantile(response, levels[taken : taken + count]))
            taken += count
    return np.concatenate(found).astype(np.float32)


def _copies(xp: ModuleType, x, dilation: int, early: int = 0):
    """Per channel, minus the sum of the nine shifted copies, and each of them times three.

    Args:
        xp: NumPy or jax.numpy; the same additions in the same order either way.
        x: `(channel, time, series)`, of which zeros continue both ends; a silent channel is appended.
        early: by how much the taps before the middle are too near.
    """
    x = xp.concatenate([x, xp.zeros_like(x[:1])])
    shifts = [(tap - MIDDLE) * dilation + early * (tap < MIDDLE) for tap in range(TAPS)]
    tripled, lowered = x + x + x, -x
    for tap, shift in enumerate(shifts):
        if tap != MIDDLE:
            lowered = lowered + _shifted(xp, -x, shift)
    return lowered, xp.stack([_shifted(xp, tripled, shift) for shift in shifts])


def _shifted(xp: ModuleType, x, shift: int):
    """x at t + shift, zero outside; time is the last axis but one."""
    before, after = max(-shift, 0), max(shift, 0)
    padded = xp.pad(x, [(0, 0), (before, after), (0, 0)])
    return padded[:, after : after + x.shape[1]]


def _response(lowered, raised, subset, triple):
    """The convolution of one kernel, summed over its channels: `(time, series)`."""
    first, second, third = (raised[triple[i]][subset] for i in range(3))
    by_channel = lowered[subset] + first + second + third
    total = by_channel[0]
    for slot in range(1, len(subset)):
        total = total + by_channel[slot]
    return total


class Transform:
    """Features of series: for each representation [share of positive values, longest stretch, mean of positive values,
    mean of their indices], each of all thresholds in their order.

    Positive is above the threshold. Without a positive value the two means are 0 and -1. Kernels pass alternately
    over the series continued by zeros, and over its inner part only, where no tap falls outside.

    Compiles once for each number of series.
    """

    def __init__(self, kernels: Kernels):
        self.kernels = kernels
        groups, self._arrays = _groups(kernels)
        self._days = jax.jit(lambda arrays, x: _features(groups, arrays, x, lambda part: part).T)
        self._sums = jax.jit(functools.partial(_sums, groups), static_argnames="n_owners")

    def __call__(self, series: Float[np.ndarray, "B channel time"]) -> Float32[Array, "B feature"]:
        """Raises ConfigError when the series have another shape than those of the fit."""
        return self._days(self._arrays, self._checked(series))

    def sums(
        self, series: Float[np.ndarray, "B channel time"], owners: Int[np.ndarray, "B"], n_owners: int
    ) -> Float32[Array, "owner feature"]:
        """Features added up over the series of each owner; those of others than 0 to `n_owners` - 1 are left out."""
        return self._sums(self._arrays, self._checked(series), jnp.asarray(owners), n_owners=n_owners)

    def _checked(self, series) -> Float32[Array, "B channel time"]:
        if series.ndim != 3 or series.shape[1:] != self.kernels.shape:
            raise ConfigError(f"MultiRocket: expected (B, *{self.kernels.shape}) series, got {series.shape}")
        return jnp.asarray(series, jnp.float32)


@dataclass(frozen=True)
class _Group:
    """Kernels of one representation and dilation, in pairs of neighbours: one padded, one not."""

    order: int  # of the difference
    dilation: int
    inner_first: bool


def _groups(kernels: Kernels) -> tuple[tuple[_Group, ...], list[Any]]:
    """The groups in the order of the features, and subsets and thresholds of the two halves of each."""
    groups, arrays = [], []
    for order, (dilations, counts) in enumerate(zip(kernels.dilations, kernels.counts, strict=True)):
        taken = 0
        for number, (dilation, count) in enumerate(zip(dilations, counts, strict=True)):
            combinations = np.arange(N_TRIPLES) + number * N_TRIPLES
            subsets = kernels.subsets[combinations if order == 0 else np.zeros_like(combinations)]
            used = (subsets < kernels.shape[0]).sum(axis=1).max()
            biases = kernels.biases[order][taken : taken + N_TRIPLES * count].reshape(N_TRIPLES, count)
            taken += biases.size
            groups.append(_Group(order, dilation, number % 2 == 1))
            arrays.append([(subsets[i::2, :used], TRIPLES[i::2], biases[i::2]) for i in (0, 1)])
    return tuple(groups), arrays


def _sums(groups, arrays, series, owners, *, n_owners: int):
    belongs = jax.nn.one_hot(owners, n_owners, dtype=jnp.float32)
    return _features(groups, arrays, series, lambda part: jnp.dot(part, belongs, precision="highest")).T


def _features(
    groups: tuple[_Group, ...],
    arrays: list[Any],
    series: Float[Array, "B C T"],
    reduce: Callable[[Float[Array, "part B"]], Float[Array, "part R"]],
) -> Float[Array, "feature R"]:
    """Features in their order, reduced over the series in parts that are never joined."""
    by_order: tuple[list, list] = ([], [])
    x = jnp.moveaxis(series, 0, -1)  # series last: they fill the lanes of a vector unit
    for group, halves in zip(groups, arrays, strict=True):
        sequence = x[:, 1:] - x[:, :-1] if group.order else x
        lowered, raised = _copies(jnp, sequence, group.dilation, early=group.order)
        edge = MIDDLE * group.dilation
        pooled = []
        for half, (subsets, triples, biases) in enumerate(halves):
            part = slice(edge, -edge) if (half == 1) != group.inner_first else slice(None)
            low, high = lowered[:, part], raised[:, :, part]
            # Two loops: in one, the compiler would repeat the convolution for every threshold.
            responses = jax.lax.map(lambda each, a=low, b=high: _response(a, b, *each), (subsets, triples))
            counted = jax.lax.map(lambda each: _count(*each), (responses, biases))
            parts = _poolings(*counted, length=responses.shape[1])
            pooled.append([reduce(p.reshape(-1, p.shape[-1])).reshape(*biases.shape, -1) for p in parts])
        # Kernels in their order again.
        both = [jnp.stack(pair, axis=1) for pair in zip(*pooled, strict=True)]
        by_order[group.order].append([p.reshape(-1, p.shape[-1]) for p in both])
    return jnp.concatenate([parts[i] for order in by_order for i in range(POOLINGS) for parts in order])


def _count(response: Float[Array, "T B"], biases: Float[Array, "F"]):
    """Of one convolution at each of its thresholds: how many values are positive and the sum of their indices, in one
    integer; their sum with the threshold added; the longest stretch."""
    bias, shape = biases[:, None], (len(biases), response.shape[1])
    counted, total = jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32)
    stretch, longest = jnp.zeros(shape, jnp.float32), jnp.zeros(shape, jnp.float32)
    for index in range(len(response)):
        value = response[index]
        positive = value > bias
        counted = counted + jnp.where(positive, np.int32(1 + (index << _COUNT_BITS)), np.int32(0))
        total = total + jnp.where(positive, value + bias, 0.0)
        longest = jnp.maximum(longest, stretch)
        stretch = jnp.where(value < bias, 1.0, stretch + 1.0)
    return counted, total, jnp.maximum(longest, stretch - 1.0)


def _poolings(counted, total, longest, *, length: int) -> tuple[Float[Array, "F B"], ...]:
    number = (counted & MAX_LENGTH).astype(jnp.float32)
    indices = (counted >> _COUNT_BITS).astype(jnp.float32)
    divisor = jnp.maximum(number, 1.0)
    return number / length, longest, total / divisor, jnp.where(number == 0, -1.0, indices / divisor)

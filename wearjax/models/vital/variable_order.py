"""The order in which MambaTS processes the channels: costs of transitions, and the cheapest path through all of them.

Variable permutation training (Cai et al. 2024, section 3.4) credits each sample's loss, against the mean of its
batch, to the transitions of its random order. Evaluation solves the open asymmetric travelling-salesman path over
the mean costs by simulated annealing.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.errors import ConfigError

COOLING = 0.98
ROUNDS = 140  # temperatures; the last is 6 % of the first
LOWEST = 1e-7  # of the shifted costs


def buffer_size(channels: int) -> int:
    """Numbers that the published module keeps beside its parameters: both matrices, and one a channel unused here."""
    return 2 * channels * channels + channels


def mean_costs(cost: np.ndarray, count: np.ndarray) -> Float64[np.ndarray, "K K"]:
    """Positive mean cost of every transition; one that was never visited costs the mean of the visited ones."""
    cost, count = np.asarray(cost, np.float64), np.asarray(count, np.float64)
    visited = count > 0
    means = np.divide(cost, count, out=np.zeros_like(cost), where=visited)
    means[~visited] = means[visited].mean() if visited.any() else 0.0
    return means + abs(means.min()) + LOWEST


def processing_order(costs: Float64[np.ndarray, "K K"], *, seed: int) -> Int64[np.ndarray, "K"]:
    """Channels in the order of a cheap path from the one with the smallest diagonal cost; up to two by diagonal.

    Args:
        costs: positive, of the channels present, see `mean_costs`.

    Raises:
        ConfigError: not a square matrix, or without channels.
    """
    costs = np.asarray(costs, np.float64)
    if costs.ndim != 2 or costs.shape[0] != costs.shape[1] or not len(costs):
        raise ConfigError(f"costs: expected a square matrix, got {costs.shape}")
    diagonal = np.diagonal(costs)
    if len(costs) <= 2:
        return np.argsort(diagonal, kind="stable")
    start = int(np.argmin(diagonal))
    order = np.concatenate([[start], np.delete(np.arange(len(costs)), start)])
    return order[_annealed(costs[np.ix_(order, order)], np.random.default_rng(seed))]


def path_cost(costs: Float64[np.ndarray, "K K"], order: Int64[np.ndarray, "K"]) -> float:
    """Sum over the transitions of an order, without the first channel's own."""
    return float(costs[order[:-1], order[1:]].sum())


def _annealed(costs: Float64[np.ndarray, "K K"], rng: np.random.Generator) -> Int64[np.ndarray, "K"]:
    """Simulated annealing from the identity over open paths from 0, then steepest descent; the best path seen."""
    n = len(costs)
    current = np.arange(n)
    value = path_cost(costs, current)
    best, best_value = current, value
    temperature = costs[~np.eye(n, dtype=bool)].std() + LOWEST
    for _ in range(ROUNDS):
        ends = rng.integers(1, n, (n, 2))
        turns, luck = rng.integers(3, size=n), rng.random(n)
        for (first, second), turn, chance in zip(ends, turns, luck, strict=True):
            if first == second:
                continue
            other = _moved(current, first, second, turn)
            change = path_cost(costs, other) - value
            if change <= 0 or chance < np.exp(-change / temperature):
                current, value = other, value + change
                if value < best_value:
                    best, best_value = current, value
        temperature *= COOLING
    return _descended(costs, best)


def _moved(order: Int64[np.ndarray, "K"], first: int, second: int, turn: int) -> Int64[np.ndarray, "K"]:
    """One entry put elsewhere, two exchanged, or the part between them reversed."""
    if turn == 0:
        return np.insert(np.delete(order, first), second, order[first])
    moved = order.copy()
    if turn == 1:
        moved[[first, second]] = order[[second, first]]
    else:
        low, high = min(first, second), max(first, second)
        moved[low : high + 1] = order[low : high + 1][::-1]
    return moved


def _descended(costs: Float64[np.ndarray, "K K"], order: Int64[np.ndarray, "K"]) -> Int64[np.ndarray, "K"]:
    """The best of all such moves again and again, until none is better."""
    places = range(1, len(order))
    value = path_cost(costs, order)
    while True:
        others = [_moved(order, i, j, turn) for i in places for j in places if i != j for turn in range(3)]
        table = np.stack(others)
        values = costs[table[:, :-1], table[:, 1:]].sum(axis=1)
        chosen = int(values.argmin())
        if not values[chosen] < value - 1e-12 * abs(value):
            return order
        order, value = table[chosen], float(values[chosen])

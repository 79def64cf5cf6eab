"""The order in which MambaTS processes the channels: costs of transitions, and the cheapest path through all of them.

Variable permutation training (Cai et al. 2024, section 3.4) credits each sample's loss, against the mean of its
batch, to the transitions of its random order. Evaluation solves the open asymmetric travelling-salesman path over
the mean costs by simulated annealing.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

from wearjax.errors import ConfigError

COOLING = 0.96
ROUNDS = 140  # temperatures; the last is 0.3 % of the first
MOVES = 8  # tried at each, for every channel
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


def _annealed(costs: Float64[np.ndarray, "K K"], rng: np.random.Generator) -> Int64[np.ndarray, "K"]:
    """Simulated annealing from the identity over open paths from 0, then steepest descent from the best path seen.

    A move exchanges two neighbouring parts of the path, which turns none of its transitions around.
    """
    n = len(costs)
    table = costs.tolist()
    path, best, value, best_value = list(range(n)), list(range(n)), 0.0, 0.0
    temperature = costs[~np.eye(n, dtype=bool)].std() + LOWEST
    for _ in range(ROUNDS):
        cuts = np.sort(rng.integers(1, n + 1, (MOVES * n, 3)), axis=1)
        thresholds = -temperature * np.log(1.0 - rng.random(len(cuts)))
        for (i, j, k), most in zip(cuts.tolist(), thresholds.tolist(), strict=True):
            if i == j or j == k:
                continue
            change = table[path[i - 1]][path[j]] + table[path[k - 1]][path[i]]
            change -= table[path[i - 1]][path[i]] + table[path[j - 1]][path[j]]
            if k < n:
                change += table[path[j - 1]][path[k]] - table[path[k - 1]][path[k]]
            if change <= most:
                path[i:k] = path[j:k] + path[i:j]
                value += change
                if value < best_value:
                    best, best_value = path.copy(), value
        temperature *= COOLING
    return _descended(costs, np.array(best))


def _descended(costs: Float64[np.ndarray, "K K"], path: Int64[np.ndarray, "K"]) -> Int64[np.ndarray, "K"]:
    """The best of all such moves again and again, until none is better."""
    n = len(path)
    cuts = np.array([(i, j, k) for i in range(1, n) for j in range(i + 1, n) for k in range(j + 1, n + 1)])
    i, j, k = cuts.T
    free = np.zeros((n + 1, n + 1))  # an end that leads nowhere
    free[:n, :n] = costs
    while True:
        before, first, second, after = path[i - 1], path[i], path[j], np.append(path, n)[k]
        last_first, last_second = path[j - 1], path[k - 1]
        change = free[before, second] + free[last_second, first] + free[last_first, after]
        change -= free[before, first] + free[last_first, second] + free[last_second, after]
        chosen = int(change.argmin())
        if change[chosen] >= -1e-12 * costs.max():
            return path
        a, b, c = cuts[chosen]
        path = np.concatenate([path[:a], path[b:c], path[a:b], path[c:]])

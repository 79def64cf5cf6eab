"""Which example days, channels and methods are worth a figure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from jaxtyping import Bool, Float32

from wearjax.channels import CHANNELS, HEART_RATE
from wearjax.report import words
from wearjax.report.run_folder import Gallery

CHANNELS_MIN, CHANNELS_MAX = 4, 6
METHODS_MAX = 3


def choose_methods(gallery: Gallery, ranking: Sequence[str], baseline: str) -> list[str]:
    """Up to three methods: the best learned one, the best of the others, and the baseline.

    Args:
        ranking: method names, best first; methods it lacks follow in alphabetical order.
    """
    return best_methods(gallery.imputed, ranking, baseline)


def best_methods(methods: Collection[str], ranking: Sequence[str], baseline: str) -> list[str]:
    """`choose_methods` of any names."""
    known = [m for m in ranking if m in methods]
    names = known + sorted(set(methods) - set(known))
    learned = [m for m in names if words.is_learned(m)]
    simple = [m for m in names if not words.is_learned(m) and m != baseline]
    order = [*learned[:1], *simple[:1], *[m for m in names if m == baseline], *learned[1:], *simple[1:]]
    return order[:METHODS_MAX]


def choose_days(gallery: Gallery, count: int) -> list[int]:
    """Positions of the days to show: scenarios in turn, new participants first, most to see first."""
    interest = [_day_interest(v, t) for v, t in zip(gallery.values, gallery.target, strict=True)]
    known = list(words.SCENARIOS)
    turn = sorted(set(gallery.scenario), key=lambda s: (known.index(s) if s in known else len(known), s))
    chosen: list[int] = []
    while len(chosen) < min(count, len(gallery)):
        for scenario in turn:
            shown = {gallery.participant[i] for i in chosen}
            left = [i for i in range(len(gallery)) if gallery.scenario[i] == scenario and i not in chosen]
            if left and len(chosen) < count:
                chosen.append(max(left, key=lambda i: (gallery.participant[i] not in shown, interest[i], -i)))
    return sorted(chosen, key=lambda i: (turn.index(gallery.scenario[i]), i))


def _day_interest(
    values: Float32[np.ndarray, "channel=19 minute=1440"], target: Bool[np.ndarray, "channel=19 minute=1440"]
) -> float:
    return float(np.sort(channel_interest(values, target))[-CHANNELS_MIN:].sum())


def choose_channels(
    values: Float32[np.ndarray, "channel=19 minute=1440"], target: Bool[np.ndarray, "channel=19 minute=1440"]
) -> list[int]:
    """Four to six channels of a day, in channel order: those with most to see and least alike."""
    interest = channel_interest(values, target)
    chosen: list[int] = []
    while len(chosen) < CHANNELS_MAX:
        # Steps and distance of one device tell the same story twice; one category's channels, partly so.
        twins = np.asarray([sum(_alike(c, other) for other in chosen) for c in range(len(CHANNELS))])
        worth = np.where(interest > 0, interest - twins, 0.0)
        worth[chosen] = -np.inf
        best = int(np.argmax(worth))
        if worth[best] < 0.6 and (len(chosen) >= CHANNELS_MIN or interest[best] <= 0):
            break
        chosen.append(best)
    return sorted(chosen)


def _alike(c: int, other: int) -> float:
    a, b = CHANNELS[c], CHANNELS[other]
    if a.category != b.category:
        return 0.0
    if a.category == "physiology":
        return 0.0
    return (
        1.2
        if a.device == b.device and a.device is not None and {a.unit, b.unit} == {"steps/min", "m/min"}
        else 0.15
    )


def channel_interest(
    values: Float32[np.ndarray, "channel=19 minute=1440"], target: Bool[np.ndarray, "channel=19 minute=1440"]
) -> Float32[np.ndarray, "channel=19"]:
    """How much a channel's panel shows: hidden cells, something visible beside them, and values that move.

    Zero for a channel with nothing measured and nothing imputed; flat channels stay below the varied ones.
    """
    measured = ~np.isnan(values)
    hidden = target.mean(axis=1)
    visible = (measured & ~target).mean(axis=1)
    moves = np.zeros(len(CHANNELS))
    for c, channel in enumerate(CHANNELS):
        inside = values[c][measured[c] & (target[c] if np.any(measured[c] & target[c]) else True)]
        if len(inside) and np.ptp(inside) > 0:
            moves[c] = 1.0 if channel.is_continuous else 0.7
    moves[HEART_RATE] *= 1.2
    score = np.where(
        hidden > 0, 0.2 + 0.5 * np.minimum(hidden, 0.3) + moves, 0.4 * moves + 0.2 * _explains(values, target)
    )
    return (score + 0.3 * np.minimum(visible, 0.5)).astype(np.float32)


def _explains(
    values: Float32[np.ndarray, "channel=19 minute=1440"], target: Bool[np.ndarray, "channel=19 minute=1440"]
) -> Bool[np.ndarray, "channel=19"]:
    """Flags on where cells are hidden and mostly off elsewhere: the night of a sleep gap, a workout."""
    minutes = target.any(axis=0)
    if minutes.all() or not minutes.any():
        return np.zeros(len(CHANNELS), bool)
    on = np.nan_to_num(values) > 0.5
    flags = np.asarray([not channel.is_continuous for channel in CHANNELS])
    return flags & (on[:, minutes].mean(axis=1) > 2 * on[:, ~minutes].mean(axis=1))

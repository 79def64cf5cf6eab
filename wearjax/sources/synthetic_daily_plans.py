"""What is planted in an invented person's days: couplings, habits of single metrics, phases, cycles and spells.

Regimes last whole fortnights, counted back from the last day, so that windows of 28 days that end a multiple of 14 days
before it see whole ones; fortnight 0 is the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float64

from wearjax.daily_metrics import INDEX, METRICS, N_METRICS

FORTNIGHT = 14
# Metrics that move by themselves; the others follow from sessions and energy.
FREE = (
    "steps", "rhr", "hrv", "vo2_max", "sleep_duration", "sleep_efficiency", "deep_percentage", "rem_percentage",
    "bed_time_std", "avg_stress_level",
)  # fmt: skip
_LEVERS = ("steps", "sleep_duration", "bed_time_std", "avg_stress_level")
_BAD = {"rhr": 1, "hrv": -1, "sleep_duration": -1, "sleep_efficiency": -1, "avg_stress_level": 1}
# Direction in which a good phase of life moves a metric.
_GOOD = {m.key: {"up": 1.0, "down": -1.0, None: 0.0}[m.better] for m in METRICS}
SHAPES = {"ramp": 0.22, "arch": 0.12, "step": 0.12, "plateau": 0.28, "weekly": 0.16, "flat": 0.1}  # shares
HABITS = ("quiet", "shaped", "shifting", "spiky", "eventful")
_HABIT_SHARES = (0.15, 0.24, 0.16, 0.17, 0.28)
_RECOVERIES = (1, 1, 2, 2, 3, 4, 4, 5, 6, 6, 8, 8, 11, 11, 15, 17, 40)  # days; 40 is beyond any window

# What a spell does, in standard units; `exercise` stands for sessions and their length.
SPELLS: dict[str, dict[str, float]] = {
    "illness": {
        "rhr": 1, "hrv": -1, "sleep_duration": 1, "deep_percentage": -1, "steps": -1, "exercise": -1,
        "avg_stress_level": 1,
    },
    "overload": {"rhr": 1, "hrv": -1, "steps": 1, "exercise": 1, "avg_stress_level": 1},
    "sleep_loss": {"sleep_duration": -1, "deep_percentage": -1, "hrv": -1, "avg_stress_level": 1},
    "late_night": {"rhr": 1, "hrv": -1, "deep_percentage": -1, "bed_time_std": 1},
    "strain": {"avg_stress_level": 1, "hrv": -1, "rhr": 1},
    "detraining": {"steps": -1, "exercise": -1},
    "travel": {"bed_time_std": 1, "sleep_duration": -1, "steps": 1, "exercise": -1},
    "taper": {"exercise": -1, "rhr": -1, "hrv": 1, "sleep_duration": 1, "avg_stress_level": -1},
    "gap": {},
}  # fmt: skip
# Shares: the more a kind looks like another one, the more of it.
_SPELL_SHARES = (0.07, 0.19, 0.08, 0.12, 0.10, 0.19, 0.09, 0.07, 0.09)
SIGNATURE = ("rhr", "hrv", "sleep_duration", "deep_percentage", "steps", "avg_stress_level")
GAP_METRICS = ("rhr", "hrv", "sleep_duration", "deep_percentage", "avg_stress_level")

# What follows two announcing fortnights of a cycle: in which of the next two (1, then 0), and by how much.
_FOLLOWING = (
    ((1, 0), 0.95),
    ((1, 0), 1.0),
    ((1, 0), 1.6),
    ((1, 0), 1.6),
    ((1, 0), 2.6),
    ((1,), 2.4),
    ((0,), 2.4),
)

Style = Literal["driver", "hub", "turning", "predictable"]
_STYLE_SHARES: dict[Style, float] = {"driver": 0.34, "hub": 0.26, "turning": 0.16, "predictable": 0.24}


@dataclass(frozen=True, eq=False)
class Coupling:
    """A metric follows another one.

    Attributes:
        lag: days by which the target follows the source, 0 to 3.
        strength: correlation with sign, of each fortnight back from the last day.
    """

    source: str
    target: str
    lag: int
    strength: Float64[np.ndarray, " fortnight"]


@dataclass(frozen=True)
class Spell:
    """A few days that move several metrics at once; days count from the first one of the record."""

    kind: str
    first: int
    days: int
    size: float
    back: int


@dataclass(frozen=True, eq=False)
class Plan:
    """All that is planted in a person.

    Attributes:
        habits: of each of `FREE`.
        offsets: by metric, level of each fortnight in standard units.
        spells: in order, without overlap.
        cycle: metric that announces, and the one that follows four weeks later; None in most people.
        energy_follows: correlation of active energy with steps.
        weekly: how much the weekend moves each metric, standard units.
    """

    style: Style
    couplings: tuple[Coupling, ...]
    habits: dict[str, str]
    offsets: Float64[np.ndarray, "fortnight metric=16"]
    spells: tuple[Spell, ...]
    cycle: tuple[str, str] | None
    energy_follows: float
    weekly: Float64[np.ndarray, "metric=16"]


def draw_plan(
    rng: np.random.Generator, days: int, *, lacking: tuple[str, ...] = (), coupled: bool = True
) -> Plan:
    """A person's plan.

    Args:
        lacking: metrics that are rather bad in this person; a habit that would help may be planted for one of them.
        coupled: without, metrics have nothing to do with each other (but sessions and energy): no coupling, phase,
            cycle, spell or weekly rhythm, only the habits of single metrics.
    """
    n = -(-days // FORTNIGHT)
    style: Style = list(_STYLE_SHARES)[int(rng.choice(len(_STYLE_SHARES), p=list(_STYLE_SHARES.values())))]
    couplings = _couplings(rng, style, n, lacking)
    involved = {m for c in couplings for m in (c.source, c.target)}
    drawn = rng.choice(len(HABITS), size=len(FREE), p=_HABIT_SHARES)
    habits = {key: "quiet" if key in involved and coupled else HABITS[drawn[i]] for i, key in enumerate(FREE)}
    habits = {k: "shaped" if h == "eventful" and k not in _BAD else h for k, h in habits.items()}
    offsets, cycle = _offsets(rng, style, couplings, n)
    spells = _spells(rng, days)
    energy = float(rng.uniform(0.45, 0.7) if style == "driver" else rng.uniform(0.5, 0.93))
    weekly = _weekly(rng)
    weekly[[INDEX[c.target] for c in couplings]] = 0.0  # what follows has the rhythm of what it follows
    if not coupled:
        couplings, offsets, spells, cycle, weekly = (
            (),
            np.zeros_like(offsets),
            (),
            None,
            np.zeros_like(weekly),
        )
    return Plan(style, couplings, habits, offsets, spells, cycle, energy, weekly)


def _couplings(
    rng: np.random.Generator, style: Style, n: int, lacking: tuple[str, ...]
) -> tuple[Coupling, ...]:
    """Sources and targets never mix, so that each metric can be made in one pass."""
    order = list(rng.permutation(FREE))
    if rng.random() < 0.6:  # a habit that one can change leads
        lever = str(rng.choice(_LEVERS))
        order.remove(lever)
        order.insert(0, lever)
    names = [str(name) for name in order]
    if style == "driver":
        a, b = names[:2]
        sign, lag = _sign(rng, a, b), int(rng.integers(0, 4))
        if lacking and rng.random() < 0.8:  # a habit that helps
            b = str(rng.choice(lacking))
            a = str(rng.choice([lever for lever in _LEVERS if lever != b]))
            sign = _GOOD[a] * _GOOD[b]
        return (Coupling(a, b, lag, np.full(n, sign * rng.uniform(0.955, 0.99))),)
    if style == "hub":
        count = int(rng.integers(4, 7))
        made = []
        for target in names[1 : 1 + count]:
            lag = int(rng.integers(1, 4)) if rng.random() < 0.35 else 0
            strength = _sign(rng, names[0], target) * rng.uniform(0.84, 0.97)
            made.append(Coupling(names[0], target, lag, np.full(n, strength)))
        return tuple(made)
    if style == "turning":
        pairs = zip(names[0:6:2], names[1:6:2], strict=True)
        return tuple(
            Coupling(a, b, 0, _turning(rng, n, str(kind)) * _sign(rng, a, b))
            for (a, b), kind in zip(pairs, rng.permutation(["flip", "half", "flip", "mild"])[:3], strict=True)
        )
    count = int(rng.integers(2, 4))
    shares = rng.dirichlet(np.full(count, 4.0)) * rng.uniform(0.9, 0.97)  # of the target's variance
    target, sources = names[count], names[:count]
    return tuple(
        Coupling(source, target, 0, np.full(n, _sign(rng, source, target) * np.sqrt(share)))
        for source, share in zip(sources, shares, strict=True)
    )


def _sign(rng: np.random.Generator, a: str, b: str) -> float:
    """Mostly the sign by which good goes with good; by person the other one."""
    natural = _GOOD[a] * _GOOD[b]
    return float(natural if rng.random() < 0.7 else -natural)


def _turning(rng: np.random.Generator, n: int, kind: str) -> Float64[np.ndarray, " fortnight"]:
    """Strengths that change sign (`flip`) or come and go (`half`), or stay weak or moderate (`mild`)."""
    if kind == "mild":
        return np.full(n, rng.choice([0.4, 0.6]))
    turns = np.cumsum(rng.random(n) < 0.6) % 2
    return np.where(turns == 1, rng.uniform(0.94, 0.99), 0.0 if kind == "half" else -rng.uniform(0.94, 0.99))


def _offsets(
    rng: np.random.Generator, style: Style, couplings: tuple[Coupling, ...], n: int
) -> tuple[Float64[np.ndarray, "fortnight metric=16"], tuple[str, str] | None]:
    """Levels by fortnight: phases of life that move many metrics, moving sources, and cycles of eight weeks."""
    out = np.zeros((n, N_METRICS))
    targets = {c.target for c in couplings}
    kind, picked = rng.random(), rng.permutation([k for k in FREE if k not in targets])
    signs, sizes = rng.choice([1.0, 1.0, -1.0], N_METRICS), rng.uniform(0.5, 1.0, N_METRICS)
    phase = _blocks(rng, n)
    moving = {key: _blocks(rng, n) for key in FREE}
    shift = int(rng.integers(0, 4))
    cycle: tuple[str, str] | None = None
    if style == "predictable":
        for coupling in couplings:
            out[:, INDEX[coupling.source]] = moving[coupling.source]
    elif kind < 0.35:
        for key in picked[:6]:
            out[:, INDEX[key]] = phase * signs[INDEX[key]] * sizes[INDEX[key]] * _GOOD[key]
    elif kind < 0.8:
        first, second = str(picked[0]), str(picked[1])
        place = (np.arange(n) + shift) % 4  # counted backwards: 2 and 3 come before 0 and 1
        follows, size = _FOLLOWING[int(rng.integers(len(_FOLLOWING)))]
        out[:, INDEX[first]] = np.where(place >= 2, 1.7, 0.0)
        out[:, INDEX[second]] = np.where(np.isin(place, follows), size * rng.choice([-1.0, 1.0]), 0.0)
        cycle = (first, second)
    return out, cycle


def _blocks(rng: np.random.Generator, n: int) -> Float64[np.ndarray, " fortnight"]:
    """Levels that hold for one to three fortnights; every other one is the usual level."""
    out, at = np.zeros(n), int(rng.integers(0, 2))
    while at < n:
        hold = int(rng.integers(1, 4))
        out[at : at + hold] = rng.choice([-1.0, 1.0]) * rng.choice([0.7, 1.1, 1.9])
        at += hold + int(rng.integers(2, 4))
    return out


def _spells(rng: np.random.Generator, days: int) -> tuple[Spell, ...]:
    """Spells of three to seven days, in some people every six weeks, in the others rarely."""
    every = 42 if rng.random() < 0.65 else 200
    found, at = [], int(rng.integers(5, every))
    while at + 8 < days:
        length = int(rng.integers(4, 8))
        kind = str(rng.choice(list(SPELLS), p=_SPELL_SHARES))
        found.append(Spell(kind, at, length, float(rng.uniform(2.8, 4.0)), int(rng.integers(1, 5))))
        at += length + 12 + int(rng.exponential(max(every - 18, 1)))
    return tuple(found)


def _weekly(rng: np.random.Generator) -> Float64[np.ndarray, "metric=16"]:
    """How much the weekend moves each metric, standard units."""
    out = np.zeros(N_METRICS)
    for key in ("steps", "sleep_duration", "bed_time_std"):
        out[INDEX[key]] = rng.normal(0, 0.3)
    return out


@dataclass(frozen=True, eq=False)
class Course:
    """What a habit makes of a metric: a level to add, and how much of the usual noise remains."""

    level: Float64[np.ndarray, " day"]
    calm: Float64[np.ndarray, " day"]


def draw_course(rng: np.random.Generator, key: str, habit: str, days: int) -> Course:
    """The course of a metric over the record's days."""
    level, calm = np.zeros(days), np.ones(days)
    if habit == "spiky":
        _spikes(rng, level)
    elif habit != "quiet":
        at = int(rng.integers(0, 2))  # fortnights before the last day at which a window of this kind ends
        while (at + 2) * FORTNIGHT <= days:
            stop = days - at * FORTNIGHT
            {"shaped": _shape, "shifting": _shift, "eventful": _event}[habit](rng, key, level, calm, stop)
            at += 2 + int(rng.integers(2, 4))
    return Course(level, calm)


def _shape(rng, key, level, calm, stop):
    """One of the forms of a month over the 28 days up to `stop`, then a return within a week."""
    kind = str(rng.choice(list(SHAPES), p=list(SHAPES.values())))
    size = rng.uniform(3.0, 5.0) * rng.choice([-0.75, 1.0])
    t, turn = np.arange(2 * FORTNIGHT), int(rng.integers(9, 20))
    forms = {
        "ramp": t / t[-1],
        "arch": np.minimum(t / turn, (t[-1] - t) / (t[-1] - turn)),
        "step": (t >= turn).astype(float),
        "plateau": np.minimum(t / min(turn, 15), 1.0),
        "weekly": 0.6 * np.sin(2 * np.pi * (t + turn) / 7),
        "flat": np.zeros(len(t)),
    }
    span = slice(stop - len(t), stop)
    level[span] += size * forms[kind]
    calm[span] *= 0.2
    _return(level, stop, level[stop - 1] if kind not in ("weekly", "flat") else 0.0, 6)


def _shift(rng, key, level, calm, stop):
    """A level that jumps in the noise within the 28 days up to `stop` and stays for the rest of them."""
    turn = int(rng.choice([6, 7, 8, 9, 12, 16, 19, 20, 21]))
    size = rng.uniform(3.0, 5.5) * rng.choice([-0.7, 1.0])
    first = stop - 2 * FORTNIGHT
    level[first + turn : stop] += size
    calm[first:stop] *= rng.choice([0.7, 1.2, 1.6])
    _return(level, stop, size, 3)


def _event(rng, key, level, calm, stop):
    """A bad run of two to five days, the way back, and quiet days after it."""
    bad = _BAD[key]
    month, length, back = stop - 2 * FORTNIGHT, int(rng.integers(2, 5)), int(rng.choice(_RECOVERIES))
    spare = 2 * FORTNIGHT - length - min(back, 17) - 2  # days of the month that neither is part of
    first = month + 1 + int(rng.integers(0, max(min(spare, 12), 1)))
    over = first + length
    calm[month:stop] *= 0.5  # no other day of the month comes near a line
    again = min(over + back - 1, stop + 4, len(level))
    level[first:over] += bad * rng.uniform(2.8, 4.2)
    level[over:again] += bad * rng.uniform(0.95, 1.15)
    settled = min(again + 6, len(level))
    calm[first:over] *= 0.4
    calm[over:settled] *= 0.2


def _spikes(rng, level):
    """Single days out of line, always in one direction; some fortnights have none and some have five."""
    direction = rng.choice([-1.0, 1.0])
    for start in range(len(level) % FORTNIGHT, len(level) - FORTNIGHT + 1, FORTNIGHT):
        count = int(rng.integers(0, 6)) if rng.random() < 0.55 else 0
        at = start + rng.choice(FORTNIGHT, size=count, replace=False)
        level[at] += direction * rng.uniform(2.6, 3.8, size=count)


def _return(level, stop, height, days):
    """Back to the usual level after a form that ended away from it."""
    n = min(days, len(level) - stop)
    if n > 0:
        level[stop : stop + n] += height * (1 - np.arange(1, n + 1) / (days + 1))

"""Invented surgeries of both centres: deterministic, with the structure of an operating room and a known truth.

Each case follows from `(seed, index)` alone. Induction, maintenance and emergence; drugs by pump or bolus; vitals
that drift, jump, and fall after boluses; artefacts; and gaps in blocks that leave 20 to 80 % of a variable out.

`coupling` says how much the vitals follow what other columns show. Each target mixes two signals of the same
dynamics: one driven by the drugs, stimuli and settings of this surgery, which other columns show before the
target responds, and one driven by private causes. At 1 only the first is there, and a model that mixes channels
can see what comes; at 0 only the second, and no other column says anything about a target. Delays reach 20
minutes, so the advantage is largest at 3 and 10 minutes and small at 30.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32, Float64

from wearjax.errors import ConfigError
from wearjax.sources import synthetic_drivers as drivers
from wearjax.sources.synthetic_vitals import TARGETS, Vital
from wearjax.sources.tally import Tally
from wearjax.sources.vital_cases import Case, count_values
from wearjax.vitals import Centre

_STREAMS = ("person", "drugs", "targets", "gaps")
_PLACE = {"vitaldb": 0, "mover": 1}
# Mean length of a recording, hours; first and last day of operations.
_HOURS = {"vitaldb": 3.9, "mover": 4.2}
_DAYS = {
    "vitaldb": (dt.date(2016, 8, 1), dt.date(2017, 6, 30)),
    "mover": (dt.date(2015, 1, 1), dt.date(2017, 12, 31)),
}
_SHORTEST_HOURS = 2.05


# Share of a target's spread that no cause explains: slow wandering, and the noise of the monitor.
_DRIFT, _NOISE = 0.25, 0.12
_BOLUS_MINUTES = {"opioid": 25.0, "pressor": 20.0}
_LASTING = {"opioid": 12.0, "pressor": 5.0}


@dataclass(frozen=True)
class Cohort:
    """Size and seed of an invented cohort of one centre.

    Attributes:
        centre: its step and variables; both centres are known.
        n_cases: how many surgeries.
        seed: changes everything.
        coupling: 0 = targets depend on nothing that other columns show, 1 = on nothing else.
        hours: mean length of a recording (default: the published mean of the centre); below about two hours the
            surgeries fail the benchmark's inclusion criteria.
        gaps: leave out blocks of values as the devices do; without, only the truth's own zeros are missing.
    """

    centre: Centre
    n_cases: int
    seed: int = 0
    coupling: float = 1.0
    hours: float | None = None
    gaps: bool = True

    def __post_init__(self):
        if self.centre.name not in TARGETS:
            raise ConfigError(f"centre {self.centre.name!r}; known: {', '.join(TARGETS)}")
        if self.n_cases < 1:
            raise ConfigError(f"n_cases must be at least 1, got {self.n_cases}")
        if self.seed < 0:
            raise ConfigError(f"seed must not be negative, got {self.seed}")
        if not 0 <= self.coupling <= 1:
            raise ConfigError(f"coupling must lie in 0..1, got {self.coupling}")
        if self.hours is not None and not 0 < self.hours <= 24:
            raise ConfigError(f"hours must lie in 0..24, got {self.hours}")


@dataclass(frozen=True, eq=False)
class Surgery:
    """One invented surgery and what lies behind it.

    Attributes:
        case: as the devices recorded it, 0 = missing.
        truth: every row of every variable, without gaps and artefacts.
        recorded: where `case.values` shows the truth or an artefact.
    """

    case: Case
    truth: Float32[np.ndarray, "row variable"] = field(repr=False)
    recorded: Bool[np.ndarray, "row variable"] = field(repr=False)


def case_id(index: int) -> str:
    return f"synthetic-{index:06d}"


def simulate(cohort: Cohort, index: int) -> Surgery:
    """Makes one surgery. Raises ConfigError when the cohort has no such index."""
    centre, rng = cohort.centre, _generators(cohort, index)
    start, n = _schedule(rng["person"], cohort)
    person = _person(rng["person"], centre)
    shared = _shared_drivers(rng["drugs"], n, centre)
    truth = np.zeros((n, centre.n_variables), np.float64)
    for name, value in person.items():
        truth[:, centre.index(name)] = value
    for name, column in _drugs(shared, centre).items():
        truth[:, centre.index(name)] = column
    for name, vital in TARGETS[centre.name].items():
        column = _target(rng["targets"], vital, shared, cohort, n)
        variable = centre.variables[centre.index(name)]
        truth[:, centre.index(name)] = np.clip(
            np.round(column, vital.digits), variable.low + 1, variable.high
        )
    values, recorded = _record(rng["gaps"], truth, cohort)
    case = Case(case_id(index), start, values, n * centre.step_seconds / 3600, general_anaesthesia=True)
    return Surgery(case, truth.astype(np.float32), recorded)


def read_cases(
    cohort: Cohort, *, tally: Tally, progress: Callable[[int, int], None] | None = None
) -> Iterator[Case]:
    """Yields all surgeries by index. `progress` gets (cases done, cases in total)."""
    tally.note(
        f"synthetic surgeries, seed {cohort.seed}, coupling {cohort.coupling:g}: no recording of a person is in them"
    )
    for index in range(cohort.n_cases):
        case = simulate(cohort, index).case
        count_values(case.values, cohort.centre, tally)
        yield case
        if progress:
            progress(index + 1, cohort.n_cases)


def static_values(cohort: Cohort, index: int) -> dict[str, float]:
    """The patient's static covariates by name, without simulating the surgery."""
    rng = _generators(cohort, index)["person"]
    _schedule(rng, cohort)
    return _person(rng, cohort.centre)


def _generators(cohort: Cohort, index: int) -> dict[str, np.random.Generator]:
    if not 0 <= index < cohort.n_cases:
        raise ConfigError(f"case index {index}: the cohort has 0..{cohort.n_cases - 1}")
    root = np.random.SeedSequence(cohort.seed, spawn_key=(2, _PLACE[cohort.centre.name], index))
    return {
        name: np.random.default_rng(s) for name, s in zip(_STREAMS, root.spawn(len(_STREAMS)), strict=True)
    }


def _schedule(rng: np.random.Generator, cohort: Cohort) -> tuple[dt.datetime, int]:
    """Start and number of rows."""
    mean = cohort.hours or _HOURS[cohort.centre.name]
    shortest = _SHORTEST_HOURS if mean > _SHORTEST_HOURS else mean * 0.8
    hours = min(shortest + rng.gamma(2.0, max(mean - shortest, 0.0) / 2.0), 3 * mean)
    first, last = _DAYS[cohort.centre.name]
    day = first + dt.timedelta(days=int(rng.integers(0, (last - first).days + 1)))
    start = dt.datetime(day.year, day.month, day.day, 8) + dt.timedelta(minutes=int(rng.integers(0, 480)))
    return start, max(int(np.ceil(hours * 3600 / cohort.centre.step_seconds)), 4)


def _person(rng: np.random.Generator, centre: Centre) -> dict[str, float]:
    """Static covariates with the medians and shares of the published cohorts."""
    korean = centre.name == "vitaldb"
    age, spread, female = (61, 14, 0.439) if korean else (55, 18, 0.503)
    weight, height = (60.8, 163.0) if korean else (75.0, 167.0)
    sex = float(rng.random() >= female)
    side = 2 * sex - 1
    names = [variable.name for variable in centre.variables if variable.static]
    values = [
        float(np.clip(np.round(rng.normal(age, spread)), 18, 90)),
        sex,
        float(np.clip(np.round(weight * np.exp(0.06 * side + 0.17 * rng.standard_normal()), 1), 36, 180)),
        float(np.clip(np.round(height + 5.5 * side + 5.5 * rng.standard_normal(), 1), 135, 205)),
        float(rng.choice([1, 2, 3, 4, 5], p=[0.026, 0.195, 0.648, 0.128, 0.003])),
    ]
    return dict(zip(names, values, strict=False))  # MOVER has no ASA class


def _shared_drivers(
    rng: np.random.Generator, n: int, centre: Centre
) -> dict[str, Float64[np.ndarray, " row"]]:
    """The causes of this surgery; the keys with `doses` are what was injected."""
    step = centre.step_seconds / 60
    shared = {
        name: drivers.levels(rng, n, step) for name in ("hypnotic", "stimulus", "ventilation", "oxygen")
    }
    shared["depth"] = drivers.depth(rng, n, step)
    if centre.name == "vitaldb":
        shared["opioid"] = drivers.levels(rng, n, step)
        shared["pressor"] = np.zeros(n)  # VitalDB's columns show none
        return shared
    for name, every in _BOLUS_MINUTES.items():
        doses = drivers.boluses(rng, n, step, every=every)
        shared[f"{name} doses"] = doses
        shared[name] = _bolus_effect(doses, name, step)
    shared["agent"] = np.full(n, float(rng.integers(0, 3)))
    shared["other doses"] = rng.random(n)
    return shared


def _bolus_effect(doses: np.ndarray, name: str, step: float) -> np.ndarray:
    """Effect of boluses, scaled to about mean 0 and variance 1."""
    found = drivers.effect(doses, step, lasting=_LASTING[name])
    mean = 1.2 * _LASTING[name] / _BOLUS_MINUTES[name]
    return (found - mean) / np.sqrt(mean)


def _drugs(shared: dict[str, np.ndarray], centre: Centre) -> dict[str, np.ndarray]:
    """Columns of the drugs."""
    step = centre.step_seconds / 60
    asleep = shared["depth"]
    if centre.name == "vitaldb":
        columns = {}
        for drug, driver, level, swing, rate in (
            ("PPF20", "hypnotic", 3.0, 0.6, 0.15), ("RFTN20", "opioid", 3.0, 0.8, 0.12),
        ):  # fmt: skip
            wanted = np.maximum(level + swing * shared[driver], 0.3) * asleep
            columns[f"Orchestra/{drug}_CE"] = np.round(drivers.lagged(wanted, step, lag=0.5), 2)
            columns[f"Orchestra/{drug}_VOL"] = np.round(np.cumsum(wanted * rate * step), 2)
        return columns
    which = int(shared["agent"][0])
    agent, letter = (2.0, "S") if which == 0 else (6.0, "D") if which == 1 else (1.0, "I")
    inspired = np.maximum(agent * (1 + 0.25 * shared["hypnotic"]), 0.05) * asleep
    columns = {
        "Agent_Fi": np.round(inspired, 2),
        "Agent_Et": np.round(drivers.lagged(0.85 * inspired, step, delay=1.0, lag=1.0), 2),
        f"Agent_{letter}": (asleep > 0.1).astype(np.float64),
        "Agent_N": (asleep <= 0.1).astype(np.float64),
        "Fentanyl": 50 * shared["opioid doses"],
        "Phenylephrine": 100 * shared["pressor doses"],
    }
    # The rest is given for reasons that no vital shows.
    chance, edge = shared["other doses"], 0.0
    for name, dose in {
        "Ephedrine": 5, "Hydromorphone": 0.4, "Lidocaine": 60, "Midazolam": 2, "Ondansetron": 4,
        "Plasmalyte": 500, "Propofol": 120, "Vecuronium": 5,
    }.items():  # fmt: skip
        columns[name] = np.where((chance >= edge) & (chance < edge + 0.01 * step), float(dose), 0.0)
        edge += 0.01 * step
    return columns


def _target(
    rng: np.random.Generator, vital: Vital, shared: dict[str, np.ndarray], cohort: Cohort, n: int
) -> np.ndarray:
    """One vital: responses to shared and private causes of the same dynamics, drift and noise."""
    step = cohort.centre.step_seconds / 60
    private = _private_drivers(rng, vital, n, cohort.centre)
    mixed = np.zeros(n)
    for response in vital.follows:
        for causes, share in ((shared, cohort.coupling), (private, np.sqrt(1 - cohort.coupling**2))):
            felt = drivers.lagged(causes[response.driver], step, delay=response.delay, lag=response.lag)
            if response.driver == "depth":
                felt = felt - 1.0  # the mean is that of the anaesthetised patient
            mixed += share * response.gain * felt
    mixed += _DRIFT * drivers.drift(rng, n, step, memory=25.0) + _NOISE * rng.standard_normal(n)
    return vital.mean + vital.between * rng.standard_normal() + vital.within * mixed


def _private_drivers(
    rng: np.random.Generator, vital: Vital, n: int, centre: Centre
) -> dict[str, Float64[np.ndarray, " row"]]:
    """Causes that this target has for itself: the same processes, drawn anew."""
    step = centre.step_seconds / 60
    own = {}
    for response in vital.follows:
        name = response.driver
        if name == "depth":
            own[name] = drivers.lightening(rng, n, step)
        elif name in _LASTING and centre.name == "mover":
            own[name] = _bolus_effect(drivers.boluses(rng, n, step, every=_BOLUS_MINUTES[name]), name, step)
        elif name == "pressor":
            own[name] = np.zeros(n)
        else:
            own[name] = drivers.levels(rng, n, step)
    return own


def _record(
    rng: np.random.Generator, truth: np.ndarray, cohort: Cohort
) -> tuple[Float32[np.ndarray, "row variable"], Bool[np.ndarray, "row variable"]]:
    """Artefacts and gaps of the devices: what they wrote, and where."""
    centre, n = cohort.centre, len(truth)
    values = truth.astype(np.float32)
    recorded = np.ones(truth.shape, bool)
    vitals_of = TARGETS[centre.name]
    for position, variable in enumerate(centre.variables):
        if variable.static or not cohort.gaps:
            continue
        vital = vitals_of.get(variable.name)
        if vital is None and centre.name == "mover" and position > centre.index("Agent_Et"):
            continue  # a dose is written down or not given
        share = np.clip(rng.normal(vital.missing if vital else 0.25, 0.06), 0.2, 0.8)
        recorded[:, position] = ~_gaps(rng, n, share, centre.step_seconds / 60)
        if vital:
            wrong = np.flatnonzero(rng.random(n) < 0.001)
            spread = 6 * vital.within * rng.choice([-1, 1], len(wrong)) * rng.uniform(0.7, 1.3, len(wrong))
            values[wrong, position] = np.clip(
                np.round(truth[wrong, position] + spread, vital.digits), variable.low + 1, variable.high
            )
    values[~recorded] = 0
    return values, recorded


def _gaps(rng: np.random.Generator, n: int, share: float, step_minutes: float) -> Bool[np.ndarray, " row"]:
    """Alternating stretches with and without a signal; about `share` of the rows are without."""
    mean_gap = rng.uniform(2.0, 10.0) / step_minutes
    lengths = (mean_gap, mean_gap * (1 - share) / share)
    n_pairs = int(4 * n / sum(lengths)) + 8
    pairs = np.column_stack([rng.exponential(length, n_pairs) for length in lengths])
    edges = np.cumsum(np.ceil(pairs).ravel()).astype(np.int64)
    state = np.searchsorted(edges, np.arange(n) + int(rng.integers(0, int(edges[1]) + 1)), side="right")
    return state % 2 == 0

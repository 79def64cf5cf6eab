"""One table of many people's packets: skill, rank and fair skill over the union of their methods.

Ranks depend on the pool and intervals on the draws, so nothing of a packet's own scores is kept: the methods
are aligned by participant and scored together, with one resample matrix.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from wearjax import tasks as outcomes
from wearjax.benchmarks.openmhc import (
    forecasting_scores,
    imputation_scores,
    imputation_tasks,
    leaderboard_tables,
    packet,
    prediction_errors,
    prediction_scores,
    run_packets,
    scored_on,
)
from wearjax.benchmarks.openmhc.imputation_scores import Score
from wearjax.benchmarks.openmhc.packet import Packet
from wearjax.errors import ConfigError

BASELINES = {
    "imputation": imputation_tasks.BASELINE,
    "forecasting": forecasting_scores.BASELINE,
    "prediction": outcomes.BASELINE,
}
_MARK = " · "  # between the name of a method and where it comes from


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Methods of one track, scored together.

    Attributes:
        packets: one a method, in the order given; `method` is unique here.
        scores: of every method and scope, with intervals.
        participants: with an error of each method.
        n_participants: of all methods together.
        notes: what a reader must know before comparing: what was merged, renamed or is not shared.
    """

    track: str
    baseline: str
    packets: tuple[Packet, ...]
    scores: tuple[Score, ...]
    participants: dict[str, int]
    n_participants: int
    n_boot: int
    seed: int
    notes: tuple[str, ...]


def has_packets(path: str | os.PathLike) -> bool:
    """Whether a path is a packet, a folder of packets, or a run folder with errors of every participant."""
    return bool(packet.files(path)) or run_packets.is_run(path)


def read(path: str | os.PathLike) -> list[Packet]:
    """The packets of a file, of a folder, or of an evaluation's run folder, all of them checked.

    Raises:
        ConfigError: there is none, or one is not valid.
    """
    path = Path(path)
    if run_packets.is_run(path):
        return run_packets.read(path)
    found = packet.files(path)
    if not found:
        raise ConfigError(
            f"{path}: holds no packet (a .parquet table with its .meta.json beside it) and no {run_packets.TABLE}"
        )
    return [packet.read_packet(file) for file in found]


def score(packets: Sequence[Packet], *, n_boot: int = 1000, seed: int = 42) -> Leaderboard:
    """Scores packets of one track together.

    Equal copies of a method count once; different ones of the same name are told apart by where they come
    from. Of several versions of the baseline, the single-day one is the reference.

    Args:
        n_boot: draws for the intervals; 0 for none.

    Raises:
        ConfigError: packets of several tracks or splits, or scored on other cells as far as they say, no baseline
            among them, several that differ, or a method that shares no participant with it.
    """
    tracks = sorted({p.track for p in packets})
    if len(tracks) != 1:
        raise ConfigError(f"leaderboard: expected packets of one track, got {', '.join(tracks) or 'none'}")
    if (why := scored_on.difference(packets)) is not None:
        raise ConfigError(f"leaderboard: {why}")
    found = _SCORED[tracks[0]](packets, n_boot, seed)
    return replace(found, notes=(*scored_on.notes(found.packets), *found.notes))


def _distinct(
    packets: Sequence[Packet], baseline: str, same: Callable[[Packet, Packet], bool]
) -> tuple[list[Packet], list[str]]:
    """The packets under names of their own, the reference of the baseline first, and notes."""
    versions: dict[str, list[Packet]] = {}
    notes: list[str] = []
    for found in packets:
        known = versions.setdefault(found.method, [])
        if not any(same(found, other) for other in known):
            known.append(found)
    if baseline not in versions:
        raise ConfigError(
            f"leaderboard: no packet or run of the baseline {baseline!r}; add one, e.g. the run folder of an evaluation"
        )
    own = sorted(versions[baseline], key=lambda p: p.subtrack != "single-day")
    if len({p.subtrack for p in own}) < len(own):
        raise ConfigError(
            f"leaderboard: {own[0].source} and {own[1].source} hold different errors of the baseline {baseline!r}; "
            "they were not evaluated on the same days or windows, or not with the same settings"
        )
    unique = [own[0]]
    for name, rivals in versions.items():
        for rival in own[1:] if name == baseline else rivals:
            label = name if len(rivals) == 1 else f"{name}{_MARK}{_origin(rival)}"
            if len(rivals) > 1:
                notes.append(f"{label}: one of {len(rivals)} different methods called {name}")
            shown = rival.display_name + label.removeprefix(name)
            unique.append(replace(rival, method=label, display_name=shown))
    twice = [name for name, n in Counter(p.method for p in unique).items() if n > 1]
    if twice:
        raise ConfigError(
            f"leaderboard: two different methods are called {twice[0]!r}; rename one of the files"
        )
    return unique, notes


def _origin(found: Packet) -> str:
    source = found.source.resolve()
    return source.parent.name if source.suffix == ".parquet" else source.name


def _missing_notes(packets: Sequence[Packet], participants: dict[str, int], total: int) -> list[str]:
    return [
        f"{p.method}: {total - participants[p.method]:,} of {total:,} participants have no value"
        for p in packets
        if participants[p.method] < total
    ]


def _scenario_notes(packets: Sequence[Packet]) -> list[str]:
    """Methods that were scored in fewer scenarios than others: their overall skill is of other things."""
    own = {p.method: set(p.table["scenario"].unique().to_pylist()) for p in packets}
    every = set().union(*own.values())
    return [
        f"{method}: {len(mine)} of {len(every)} scenarios; its overall skill does not compare with that of the others"
        for method, mine in own.items()
        if mine != every
    ]


def _imputation(packets: Sequence[Packet], n_boot: int, seed: int) -> Leaderboard:
    splits = {s for p in packets for s in p.table["split"].unique().to_pylist()}
    if len(splits) != 1:
        raise ConfigError(f"leaderboard: expected errors of one split, got {', '.join(sorted(splits))}")
    baseline = BASELINES["imputation"]
    unique, notes = _distinct(packets, baseline, leaderboard_tables.same_errors)
    table = leaderboard_tables.error_table(unique)
    has = np.isfinite(table.errors)
    _check_paired(unique, has, baseline, notes)
    participants = {p.method: int(n) for p, n in zip(unique, has.any(axis=1).sum(axis=1), strict=True)}
    notes += _missing_notes(unique, participants, len(table.participants))
    notes += _scenario_notes(unique)
    scores = imputation_scores.score(table, baseline=baseline, n_boot=n_boot, seed=seed, split=splits.pop())
    return Leaderboard(
        "imputation", baseline, tuple(unique), tuple(scores), participants, len(table.participants), n_boot, seed,
        tuple(notes),
    )  # fmt: skip


def _forecasting(packets: Sequence[Packet], n_boot: int, seed: int) -> Leaderboard:
    baseline = BASELINES["forecasting"]
    unique, notes = _distinct(packets, baseline, leaderboard_tables.same_metrics)
    found = leaderboard_tables.metrics(unique)
    has = np.isfinite(found.values)
    _check_paired(unique, has, baseline, notes)
    participants = {p.method: int(n) for p, n in zip(unique, has.any(axis=1).sum(axis=1), strict=True)}
    notes += _missing_notes(unique, participants, len(found.participants))
    if not found.subgroups:
        notes.append("no fair skill: packets do not tell subgroups; a run folder of an evaluation does")
    scores = forecasting_scores.score(found, baseline=baseline, n_boot=n_boot, seed=seed)
    return Leaderboard(
        "forecasting", baseline, tuple(unique), tuple(scores), participants, len(found.participants), n_boot, seed,
        tuple(notes),
    )  # fmt: skip


def _check_paired(packets: Sequence[Packet], has: np.ndarray, baseline: str, notes: list[str]) -> None:
    """Notes what has no error of the baseline beside it. Raises ConfigError where nothing of a method has."""
    for m, found in enumerate(packets):
        unpaired = int((has[m] & ~has[0]).sum())
        if not (has[m] & has[0]).any():
            raise ConfigError(
                f"leaderboard: {found.source} shares no task and participant with the baseline {baseline!r}"
            )
        if unpaired:
            notes.append(f"{found.method}: {unpaired:,} errors have no error of the baseline beside them")


def _prediction(packets: Sequence[Packet], n_boot: int, seed: int) -> Leaderboard:
    baseline = BASELINES["prediction"]
    unique, notes = _distinct(packets, baseline, leaderboard_tables.same_predictions)
    tasks, left_out = prediction_errors.common(leaderboard_tables.predictions(unique))
    if not tasks:
        raise ConfigError("leaderboard: no task and participant that all methods predict")
    notes += [f"{reason}: {n:,}" for reason, n in left_out.items()]
    scores = prediction_scores.score(tasks, baseline=baseline, n_boot=n_boot, seed=seed)
    people = {p.method: len(p.table["user_id"].unique()) for p in unique}
    total = len({u for p in unique for u in p.table["user_id"].unique().to_pylist()})
    return Leaderboard(
        "prediction", baseline, tuple(unique), tuple(scores), people, total, n_boot, seed, tuple(notes)
    )


_SCORED = {"imputation": _imputation, "forecasting": _forecasting, "prediction": _prediction}

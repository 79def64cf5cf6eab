"""A few example days of an evaluation, chosen by seed, with what every method filled in."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Float, Int64

from wearjax.benchmarks.openmhc.imputation_cases import Cases
from wearjax.day import SHAPE


class Gallery:
    """Keeps, of each scenario, the days of lowest random priority among those to which it applies.

    The choice depends on the seed and the days, not on how these are batched.
    """

    def __init__(
        self, methods: Sequence[str], scenarios: Sequence[str], cases: Cases, *, per_scenario: int, seed: int
    ):
        self._methods, self._cases, self._per_scenario = tuple(methods), cases, per_scenario
        draws = np.random.default_rng(seed)
        self._priority = {s: draws.random(len(cases.indices)) for s in scenarios}
        self._kept: dict[str, dict[int, dict[str, np.ndarray]]] = {s: {} for s in scenarios}
        self._bounds: Mapping[str, float] = {}

    def part(self, bounds: Mapping[str, float]) -> Gallery:
        """An empty gallery of the same choice, for some of the days; days beyond the bounds are not kept."""
        part = copy.copy(self)
        part._kept, part._bounds = {s: {} for s in self._kept}, bounds
        return part

    def bounds(self) -> dict[str, float]:
        """By scenario that is full, the priority beyond which a day has no chance any more."""
        return {
            s: max(self._priority[s][p] for p in kept)
            for s, kept in self._kept.items()
            if len(kept) == self._per_scenario > 0
        }

    def trim(self) -> None:
        """Drops what restored days have pushed out."""
        for scenario in self._kept:
            self.offered(scenario, np.zeros(0, np.int64))

    def offered(self, scenario: str, positions: Int64[np.ndarray, " day"]) -> list[tuple[int, int]]:
        """Row and position of the offered days that belong to the gallery as known so far."""
        priority, kept = self._priority[scenario], self._kept[scenario]
        if scenario in self._bounds:
            positions = np.where(priority[positions] <= self._bounds[scenario], positions, -1)
        chosen = sorted(
            {*kept, *positions[positions >= 0].tolist()}, key=lambda position: priority[position]
        )[: self._per_scenario]
        for position in set(kept) - set(chosen):
            del kept[position]
        row_of = {position: row for row, position in enumerate(positions.tolist())}
        return [(row_of[position], position) for position in chosen if position in row_of]

    def keep(
        self,
        scenario: str,
        method: str,
        chosen: Sequence[tuple[int, int]],
        truth: Float[np.ndarray, "day channel=19 minute"],
        target: Bool[np.ndarray, "day channel=19 minute"],
        filled: Float[np.ndarray, "day channel=19 minute"],
    ) -> None:
        """Copies the chosen days of one method; outside the target they show what was measured."""
        for row, position in chosen:
            entry = self._kept[scenario].setdefault(
                position, {"values": truth[row].copy(), "target": target[row].copy()}
            )
            entry[f"imputed/{method}"] = np.where(target[row], filled[row], truth[row])

    def record(self, method: str) -> dict[str, np.ndarray]:
        """The days of one method, to go on with later."""
        name = f"imputed/{method}"
        scenarios = list(self._kept)
        days = [
            (scenarios.index(s), p, entry)
            for s, kept in self._kept.items()
            for p, entry in kept.items()
            if name in entry
        ]
        shape = (len(days), *SHAPE)
        parts = {"values": np.float32, "target": bool, name: np.float32}
        arrays = {k: np.array([e[k] for _, _, e in days], kind).reshape(shape) for k, kind in parts.items()}
        arrays["filled"] = arrays.pop(name)
        return {
            "scenario": np.array([s for s, _, _ in days], np.int64),
            "position": np.array([p for _, p, _ in days], np.int64),
            **arrays,
        }

    def restore(self, method: str, record: Mapping[str, np.ndarray]) -> None:
        """Takes up the days of a method from a record of the same scenarios."""
        scenarios = list(self._kept)
        for row, (s, position) in enumerate(zip(record["scenario"], record["position"], strict=True)):
            entry = self._kept[scenarios[int(s)]].setdefault(
                int(position), {"values": record["values"][row], "target": record["target"][row]}
            )
            entry[f"imputed/{method}"] = record["filled"][row]

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of `gallery.npz`; empty when no day was kept."""
        days = [(s, p, entry) for s, kept in self._kept.items() for p, entry in sorted(kept.items())]
        if not days:
            return {}
        names = ("values", "target", *(f"imputed/{m}" for m in self._methods))
        cases = self._cases
        return {
            **{name: np.stack([entry[name] for _, _, entry in days]) for name in names},
            "scenario": np.array([scenario for scenario, _, _ in days]),
            "participant": np.array([cases.participants[cases.participant_of[p]] for _, p, _ in days]),
            "date": np.array([cases.date_at(p) for _, p, _ in days]),
        }

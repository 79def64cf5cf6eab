"""Tables of several packets, aligned by participant and task or channel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from wearjax import tasks as outcomes
from wearjax.benchmarks.openmhc import imputation_tasks, packet_schema
from wearjax.benchmarks.openmhc.forecasting_scores import ScoredMetrics
from wearjax.benchmarks.openmhc.imputation_cases import ATTRIBUTES
from wearjax.benchmarks.openmhc.packet import Packet
from wearjax.benchmarks.openmhc.prediction_errors import TaskPredictions
from wearjax.channels import N_CHANNELS
from wearjax.errors import ConfigError
from wearjax.scores import fairness
from wearjax.scores.errors import ErrorTable, SubgroupErrors

_SAME = 1e-5  # relative difference of errors that count as equal


def error_table(packets: Sequence[Packet]) -> ErrorTable:
    """The errors of several methods, aligned by task and participant; participants in the order first seen."""
    columns = [_Codes(p.table) for p in packets]
    people = tuple(dict.fromkeys(name for c in columns for name in c.names("user_id")))
    present = {pair for c in columns for pair in zip(c.texts("scenario"), c.texts("channel"), strict=True)}
    tasks = tuple(t for t in imputation_tasks.tasks() if (t.scenario, t.channel) in present)
    shape = (len(packets), len(tasks), len(people))
    errors = np.full(shape, np.nan)
    inside = {name: np.full((len(values), *shape), np.nan) for name, values in ATTRIBUTES.items()}
    task_of = {(t.scenario, t.channel): i for i, t in enumerate(tasks)}
    for m, codes in enumerate(columns):
        person = codes.positions("user_id", {name: i for i, name in enumerate(people)})
        task = codes.pair_positions("scenario", "channel", task_of)
        value = codes.numbers("E_per_user")
        attribute = codes.texts("subgroup_attr")
        everybody = attribute == "all"
        errors[m, task[everybody], person[everybody]] = value[everybody]
        for name, values in ATTRIBUTES.items():
            rows = np.flatnonzero(attribute == name)
            group = codes.positions("subgroup_value", {v: i for i, v in enumerate(values)})[rows]
            inside[name][group, m, task[rows], person[rows]] = value[rows]
    groups = {n: SubgroupErrors(ATTRIBUTES[n], e) for n, e in inside.items() if np.isfinite(e).any()}
    return ErrorTable(tuple(p.method for p in packets), tasks, people, errors, groups)


class _Codes:
    """Columns of a table as NumPy arrays, texts through their dictionaries."""

    def __init__(self, table: pa.Table):
        self._table = table
        self._coded: dict[str, tuple[np.ndarray, list[str]]] = {}

    def _codes(self, name: str) -> tuple[np.ndarray, list[str]]:
        if name not in self._coded:
            coded = self._table[name].cast(pa.string()).combine_chunks().dictionary_encode()
            self._coded[name] = coded.indices.to_numpy(), coded.dictionary.to_pylist()
        return self._coded[name]

    def names(self, name: str) -> list[str]:
        """Distinct texts in the order first seen."""
        return self._codes(name)[1]

    def texts(self, name: str) -> np.ndarray:
        codes, names = self._codes(name)
        return np.array(names, object)[codes]

    def positions(self, name: str, position: dict[str, int]) -> np.ndarray:
        """Position of each row's text, -1 where it has none."""
        codes, names = self._codes(name)
        return np.array([position.get(text, -1) for text in names], np.int64)[codes]

    def pair_positions(self, first: str, second: str, position: dict[tuple[str, str], int]) -> np.ndarray:
        (a, firsts), (b, seconds) = self._codes(first), self._codes(second)
        table = np.array([[position.get((x, y), -1) for y in seconds] for x in firsts], np.int64)
        return table[a, b]

    def numbers(self, name: str) -> np.ndarray:
        return self._table[name].to_numpy().astype(np.float64)


def same_errors(a: Packet, b: Packet) -> bool:
    """Whether two tables hold the same errors of everybody."""
    if a.subtrack != b.subtrack:
        return False
    table = error_table([a, b])
    return bool(np.allclose(table.errors[0], table.errors[1], rtol=_SAME, atol=1e-7, equal_nan=True))


def metrics(packets: Sequence[Packet]) -> ScoredMetrics:
    """The forecasting metrics of several methods, aligned by channel and participant; participants sorted.

    Subgroups are what any packet tells of its participants; an attribute that none tells is left out.

    Raises:
        ConfigError: two packets disagree about the subgroup of a participant.
    """
    columns = [_Codes(p.table) for p in packets]
    people = tuple(sorted({name for c in columns for name in c.names("user_id")}))
    at = {name: i for i, name in enumerate(people)}
    values = np.full((len(packets), N_CHANNELS, len(people)), np.nan)
    for m, codes in enumerate(columns):
        channel = codes.numbers("channel_idx").astype(np.int64)
        values[m, channel, codes.positions("user_id", at)] = codes.numbers("metric_value")
    known: dict[Any, Any] = {}
    for found in packets:
        for attribute, of_person in found.subgroups.items():
            for person, value in of_person.items():
                _agree(known, (attribute, person), value, found)
    attributes = [a for a in ATTRIBUTES if any(key[0] == a for key in known)]
    groups = {a: tuple(known.get((a, p), fairness.UNKNOWN) for p in people) for a in attributes}
    return ScoredMetrics(tuple(p.method for p in packets), people, values, groups)


def same_metrics(a: Packet, b: Packet) -> bool:
    """Whether two tables hold the same metrics of everybody."""
    found = metrics([a, b])
    return bool(np.allclose(found.values[0], found.values[1], rtol=_SAME, atol=1e-7, equal_nan=True))


def predictions(packets: Sequence[Packet]) -> list[TaskPredictions]:
    """The predictions of several methods by task, for the participants that any of them has; NaN elsewhere.

    Raises:
        ConfigError: two packets disagree about the truth or the subgroup of a participant.
    """
    by_task: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    truth: dict[str, dict[str, float]] = {}
    groups: dict[tuple[str, str], str] = {}
    for found in packets:
        for row in found.table.to_pylist():
            task, user, attribute = row["task"], row["user_id"], row["subgroup_attr"]
            if attribute != "all":
                _agree(groups, (attribute, user), row["subgroup_value"], found)
                continue
            _agree(truth.setdefault(task, {}), user, row["y_true"], found)
            by_task.setdefault(task, {}).setdefault(found.method, {})[user] = row["y_pred"], row["y_proba"]
    attributes = sorted({attribute for attribute, _ in groups})
    tables = []
    for code, methods in by_task.items():
        users = tuple(sorted(truth[code]))
        pairs = {
            m: np.array([answers.get(u, (math.nan, math.nan)) for u in users])
            for m, answers in methods.items()
        }
        tables.append(
            TaskPredictions(
                outcomes.task(code),
                users,
                np.array([truth[code][u] for u in users]),
                {m: pair[:, 0] for m, pair in pairs.items()},
                {m: pair[:, 1] for m, pair in pairs.items()},
                {a: tuple(groups.get((a, u), "unknown") for u in users) for a in attributes},
            )
        )
    return tables


def _agree(known: dict[Any, Any], key: Any, value: Any, found: Packet) -> None:
    if known.setdefault(key, value) != value:
        raise ConfigError(
            f"{found.source}: {key} is {value!r}, another packet says {known[key]!r}; "
            "they were not made from the same labels"
        )


def same_predictions(a: Packet, b: Packet) -> bool:
    names = [*packet_schema.SCHEMAS["prediction"].keys, "y_pred", "y_proba"]

    def rows(found: Packet) -> pa.Table:
        plain = pa.table(
            {
                n: c.cast(pa.string()) if pa.types.is_dictionary(c.type) else c
                for n in names
                for c in [found.table[n]]
            }
        )
        return plain.sort_by([(n, "ascending") for n in names]).combine_chunks()

    return a.subtrack == b.subtrack and rows(a).equals(rows(b))

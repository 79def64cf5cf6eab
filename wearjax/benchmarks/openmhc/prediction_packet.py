"""The substrate table of the prediction track: every prediction, once over everybody and once an attribute.

OpenMHC evaluation, substrate files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import packet
from wearjax.benchmarks.openmhc.prediction_errors import ATTRIBUTES, EVERYBODY, TaskPredictions
from wearjax.scores import fairness

PREDICTION_COLUMNS = packet.arrow_schema("prediction")
SUBTRACKS = ("static", "longitudinal")


def prediction_rows(
    predictions: Sequence[TaskPredictions], *, rename: Mapping[str, str] | None = None
) -> pa.Table:
    """The table: a row for each finite prediction and attribute, numbers as float32.

    Args:
        rename: methods to keep and the names to give them; default keeps all.
    """
    methods = list(dict.fromkeys(m for found in predictions for m in found.methods))
    names = dict(rename) if rename is not None else {m: m for m in methods}
    parts = [
        _rows(found, method, name, attribute)
        for method, name in names.items()
        for found in predictions
        if method in found.y_pred
        for attribute in (EVERYBODY[0], *ATTRIBUTES)
    ]
    if not parts:
        return PREDICTION_COLUMNS.empty_table()
    return pa.concat_tables(parts).unify_dictionaries()


def _rows(found: TaskPredictions, method: str, name: str, attribute: str) -> pa.Table:
    predicted, scored = found.y_pred[method], found.y_proba[method]
    kept = np.flatnonzero(np.isfinite(found.y_true) & np.isfinite(predicted) & np.isfinite(scored))
    if attribute == EVERYBODY[0]:
        values = [EVERYBODY[1]] * len(kept)
    else:
        groups = found.subgroups.get(attribute)
        values = [fairness.UNKNOWN if groups is None else groups[i] for i in kept]

    def constant(text: str) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(kept), np.int32)), pa.array([text]))

    def coded(texts: list[str]) -> pa.Array:
        return pa.array(texts, pa.string()).dictionary_encode()

    columns = {
        "method": constant(name),
        "task": constant(found.task.code),
        "task_type": constant(found.task.kind),
        "subgroup_attr": constant(attribute),
        "subgroup_value": coded(values),
        "user_id": coded([found.users[i] for i in kept]),
        "y_true": pa.array(found.y_true[kept].astype(np.float32)),
        "y_pred": pa.array(predicted[kept].astype(np.float32)),
        "y_proba": pa.array(scored[kept].astype(np.float32)),
    }
    return pa.table(columns, schema=PREDICTION_COLUMNS)


def stems(methods: Sequence[str]) -> dict[str, str]:
    """File stem of each method: its slug, with a number where two methods have the same."""
    found: dict[str, str] = {}
    for method in methods:
        stem = first = packet.slug(method)
        number = 2
        while stem in found.values():
            stem, number = f"{first}_{number}", number + 1
        found[method] = stem
    return found


def write_substrate(
    folder: str | os.PathLike, predictions: Sequence[TaskPredictions], methods: Sequence[str]
) -> dict[str, Path]:
    """Writes `<method>.parquet` for each method; returns the files."""
    return {
        method: result_files.write_table(
            Path(folder) / f"{stem}.parquet", prediction_rows(predictions, rename={method: stem})
        )
        for method, stem in stems(methods).items()
    }

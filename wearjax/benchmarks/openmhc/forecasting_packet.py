"""The substrate table of the forecasting track: one metric a method, channel and participant.

OpenMHC evaluation, substrate files: raw metrics, absent cells have no row, no subgroup columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from wearjax.benchmarks.openmhc import packet
from wearjax.benchmarks.openmhc.forecasting_metrics import BINARY_METRICS, SCORED, UserMetrics
from wearjax.channels import CHANNELS

COLUMNS = packet.arrow_schema("forecasting")
SUBTRACK = "other"


def forecasting_rows(
    metrics: UserMetrics,
    *,
    names: Sequence[str] = tuple(SCORED.values()),
    rename: Mapping[str, str] | None = None,
) -> pa.Table:
    """The table: a row for each finite value.

    Args:
        names: metrics; default those that are scored.
        rename: methods to keep and the names to give them; default keeps all.
    """
    chosen = dict(rename) if rename is not None else {m: m for m in metrics.methods}
    parts = [_rows(metrics, name, chosen) for name in names]
    return pa.concat_tables(parts).unify_dictionaries() if parts else COLUMNS.empty_table()


def _rows(metrics: UserMetrics, name: str, chosen: Mapping[str, str]) -> pa.Table:
    methods = [metrics.methods.index(m) for m in chosen]
    values, counts = metrics.values[name][methods], metrics.n_values[name][methods]
    method, channel, person = np.nonzero(np.isfinite(values))
    group = "binary" if name in BINARY_METRICS else "continuous"

    def constant(text: str) -> pa.Array:
        return packet.coded(np.zeros(len(method), np.int32), [text])

    return pa.table(
        {
            "model": packet.coded(method, list(chosen.values())),
            "group": constant(group),
            "metric": constant(name),
            "channel_idx": pa.array(channel.astype(np.int16)),
            "channel_name": packet.coded(channel, [c.source_name for c in CHANNELS]),
            "user_id": packet.coded(person, list(metrics.participants)),
            "metric_value": pa.array(values[method, channel, person]),
            "n_values": pa.array(counts[method, channel, person]),
        },
        schema=COLUMNS,
    )

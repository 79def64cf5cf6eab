"""Where the weights of a run come from, for the bundle that it writes: data, settings, steps and last metrics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wearjax import channels, json_text
from wearjax.days.store import Days
from wearjax.train import config as configs
from wearjax.train import metrics, run_folder
from wearjax.train.config import PretrainConfig

_OF_DATA = (
    "days_digest", "train_days", "train_participants", "validation_days", "validation_participants", "examples",
    "train_examples", "provenance",
)  # fmt: skip
_TIMING = ("step", "split", "seconds", "days_per_second", "data_wait_fraction")


def provenance(days: Days) -> dict[str, Any]:
    """What a store says of its source, without the counts of its import."""
    found = getattr(days, "meta", {}).get("provenance", {})
    return {name: value for name, value in found.items() if name != "import"}


def is_synthetic(provenance: Any) -> bool:
    """Whether a store is invented, or made of one that is."""
    while isinstance(provenance, Mapping):
        if provenance.get("source") == "synthetic":
            return True
        provenance = provenance.get("from")
    return False


def of_run(out: Path, config: PretrainConfig) -> dict[str, Any]:
    """The `origin` of a bundle, see `wearjax.convert.card`; nothing in it depends on the machine or the time."""
    recorded = json_text.loads((out / "config.json").read_text()).get("run", {})
    last = {row["split"]: row for row in metrics.read_jsonl(out / "metrics.jsonl")}
    known = {name: recorded[name] for name in _OF_DATA if name in recorded}
    if known:
        known |= {
            "store": Path(recorded["data_dir"]).name,
            "channels_digest": channels.digest(),
            "synthetic": is_synthetic(recorded.get("provenance")),
        }
    return {
        "how": "trained",
        "run": config.name,
        "data": known,
        "training": run_folder.settings(configs.to_dict(config)),
        "steps": max((row["step"] for row in last.values()), default=0),
        "metrics": {
            split: {name: value for name, value in row.items() if name not in _TIMING}
            for split, row in sorted(last.items())
        },
    }

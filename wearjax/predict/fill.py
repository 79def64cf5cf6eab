"""Fills what a store did not measure with a trained imputer, and keeps what a person needs to judge the result."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32

from wearjax import json_text, plural, writing
from wearjax.channels import CHANNELS, MINUTES_PER_DAY
from wearjax.day import Day
from wearjax.days import coverage
from wearjax.days.store import Days, DayStore, DayStoreWriter
from wearjax.errors import ConfigError, StoreError
from wearjax.predict.protocols import Imputer, call_impute

GALLERY_DAYS = 6
FLAG_THRESHOLD = 0.5


def fill_days(
    imputer: Imputer,
    days: Days,
    out: str | os.PathLike,
    *,
    method: str,
    config: dict[str, Any],
    overwrite: bool = False,
    batch_size: int = 32,
    progress: Callable[[int, int], None] | None = None,
) -> DayStore:
    """Writes a run folder with the filled store (`days/`), a gallery, the coverage before, and the counts.

    Measured cells are kept as they are. Filled continuous cells are clipped to the channel's plausible range;
    filled flags are 1 where the imputer's probability is at least one half.

    Raises:
        ConfigError: a batch without days.
        StoreError: `out` exists and `overwrite` is off. MethodError: the imputer broke its contract.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size: must be at least 1, got {batch_size}")
    out = Path(out)
    if out.exists() and not (out / "results.json").exists():
        raise StoreError(f"{out} exists and is not a run folder; refusing to replace it")
    if out.exists() and not overwrite:
        raise StoreError(f"{out} exists; pass --force to replace it")
    with writing.folder(out) as temporary:
        filled = _fill_into(temporary, imputer, days, method, batch_size, progress)
        _write_gallery(temporary, days, DayStore(temporary / "days"), method)
        coverage.save(coverage.coverage(days), temporary / "coverage.npz")
        provenance = getattr(days, "meta", {}).get("provenance", {})
        results = {
            "kind": "impute",
            "method": method,
            "store": days.path.name,
            "n_days": len(days),
            "n_participants": len(set(days.participants)),
            "filled_cells": filled,
            "import": provenance.get("import", {}),
        }
        with writing.told(out):
            (temporary / "results.json").write_text(json.dumps(results, indent=1) + "\n")
            (temporary / "config.json").write_text(_told(config))
    return DayStore(out / "days")


def filled_by(facts: Mapping[str, Any]) -> str:
    """What fills, in a sentence: kind, run, size and training of a bundle with these facts; empty without them."""
    if not facts.get("kind") or "parameters" not in facts:
        return ""
    origin = facts.get("origin") or {}
    data = origin.get("data") or {}
    said = f"Filled by {facts['kind']}"
    said += f" of run {origin['run']}" if origin.get("run") else ""
    said += f" ({facts['parameters']:,} parameters)"
    if origin.get("how") == "converted":
        return f"{said}, converted from {origin.get('file')}."
    if not data:
        return f"{said}; how it was trained is not recorded."
    steps, people, n_days = origin.get("steps", 0), data["train_participants"], data["train_days"]
    invented = "invented " if data.get("synthetic") else ""
    return (
        f"{said}, trained for {steps:,} {plural.noun(steps, 'step')} on {n_days:,} {plural.noun(n_days, 'day')} of "
        f"{people:,} {invented}{plural.noun(people, 'participant')}."
    )


def guessed(results: Mapping[str, Any]) -> list[str]:
    """Channels without any measured minute in a filled store, of its `results.json`: every value is a guess."""
    cells, n_days = results.get("filled_cells"), results.get("n_days")
    if not isinstance(cells, dict) or not isinstance(n_days, int):
        return []
    return [name for name, count in cells.items() if count and count == n_days * MINUTES_PER_DAY]


def is_filled(
    out: str | os.PathLike, imputer: Imputer, days: Days, *, method: str, config: dict[str, Any]
) -> bool:
    """Whether `out` holds what `fill_days` made of these arguments: its facts, days and first filled day are theirs."""
    out = Path(out)
    try:
        results = json_text.loads((out / "results.json").read_text())
        same = (out / "config.json").read_text() == _told(config)
        filled = DayStore(out / "days")
    except (OSError, ValueError, StoreError):
        return False
    facts = {"kind": "impute", "method": method, "store": days.path.name, "n_days": len(days)}
    if not same or not isinstance(results, dict) or any(results.get(k) != v for k, v in facts.items()):
        return False
    if set(zip(filled.participants, filled.dates, strict=True)) != set(
        zip(days.participants, days.dates, strict=True)
    ):
        return False
    first = next(filled_days(imputer, days, [0], batch_size=1), None)
    # Another machine rounds otherwise, and may turn a flag that is near the threshold.
    return first is None or bool(np.isclose(first.values, _find(filled, days, 0), rtol=1e-2).mean() > 0.99)


def _told(config: dict[str, Any]) -> str:
    return json.dumps(config, indent=1) + "\n"


def _fill_into(
    folder: Path,
    imputer: Imputer,
    days: Days,
    method: str,
    batch_size: int,
    progress: Callable[[int, int], None] | None,
) -> dict[str, int]:
    """Imputes batch by batch; returns how many cells of each channel were filled."""
    count = np.zeros(len(CHANNELS), np.int64)
    provenance = {"source": "imputed", "by": method, "from": getattr(days, "meta", {}).get("provenance", {})}
    with DayStoreWriter(folder / "days", provenance=provenance, cleaned=True) as writer:
        for done, filled in enumerate(filled_days(imputer, days, batch_size=batch_size), start=1):
            count += filled.missing.sum(axis=1)
            day = days[filled.index]
            writer.add(Day(filled.values, day.participant, day.date, day.nonwear_minutes, day.source))
            if progress and (done % batch_size == 0 or done == len(days)):
                progress(done, len(days))
        for name in ("splits.json", "participants.json"):
            if (days.path / name).is_file():
                writer.attach(name, (days.path / name).read_text())
    return {channel.name: int(n) for channel, n in zip(CHANNELS, count, strict=True)}


@dataclass(frozen=True, eq=False)
class FilledDay:
    """A day of a store with its gaps filled.

    Attributes:
        index: its place in the store.
        missing: the cells that were not measured.
    """

    index: int
    values: Float32[np.ndarray, "channel=19 minute"]
    missing: Bool[np.ndarray, "channel=19 minute"]


def filled_days(
    imputer: Imputer,
    days: Days,
    indices: Sequence[int] | np.ndarray | None = None,
    *,
    batch_size: int = 32,
) -> Iterator[FilledDay]:
    """Days of a store one after another, as `fill_days` writes them; only one batch is held at a time.

    Args:
        indices: which days; None is all.

    Raises:
        ConfigError: a batch without days. MethodError: the imputer broke its contract.
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size: must be at least 1, got {batch_size}")
    order = np.arange(len(days)) if indices is None else np.asarray(indices, np.int64)
    for start in range(0, len(order), batch_size):
        yield from _filled_batch(imputer, days, order[start : start + batch_size])


def _filled_batch(imputer: Imputer, days: Days, chosen: np.ndarray) -> Iterator[FilledDay]:
    values = days.batch(chosen)
    missing = np.isnan(values)
    # Everything is a target here; what was never observed has no truth to hide.
    predicted = call_impute(
        imputer,
        values,
        ~missing,
        missing,
        user_ids=[str(days.participants[i]) for i in chosen],
        dates=[str(days.dates[i]) for i in chosen],
    )
    filled = np.where(missing, _plausible(predicted), values).astype(np.float32)
    for place, index in enumerate(chosen):
        yield FilledDay(int(index), filled[place], missing[place])


def _plausible(values: Float32[np.ndarray, "batch channel=19 time"]) -> np.ndarray:
    """Clips continuous channels to their range and turns probabilities of flags into flags."""
    out = np.empty_like(values)
    for c, channel in enumerate(CHANNELS):
        if channel.is_continuous:
            out[:, c] = np.clip(values[:, c], *channel.plausible)
        else:
            out[:, c] = values[:, c] >= FLAG_THRESHOLD
    return out


def _write_gallery(folder: Path, days: Days, filled: DayStore, method: str) -> None:
    """Saves a few days, spread over the store, whose channels are partly measured and partly filled."""
    candidates = _spread(len(days), 200)
    measured = np.asarray([np.mean(~np.isnan(days.values(i)), axis=1) for i in candidates])
    mixed = np.minimum(measured, 1 - measured).sum(axis=1)
    chosen = np.sort(candidates[np.argsort(-mixed, kind="stable")[:GALLERY_DAYS]])
    values = days.batch(chosen)
    (folder / "predictions").mkdir()
    arrays = {
        "values": values,
        "target": np.isnan(values),
        "scenario": np.asarray(["not measured"] * len(chosen)),
        "participant": np.asarray([str(days.participants[i]) for i in chosen]),
        "date": np.asarray([str(days.dates[i]) for i in chosen]),
        f"imputed/{method}": np.stack([_find(filled, days, i) for i in chosen]),
    }
    with writing.file(folder / "predictions" / "gallery.npz") as partial:
        np.savez_compressed(partial, **arrays)


def _find(filled: DayStore, days: Days, index: int) -> np.ndarray:
    same = (filled.participants == days.participants[index]) & (filled.dates == days.dates[index])
    return filled.values(int(np.flatnonzero(same)[0]))


def _spread(total: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, total - 1, min(total, most)).astype(int))

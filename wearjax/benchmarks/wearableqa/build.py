"""Makes a folder of questions out of daily records.

Records and the reference cohort are written first, then a file for each person with what the gates left, then the
questions. A build that was interrupted, or killed, goes on from there and ends with the same bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wearjax import biomarkers, writing
from wearjax.benchmarks.wearableqa import (
    assemble,
    cohort,
    dataset,
    item,
    judging,
    parts,
    registry,
    seeds,
    windows,
)  # fmt: skip
from wearjax.benchmarks.wearableqa.candidate import Candidate, QuestionType
from wearjax.benchmarks.wearableqa.dataset import Dataset
from wearjax.benchmarks.wearableqa.origin import Origin
from wearjax.benchmarks.wearableqa.yields import GATES, Judged, Yield, settle
from wearjax.daily_metrics import METRICS
from wearjax.errors import ConfigError, StoreError, WearjaxError
from wearjax.segments import daily_records
from wearjax.segments.daily_records import RecordStore
from wearjax.sources.tally import Tally

Progress = Callable[[int, int], None]
PARTS, REQUEST = "parts", "request.json"
OURS = (
    dataset.ITEMS, dataset.BUILD, dataset.COHORT, dataset.STORE, dataset.QUEUE, dataset.AUDIT, dataset.REVIEWS, PARTS,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Options:
    """What a build is asked for.

    Attributes:
        types: names; all sixteen where empty.
        items: wanted in all.
        balanced: drop questions until no option is right too often or too seldom.
    """

    types: tuple[str, ...] = ()
    items: int = assemble.ITEMS
    seed: int = 0
    balanced: bool = True

    def __post_init__(self):
        if self.items < 1 or self.seed < 0:
            raise ConfigError(f"build: items must be at least 1 and seed 0, got {self.items} and {self.seed}")


def build(
    origin: Origin,
    out: str | os.PathLike,
    options: Options | None = None,
    *,
    types: Sequence[QuestionType] | None = None,
    jobs: int | None = None,
    force: bool = False,
    reading: Progress | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """Builds questions, or goes on with an interrupted build of the same request.

    Args:
        out: the folder to write.
        types: question types of one's own, for one process; instead of the options' names.
        jobs: processes, one a core by default; the result does not depend on it.
        force: replace what is there.
        reading: called with (people read, people; 0 where not known).
        progress: called with (people judged, people).

    Raises:
        ConfigError: the folder holds questions, or a build of another request.
        StoreError: the folder is something else, or a part of the build is damaged.
    """
    options = options or Options()
    chosen = registry.chosen(options.types or None) if types is None else tuple(types)
    folder = Path(out)
    request = _request(origin, options, chosen)
    _prepare(folder, {**request, "place": origin.place}, force=force)
    try:
        store = _store(folder, origin, reading)
    except WearjaxError:  # nothing to go on from, and another request may want the folder
        shutil.rmtree(folder / PARTS, ignore_errors=True)
        with contextlib.suppress(OSError):
            folder.rmdir()
        raise
    reference, cohort_file = _cohort(folder, store)
    files = [(user, folder / PARTS / f"{i:06d}.json.gz") for i, user in enumerate(store.asked())]
    judging.write_all(store, reference, chosen, files, cohort_file=cohort_file, jobs=jobs, progress=progress)
    admitted, counts = _settled(chosen, [file for _, file in files])
    made = assemble.assemble(
        admitted,
        chosen,
        source=origin.name,
        items=options.items,
        seed=options.seed,
        balanced=options.balanced,
    )
    if not made.items:
        raise StoreError(f"{folder}: no question is left\n{counts.to_text()}")
    _write(folder / dataset.ITEMS, "".join(item.line(each.to_json()) for each in made.items))
    meta = {
        "format": dataset.FORMAT,
        "generator": seeds.VERSION,
        "request": request,
        "store_digest": store.digest,
        "people": len(store),
        "asked": len(files),
        "items": len(made.items),
        "yields": counts.to_json(),
        "assembly": made.counts,
        "lacking": lacking(store),
        "absent": absent(chosen, counts, made.counts),
        "unreviewed": unreviewed(made),
    }
    _write(folder / dataset.BUILD, json.dumps(meta, indent=1, ensure_ascii=False) + "\n")
    shutil.rmtree(folder / PARTS)
    return Dataset(folder)


def finished(origin: Origin, out: str | os.PathLike, options: Options) -> Dataset | None:
    """The questions in a folder if a build of this request has finished there; None for any other folder."""
    try:
        made = Dataset(out)
    except StoreError:
        return None
    request = _request(origin, options, registry.chosen(options.types or None))
    if made.meta.get("request") != json.loads(json.dumps(request)):
        return None
    shutil.rmtree(made.path / PARTS, ignore_errors=True)  # killed when all was done but this
    return made


def yields_of(built: Dataset) -> Yield:
    """The table of gates of a finished build."""
    rows = {
        name: {key: n for key, n in row.items() if key != "others"}
        for name, row in built.meta["yields"].items()
    }
    others = {name: tuple(row["others"]) for name, row in built.meta["yields"].items()}
    return Yield(rows, others)


def assembly_text(built: Dataset) -> str:
    """What became of the admitted candidates, one line a type."""
    columns = ("admitted", "length", "wording", "picked", "unbalanced", "target", "items")
    rows = built.meta["assembly"]
    width = max((len(name) for name in rows), default=4)
    lines = [" ".join(["type".ljust(width), *(column.rjust(10) for column in columns), " rarest answer"])]
    for name, counts in rows.items():
        rarest = next((f"  {text} ({n})" for text, n in counts["rarest"].items()), "")
        lines.append(
            " ".join([name.ljust(width), *(str(counts[column]).rjust(10) for column in columns)]) + rarest
        )
    return "\n".join(lines)


def absent(
    types: Sequence[QuestionType], counts: Yield, assembled: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """Of each type without a question, why."""
    out = {}
    for each in types:
        row, steps = counts.rows[each.name], assembled[each.name]
        if steps["items"]:
            continue
        if not row["proposed"]:
            out[each.name] = f"nothing to ask: it needs {registry.NEEDS.get(each.name, 'other records')}"
        elif not row["admitted"]:
            gate = max(GATES, key=lambda name: row[name])
            out[each.name] = f"{row['proposed']} proposed, none admitted; most ({row[gate]}) left at {gate}"
        else:
            lost = {name: steps[name] for name in ("length", "wording", "unbalanced") if steps[name]}
            why = ", ".join(f"{n} {name}" for name, n in lost.items())
            out[each.name] = f"{row['admitted']} admitted, none left after assembly ({why})"
    return out


def unreviewed(made: assemble.Assembled) -> dict[str, Any]:
    """What no clinician and no reader of the literature has confirmed, and how many questions rest on it."""
    resting = [each for each in made.items if each.relation_verified is False]
    return {
        "markers": list(biomarkers.unreviewed()),
        "relations": sorted({each.relation for each in resting if each.relation}),
        "items_on_unverified_relations": len(resting),
    }


def lacking(store: RecordStore) -> list[str]:
    """What nobody of the store has: metrics, blood, profile."""
    have = np.zeros(len(METRICS), bool)
    blood = profile = False
    for record in store:
        if len(record.dates):
            have |= np.isfinite(record.values).sum(axis=0) >= windows.SPARSE_DAYS
        blood |= bool(record.blood)
        profile |= record.demographics.age is not None or record.demographics.sex is not None
    missing = [metric.phrase for metric, there in zip(METRICS, have, strict=True) if not there]
    return missing + ([] if blood else ["blood panel"]) + ([] if profile else ["age or sex"])


def _request(origin: Origin, options: Options, types: Sequence[QuestionType]) -> dict[str, Any]:
    return {
        **origin.facts,
        "types": [each.name for each in types],
        "items": options.items,
        "build_seed": options.seed,
        "balanced": options.balanced,
    }


def _prepare(folder: Path, request: Mapping[str, Any], *, force: bool) -> None:
    """A folder for this request: a new one, or one in which it was begun."""
    file = folder / PARTS / REQUEST
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file")
    if force and folder.exists():
        if any(entry.name not in OURS and not _left_over(entry) for entry in folder.iterdir()):
            raise StoreError(f"{folder} holds other files than questions; refusing to replace it")
        shutil.rmtree(folder)
    if (folder / dataset.BUILD).exists():
        shutil.rmtree(folder / PARTS, ignore_errors=True)  # killed when all was done but this
        raise ConfigError(f"{folder} already holds questions; pass --force (force=True) to replace them")
    wanted = json.dumps({**request, "generator": seeds.VERSION}, sort_keys=True, indent=1) + "\n"
    if file.exists():
        if file.read_text(encoding="utf-8") != wanted:
            raise ConfigError(
                f"{folder} holds an unfinished build of another request; pass --force to drop it"
            )
        for entry in filter(_left_over, list(folder.iterdir())):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        return
    if folder.exists() and any(entry.name != PARTS for entry in folder.iterdir()):
        raise StoreError(f"{folder} is not empty, and holds no build")
    _write(file, wanted)


def _left_over(entry: Path) -> bool:
    """Whether it is a half-written file or store of a process that was killed."""
    return any(entry.name.startswith(f".{name}.") for name in OURS)


def _store(folder: Path, origin: Origin, reading: Progress | None) -> RecordStore:
    target = folder / dataset.STORE
    if target.exists():
        return daily_records.open_records(target)
    tally = Tally()
    return daily_records.write_records(target, origin.read(tally, reading), tally, provenance=origin.facts)


def _cohort(folder: Path, store: RecordStore) -> tuple[cohort.CohortReference, Path]:
    """The reference as it is stored: another process that reads it counts with the same numbers."""
    file = folder / dataset.COHORT
    if not file.exists():
        made = cohort.of_store(store)
        _write(file, json.dumps(made.to_json(), separators=(",", ":")) + "\n")
    return dataset.read_cohort(file), file


def _settled(
    types: Sequence[QuestionType], files: Sequence[Path]
) -> tuple[dict[str, list[Candidate]], Yield]:
    reader, counts = parts.Reader(), Yield()
    by_type: dict[str, list[Judged]] = {each.name: [] for each in types}
    for file in files:
        for judged in reader.read(file):
            by_type[judged.type].append(judged)
    admitted = {name: settle(Judged.joined(name, every), counts=counts) for name, every in by_type.items()}
    return admitted, counts


def _write(file: Path, text: str) -> None:
    with writing.file(file) as partial:
        partial.write_text(text, encoding="utf-8")

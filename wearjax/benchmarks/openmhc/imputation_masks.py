"""Where the masks of an evaluation come from: the files that a data root ships, a given folder, or seeds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from wearjax.errors import ConfigError
from wearjax.segments import mask_cache
from wearjax.sources import openmhc

# The folder of the full version's masks ends so; what stands before is not published.
SHIPPED = "_max91d"


@dataclass(frozen=True)
class Origin:
    """Where masks come from.

    Attributes:
        folder: of mask files; None draws from the seed.
        shipped: name of the folder inside the data root, where it is the root's own.
        notes: what a reader of the scores must know of it.
    """

    folder: Path | None = None
    shipped: str | None = None
    notes: tuple[str, ...] = ()


def origin(
    data_dir: str | os.PathLike,
    *,
    mask_dir: str | os.PathLike | None = None,
    mask_seed: int = mask_cache.MASK_SEED,
) -> Origin:
    """The masks of some data: the given ones, else those that a root of the full version ships, else drawn ones.

    On the full version the benchmark takes the shipped masks whatever the seed (OpenMHC evaluation, storage of the
    masks). A root without them can be evaluated all the same, with a note.

    Raises:
        ConfigError: several folders of shipped masks. SourceError: the root's marker is not readable.
    """
    if mask_dir is not None:
        return Origin(Path(mask_dir))
    root = Path(data_dir)
    if not (root / openmhc.MARKER).exists() or openmhc.read_marker(root).version != "full":
        return Origin()
    found = sorted(f for pattern in ("*", "*/*") for f in root.glob(pattern + SHIPPED) if f.is_dir())
    if len(found) > 1:
        names = ", ".join(str(folder.relative_to(root)) for folder in found)
        raise ConfigError(
            f"{root}: several folders of masks ({names}); choose one with mask_dir= (--mask-dir)"
        )
    if not found:
        return Origin(
            notes=(
                f"masks drawn with seed {mask_seed}, not the published ones: numbers are not comparable with published "
                "tables (published masks are read with --mask-dir)",
            )
        )
    notes: tuple[str, ...] = ()
    if mask_seed != mask_cache.MASK_SEED:
        notes = (f"masks are the published ones of the data root: mask seed {mask_seed} has no effect",)
    return Origin(found[0], found[0].relative_to(root).as_posix(), notes)

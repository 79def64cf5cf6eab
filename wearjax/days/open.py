"""One door to days, whatever they are stored in."""

from __future__ import annotations

import os
from pathlib import Path

from wearjax.days.export import DESCRIPTION, ExportedDays
from wearjax.days.openmhc import OpenMHCDays
from wearjax.days.store import Days, DayStore
from wearjax.errors import StoreError
from wearjax.sources.openmhc import MARKER


def open_days(path: str | os.PathLike) -> Days:
    """Opens a day store, an OpenMHC data root, or an ArrayRecord export of days.

    Raises StoreError when the folder is none of these, and SourceError when an OpenMHC root is incomplete.
    """
    path = Path(path)
    if (path / "store.json").exists():
        return DayStore(path)
    if (path / MARKER).exists():
        return OpenMHCDays(path)
    if (path / DESCRIPTION).exists():
        return ExportedDays(path)
    what = "no such folder" if not path.exists() else "neither store.json nor dataset_version.json in it"
    raise StoreError(f"{path}: not a day store or OpenMHC data root ({what})")

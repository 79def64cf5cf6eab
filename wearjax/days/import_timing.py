"""How fast Apple Health exports are imported and how much memory that takes, on made exports of two sizes."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from pathlib import Path

from wearjax.days import importing
from wearjax.sources import synthetic_apple_health

SOURCE = "apple-health"


def measure(size_mb: float, *, seed: int = 0) -> dict[str, float]:
    """One import of a made export into a store, by a process of its own.

    Args:
        size_mb: million bytes of XML, in a zip.

    Returns:
        `xml_mb`, `days`, `records`; `seconds` of processor time of the whole import and `wall_seconds`;
        `reading_mb`, `import_mb`: by how much the process's largest memory exceeds that after the import of a
        single day, when the export is read and when the store is written (whose shards are of a fixed size).

    Raises:
        ConfigError: a size below that of one day.
    """
    with tempfile.TemporaryDirectory() as folder:
        export, small = Path(folder, "export.zip"), Path(folder, "day.zip")
        made = synthetic_apple_health.write_export(export, size_mb=size_mb, seed=seed)
        synthetic_apple_health.write_export(small, size_mb=synthetic_apple_health.BYTES_PER_DAY / 1e6)
        # A process that was forked, or that imported much else, would hide the growth.
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            measured = pool.apply(_import, (small, export, Path(folder)))
    return {
        "xml_mb": made.bytes / 1e6,
        "days": made.days,
        "records": sum(made.records.values()),
        **measured,
    }


def rows(size_mb: float) -> list[dict[str, str]]:
    """Rows to print: a tenth of the size, and the size."""
    found = [measure(size) for size in (size_mb / 10, size_mb)]
    return [
        {
            "XML, MB": f"{one['xml_mb']:,.0f}",
            "records": f"{one['records']:,}",
            "days": f"{one['days']:,}",
            "processor seconds": f"{one['seconds']:.1f}",
            "MB/s a core": f"{one['xml_mb'] / one['seconds']:.1f}",
            "records/s": f"{one['records'] / one['seconds']:,.0f}",
            "MB/s by the clock": f"{one['xml_mb'] / one['wall_seconds']:.1f}",
            "memory growth, reading, MB": f"{one['reading_mb']:.0f}",
            "whole import, MB": f"{one['import_mb']:.0f}",
        }
        for one in found
    ]


def _import(small: Path, export: Path, folder: Path) -> dict[str, float]:
    importing.import_days(SOURCE, small, folder / "one")  # loads what is loaded once
    before, reading, cpu, wall = _peak_mb(), [0.0], time.process_time(), time.perf_counter()

    def watch(done: int, total: int) -> None:
        if done >= total:
            reading.append(_peak_mb() - before)

    importing.import_days(SOURCE, export, folder / "all", progress=watch)
    return {
        "seconds": time.process_time() - cpu,
        "wall_seconds": time.perf_counter() - wall,
        "reading_mb": reading[-1],
        "import_mb": _peak_mb() - before,
    }


def _peak_mb() -> float:
    """Largest resident memory of this process so far; NaN where the system does not tell."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return float("nan")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1e3

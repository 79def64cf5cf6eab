"""Where a page goes: one HTML file, which takes the place of an earlier page of this library and of nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from wearjax import writing
from wearjax.errors import WearjaxError

GENERATOR = '<meta name="generator" content="wearjax">'  # of every page; by it an earlier one is known
_HEAD_BYTES = 4096
NAME = "report.html"


def place(folder: Path, out: str | os.PathLike | None = None, *, overwrite: bool = False) -> Path:
    """The file that a page of `folder` goes to: what was asked for (in a folder: `report.html`), else the folder's own.

    Args:
        overwrite: whatever file is there may be replaced.

    Raises:
        WearjaxError: the file that was asked for exists and is no page of this library.
    """
    if out is None:
        return folder / NAME
    target = Path(out) / NAME if Path(out).is_dir() else Path(out)
    if target.exists() and not overwrite and not is_page(target):
        raise WearjaxError(
            f"{target} exists and is not a page of wearjax; name another file, or pass --force (overwrite=True)"
        )
    return target


def is_page(path: Path) -> bool:
    """Whether a file is a page that this library wrote."""
    try:
        with path.open("rb") as stream:
            return GENERATOR.encode() in stream.read(_HEAD_BYTES)
    except OSError:
        return False


def write(html: str, target: Path) -> Path:
    """Writes a page. Raises WearjaxError naming the file where that is impossible."""
    with writing.file(target, error=WearjaxError) as partial:
        # A lone surrogate in a file name or id must not stop the page.
        partial.write_text(html, encoding="utf-8", errors="replace")
    return target

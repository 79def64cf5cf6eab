"""Where a page goes: one HTML file, which takes the place of an earlier page of this library and of nothing else."""

from __future__ import annotations

import os
from pathlib import Path

from wearjax import writing
from wearjax.errors import WearjaxError

GENERATOR = (
    '<meta name="generator" content="wearjax'  # of every page, then its kind; by it an earlier one is known
)
KINDS = ("report", "your days", "questions", "VitalBench")
_HEAD_BYTES = 4096
NAME = "report.html"


def place(
    folder: Path, out: str | os.PathLike | None = None, *, kind: str = "report", overwrite: bool = False
) -> Path:
    """The file that a page of `folder` goes to: what was asked for (in a folder: `report.html`), else the folder's own.

    Args:
        kind: of the page, one of `KINDS`.
        overwrite: whatever file is there may be replaced.

    Raises:
        WearjaxError: the file that was asked for exists and is no page of this kind, or it would lie in a day store.
    """
    if out is None:
        return folder / NAME
    target = Path(out) / NAME if Path(out).is_dir() else Path(out)
    if (target.parent / "store.json").is_file():
        raise WearjaxError(f"{target.parent} is a day store; name another place for the page")
    found = kind_of(target)
    if target.exists() and not overwrite and found not in (kind, ""):
        what = "not a page of wearjax" if found is None else f"a page of another kind ({found})"
        raise WearjaxError(
            f"{target} exists and is {what}; name another file, or pass --force (overwrite=True)"
        )
    return target


def kind_of(path: Path) -> str | None:
    """The kind of a page that this library wrote, empty for an early one that does not tell; None for other files."""
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return None
    _, tag, rest = head.partition(GENERATOR)
    return rest.partition('"')[0].removeprefix(": ") if tag else None


def write(html: str, target: Path) -> Path:
    """Writes a page. Raises WearjaxError naming the file where that is impossible."""
    with writing.file(target, error=WearjaxError) as partial:
        # A lone surrogate in a file name or id must not stop the page.
        partial.write_text(html, encoding="utf-8", errors="replace")
    return target

"""The configurations that come with the library, by name; no accelerator stack is needed to list them."""

from __future__ import annotations

import ast
from pathlib import Path

import wearjax


def folders() -> list[Path]:
    """Where named configurations lie: in an installed package, and in a source checkout."""
    package = Path(wearjax.__file__).parent
    return [package / "configs", package.parent / "configs"]


def descriptions() -> dict[str, str]:
    """The first line of every shipped configuration, by name; none of them is run."""
    files = {file.stem: file for folder in reversed(folders()) for file in folder.glob("*.py")}
    return {name: _first_line(files[name]) for name in sorted(files)}


def _first_line(file: Path) -> str:
    return (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]

"""The shape of the house: who may import whom, and what stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "wearjax"

# From the top floor down: a room imports only from its own and the floors above it.
FLOORS = [
    {
        "channels",
        "day",
        "errors",
        "writing",
        "checksum",
        "json_text",
        "npz",
        "plural",
        "engine",
        "tasks",
        "vitals",
        "daily_metrics",
        "biomarkers",
    },
    {"sources"},
    {"days"},
    {"segments"},
    {"batches"},
    {"layers"},
    {"models"},
    {"objectives"},
    {"train"},
    {"convert"},
    {"predict"},
    {"language"},
    {"scores"},
    {"benchmarks"},
    {"report"},
    {"bench", "demo"},
    {"cli"},
]
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
WITHOUT_JAX = ["sources", "days", "segments", "scores", "benchmarks", "report"]
ACCELERATOR_STACK = {"jax", "jaxlib", "flax", "orbax", "optax", "grain", "torch"}
LINES_MAX = 400


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(file: Path) -> list[tuple[str, int]]:
    """Every wearjax module that a file imports, wherever the import stands, with its line."""
    found = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{file}:{node.lineno}: imports are absolute"
            found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
    return [(name, line) for name, line in found if name.split(".")[0] == "wearjax"]


def test_every_room_has_a_floor():
    rooms = {room_of(file) for file in modules()} - {"__init__", "__main__", "configs"}
    assert rooms <= set(FLOOR_OF), f"rooms without a floor: {rooms - set(FLOOR_OF)}"


@pytest.mark.parametrize("file", modules(), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_go_up_only(file):
    room = room_of(file)
    if room not in FLOOR_OF:
        return
    for name, line in imports(file):
        parts = name.split(".")
        target = parts[1] if len(parts) > 1 else "__init__"
        if target in ("__init__", "__version__"):
            continue
        assert FLOOR_OF[target] <= FLOOR_OF[room], f"{file}:{line}: {room} imports {name} from a floor below"


def test_benchmarks_do_not_import_each_other():
    for file in (PACKAGE / "benchmarks").rglob("*.py"):
        own = file.relative_to(PACKAGE / "benchmarks").parts[0]
        for name, line in imports(file):
            parts = name.split(".")
            shared = len(parts) < 3 or (PACKAGE / "benchmarks" / f"{parts[2]}.py").exists()
            if parts[1:2] == ["benchmarks"] and not shared:
                assert parts[2] == own, f"{file}:{line}: {own} imports {name}"


@pytest.mark.parametrize("room", WITHOUT_JAX)
def test_scoring_side_never_starts_the_accelerator_stack(room):
    names = [
        ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        for file in (PACKAGE / room).rglob("*.py")
    ]
    code = "import sys, importlib\n" + "".join(f"importlib.import_module({n!r})\n" for n in names)
    code += f"print(sorted({ACCELERATOR_STACK!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_files_stay_readable():
    long = {
        str(f.relative_to(PACKAGE)): n
        for f in modules()
        if (n := len(f.read_text().splitlines())) > LINES_MAX
    }
    assert not long, f"files above {LINES_MAX} lines: {long}"


def test_no_catch_all_rooms():
    for file in modules():
        for part in file.relative_to(PACKAGE).parts:
            assert part.removesuffix(".py") not in {
                "utils",
                "util",
                "helpers",
                "helper",
                "common",
                "misc",
                "manager",
            }

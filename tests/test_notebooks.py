"""The notebooks run from the first cell to the last with small settings, and are kept without outputs."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_CELLS = 24
REGISTRY = re.compile(r"pypi|pythonhosted|conda|--index-url|--extra-index-url|--find-links", re.IGNORECASE)

pytest.importorskip("ipykernel", reason="notebooks run in a kernel: pip install 'wearjax[notebooks]'")
nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")


def read(file: Path):
    return nbformat.read(file, as_version=4)


def code_cells(file: Path):
    return [cell for cell in read(file).cells if cell.cell_type == "code"]


def test_all_four_are_here():
    names = [file.stem for file in NOTEBOOKS]
    assert names == [
        "01_quickstart", "02_your_own_export", "03_pretrain_on_gpu_or_tpu", "04_benchmark_your_method",
    ]  # fmt: skip


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda f: f.stem)
def test_kept_without_outputs(file):
    nbformat.validate(read(file))
    for cell in code_cells(file):
        assert cell.outputs == []
        assert cell.execution_count is None
    assert set(json.loads(file.read_text())["metadata"]) == {"kernelspec", "language_info"}
    assert len(read(file).cells) <= MOST_CELLS


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda f: f.stem)
def test_the_first_code_installs_and_the_second_has_the_settings(file):
    cells = code_cells(file)
    assert '"pip", "install"' in cells[0].source
    assert 'find_spec("wearjax")' in cells[0].source
    assert "jax.devices()" in cells[0].source
    assert 'os.environ.get("WEARJAX_NOTEBOOK_SMALL") == "1"' in cells[1].source
    assert not REGISTRY.search(file.read_text())
    for cell in cells:
        compile(cell.source, file.name, "exec")


def test_one_way_to_install():
    first = {re.sub(r"EXTRAS = .*", "", code_cells(file)[0].source) for file in NOTEBOOKS}
    assert len(first) == 1


FIND_SPEC = importlib.util.find_spec


def installed(file: Path, monkeypatch, *, repository: str = "", without=("wearjax",)) -> list[str]:
    """What the first cell hands to pip where these modules are missing."""
    asked = []
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in without else FIND_SPEC(name)
    )
    monkeypatch.setattr(subprocess, "run", lambda command, check: asked.extend(command))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setenv("WEARJAX_REPOSITORY", repository)
    exec(code_cells(file)[0].source.split("\njax = ")[0], {})
    return asked[5:]


ADDRESSES = {
    "https://host.example/me/wearjax": "git+https://host.example/me/wearjax",
    "https://host.example/me/wearjax.git/": "git+https://host.example/me/wearjax.git",
    "git+https://host.example/me/wearjax.git@main": "git+https://host.example/me/wearjax.git@main",
    "git@host.example:me/wearjax.git": "git+ssh://git@host.example/me/wearjax.git",
    "ssh://git@host.example/me/wearjax.git": "git+ssh://git@host.example/me/wearjax.git",
    "host.example/me/wearjax": "git+https://host.example/me/wearjax",
    "https://host.example/wearjax-1-py3-none-any.whl": "https://host.example/wearjax-1-py3-none-any.whl",
}


@pytest.mark.parametrize("repository", ADDRESSES)
def test_the_address_that_one_clones_is_enough(repository, monkeypatch):
    quickstart, *_, benchmark = NOTEBOOKS
    wanted = ADDRESSES[repository]
    assert installed(quickstart, monkeypatch, repository=repository) == [f"wearjax @ {wanted}"]
    assert installed(benchmark, monkeypatch, repository=repository) == [f"wearjax[probes] @ {wanted}"]


def test_a_checkout_is_installed_from_its_folder(monkeypatch, tmp_path):
    assert installed(NOTEBOOKS[3], monkeypatch, repository="/my/checkout/") == ["/my/checkout[probes]"]
    monkeypatch.chdir(ROOT / "notebooks")
    assert installed(NOTEBOOKS[0], monkeypatch) == [str(ROOT)]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="Set REPOSITORY to the address"):
        installed(NOTEBOOKS[0], monkeypatch)


def test_a_clone_beside_the_notebook_is_installed(monkeypatch, tmp_path):
    package = tmp_path / "wearjax" / "wearjax"
    package.mkdir(parents=True)
    (package / "channels.py").touch()
    monkeypatch.chdir(tmp_path)
    folder_alone = importlib.machinery.ModuleSpec("wearjax", None, is_package=True)
    monkeypatch.setattr(f"{__name__}.FIND_SPEC", lambda name: folder_alone)
    assert installed(NOTEBOOKS[0], monkeypatch, without=()) == [str(tmp_path / "wearjax")]


def test_only_what_a_notebook_misses_is_added_to_an_installed_wearjax(monkeypatch):
    said = [
        "numpy>=2",
        "scikit-learn>=1.5; extra == 'probes'",
        'xgboost>=2; extra == "probes"',
        "a; extra == 'probe'",
    ]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: said)
    asked = installed(NOTEBOOKS[3], monkeypatch, without=("sklearn",))
    assert asked == ["scikit-learn>=1.5", "xgboost>=2"]
    assert installed(NOTEBOOKS[0], monkeypatch, without=("sklearn",)) == []
    assert installed(NOTEBOOKS[3], monkeypatch, without=()) == []
    said[1:] = []  # a wearjax from before the extra
    address = "https://host.example/wearjax"
    asked = installed(NOTEBOOKS[3], monkeypatch, repository=address, without=("sklearn",))
    assert asked == [f"wearjax[probes] @ git+{address}"]


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A kernel of this Python, whatever kernels are registered on the machine."""
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "language": "python",
    }
    folder = tmp_path / "jupyter" / "kernels" / "python3"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps({**spec, "display_name": "Python 3"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("WEARJAX_NOTEBOOK_SMALL", "1")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    return "python3"


WRITTEN = {
    "01_quickstart": ["wearjax-quickstart/run/bundle/model_card.md", "wearjax-quickstart/scores/report.html"],
    "02_your_own_export": ["wearjax-own/days/store.json", "wearjax-own/filled/report.html"],
    "03_pretrain_on_gpu_or_tpu": [
        "wearjax-pretraining/run/bundle/bundle.json", "wearjax-pretraining/exported/impute.stablehlo",
    ],
    "04_benchmark_your_method": ["wearjax-benchmark/report.html", "wearjax-benchmark/packet"],
}  # fmt: skip
SAID = {
    "01_quickstart": ["invented, not people"],
    "02_your_own_export": ["Filled store"],
    "03_pretrain_on_gpu_or_tpu": ["stopped at step 4", "resuming from step 4 of 8", "invented, not people"],
    "04_benchmark_your_method": ["day_mean", "week_mean", "steps"],
}


def text(output) -> str:
    """What a cell printed, plainly or as a table for the page."""
    return output.get("text", "") or output.get("data", {}).get("text/plain", "")


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda f: f.stem)
def test_it_runs(file, kernel, tmp_path):
    notebook = read(file)
    nbclient.NotebookClient(
        notebook, timeout=1800, kernel_name=kernel, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    said = "".join(map(text, [output for cell in notebook.cells for output in cell.get("outputs", ())]))
    assert "Traceback" not in said
    assert not [line for line in said.splitlines() if "Warning:" in line and "wearjax" in line]
    assert "ipywidgets" not in said
    assert "IProgress" not in said
    for words in SAID[file.stem]:
        assert words in said, words
    for name in WRITTEN[file.stem]:
        assert (tmp_path / name).exists(), name
    assert (
        len(list(tmp_path.iterdir())) == 3
    )  # its own folder, and the two of the kernel: nothing else is left

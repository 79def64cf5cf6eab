import pytest

from wearjax.convert import torch_checkpoint
from wearjax.errors import CheckpointError
from wearjax.predict.imputers import loading, pypots


def test_a_release_manifest_leads_to_pypots(tmp_path, monkeypatch):
    (tmp_path / torch_checkpoint.MANIFEST).write_text("{}")
    monkeypatch.setattr(pypots.PyPOTSImputer, "load", lambda path: ("loaded", path))
    assert loading.load(tmp_path) == ("loaded", tmp_path)


def test_any_other_folder_must_be_a_bundle(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(CheckpointError, match="not a bundle"):
            loading.load(path)

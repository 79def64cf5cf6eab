"""Finished predictions on disk: read back as they were, refused when made with something else."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from wearjax.benchmarks.openmhc import prediction_files
from wearjax.benchmarks.openmhc.prediction_files import TaskAnswers
from wearjax.errors import ConfigError, StoreError

USERS = ("a", "b", "c")
TRUTH = np.array([0.0, 1.0, 1.0])
ANSWERS = TaskAnswers(np.array([1.0, 0.0, 1.0]), np.array([0.1 + 0.2, 1 / 3, 2 / 3]), 1, 0.5)
SETTINGS = {"split": "test", "method": {"class": "x.Y"}}


@pytest.fixture
def file(tmp_path):
    file = prediction_files.file_of(tmp_path, "my method", "Peripheral/Systemic Vascular Disease", "test")
    prediction_files.write(file, ANSWERS, users=USERS, y_true=TRUTH, settings=SETTINGS)
    return file


def test_layout(file, tmp_path):
    assert file == tmp_path / "my_method" / "Peripheral_Systemic_Vascular_Disease" / "test.parquet"
    table = pq.read_table(file)
    assert table.column_names == ["uid", "y_true", "y_pred", "y_proba"]
    assert table["uid"].to_pylist() == list(USERS)
    assert table["y_true"].to_pylist() == TRUTH.tolist()


def test_reads_back_every_bit(file):
    found = prediction_files.read(file, users=USERS, settings=SETTINGS)
    np.testing.assert_array_equal(found.y_pred, ANSWERS.y_pred)
    np.testing.assert_array_equal(found.y_proba, ANSWERS.y_proba)
    assert (found.n_substituted, found.seconds) == (1, 0.5)


def test_a_table_without_its_description_is_unfinished(file):
    file.with_suffix(".json").unlink()
    assert prediction_files.read(file, users=USERS, settings=SETTINGS) is None
    assert prediction_files.read(file.with_name("validation.parquet"), users=USERS, settings=SETTINGS) is None


def test_a_failed_write_leaves_no_finished_pair(file, monkeypatch):
    def broken(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(prediction_files.result_files, "write_table", broken)
    with pytest.raises(KeyboardInterrupt):
        prediction_files.write(file, ANSWERS, users=USERS, y_true=TRUTH, settings=SETTINGS)
    assert prediction_files.read(file, users=USERS, settings=SETTINGS) is None


def test_other_settings_are_named(file):
    with pytest.raises(ConfigError, match=r"made with another method \(.*x\.Y.*z\.Y.*--force"):
        prediction_files.read(file, users=USERS, settings={"split": "test", "method": {"class": "z.Y"}})
    with pytest.raises(ConfigError, match="another label_window"):
        prediction_files.read(file, users=USERS, settings={**SETTINGS, "label_window": "forward"})


def test_damaged_files_are_named(file):
    with pytest.raises(StoreError, match="not the participants"):
        prediction_files.read(file, users=("a", "b", "d"), settings=SETTINGS)
    file.with_suffix(".json").write_text(json.dumps({"settings": SETTINGS}))
    with pytest.raises(StoreError, match=r"test\.parquet: not readable as predictions"):
        prediction_files.read(file, users=USERS, settings=SETTINGS)


def test_names_of_methods_must_be_folders_of_their_own():
    prediction_files.check_names(("a", "b c"))
    with pytest.raises(ConfigError, match="'a b' and 'a/b' would share the folder 'a_b'"):
        prediction_files.check_names(("a b", "a/b"))
    for name in ("", "..", "a\\b"):
        with pytest.raises(ConfigError, match="not usable as the name of a folder"):
            prediction_files.check_names((name,))

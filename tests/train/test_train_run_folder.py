from __future__ import annotations

import json

import pytest

from wearjax.errors import ConfigError
from wearjax.train import run_folder

CONFIG = {"seed": 1, "data": {"batch_size": 8, "workers": 0}, "loop": {"steps": 4, "devices": None}}


def changed(section, **values):
    return CONFIG | {section: CONFIG[section] | values}


@pytest.fixture
def run(tmp_path):
    out = tmp_path / "run"
    run_folder.write_config(out, CONFIG, normalization={"means": [0.0]}, run={"steps": 4})
    return out


def test_the_same_configuration_opens_with_its_facts(run):
    recorded = run_folder.open_run(run, CONFIG, force=False)
    assert recorded["normalization"] == {"means": [0.0]}
    assert recorded["run"] == {"steps": 4}
    assert recorded["versions"]["wearjax"]


def test_how_may_change_and_what_may_not(run):
    assert run_folder.open_run(run, changed("data", workers=4), force=False)
    assert run_folder.open_run(run, changed("loop", devices=2), force=False)
    with pytest.raises(ConfigError, match=r"with data\.batch_size 8, now 16; pass --force"):
        run_folder.open_run(run, changed("data", batch_size=16), force=False)


def test_the_first_difference_is_named_in_order():
    other = {"seed": 2, "data": {"batch_size": 9, "workers": 0}, "loop": CONFIG["loop"]}
    assert run_folder.first_difference(CONFIG, other) == ("seed", 1, 2)
    assert run_folder.first_difference(CONFIG, CONFIG) is None
    assert run_folder.first_difference(CONFIG, CONFIG | {"new": 1}) == ("new", None, 1)
    assert run_folder.first_difference(CONFIG | {"old": 1}, CONFIG) == ("old", 1, None)


def test_new_and_empty_folders_are_new_runs(tmp_path):
    assert run_folder.open_run(tmp_path / "none", CONFIG, force=False) is None
    assert run_folder.open_run(tmp_path, CONFIG, force=False) is None


def test_force_removes_a_run(run):
    assert run_folder.open_run(run, changed("data", batch_size=16), force=True) is None
    assert not run.exists()


def test_a_damaged_record_is_one_line(run):
    (run / "config.json").write_text(json.dumps(CONFIG)[:-5])
    with pytest.raises(ConfigError, match=r"config.json: not readable .*; pass --force to start over"):
        run_folder.open_run(run, CONFIG, force=False)


def test_two_processes_cannot_train_in_one_folder(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with (
        run_folder.hold(tmp_path),
        pytest.raises(ConfigError, match="another process is training in this folder"),
        run_folder.hold(tmp_path),
    ):
        pass
    with run_folder.hold(tmp_path):  # free again
        pass

import json

import fake_run_folder
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wearjax.errors import WearjaxError
from wearjax.report import run_folder


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    fake_run_folder.write_scores(tmp_path, fake_run_folder.score_rows({"lsm2": 0.4, "locf": 0.0}, rng))
    fake_run_folder.write_metrics(tmp_path, rng, steps=100)
    fake_run_folder.write_coverage(tmp_path, rng, participants=2, days=3)
    fake_run_folder.write_gallery(tmp_path, rng, methods=("lsm2",), days=1)
    return tmp_path


def test_reads_what_is_there_and_names_what_is_not(folder):
    run = run_folder.read(folder)
    assert run.absent == {"config.json", "results.json"}
    assert run.scores[0].method == "lsm2"
    assert list(run.gallery.imputed) == ["lsm2"]
    assert run.metrics[0]["step"] == 10
    assert run.cut_lines == 0
    assert not run.is_imputation_of_recordings


def test_last_line_cut_by_a_stop_is_counted_others_are_errors(folder):
    file = folder / "metrics.jsonl"
    whole = file.read_text()
    file.write_text(whole + '{"step": 110, "lo')
    run = run_folder.read(folder)
    assert run.cut_lines == 1
    assert run.metrics[-1]["step"] == 100
    file.write_text("{broken\n" + whole)
    with pytest.raises(WearjaxError, match=r"metrics.jsonl: line 1 is not a metrics record"):
        run_folder.read(folder)


def test_steps_written_again_after_a_resume_count_once(tmp_path):
    lines = [{"step": s, "loss": loss} for s, loss in ((1, 3.0), (2, 2.0), (3, 9.0), (2, 2.5), (3, 1.0))]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert [(r["step"], r["loss"]) for r in run_folder.read(tmp_path).metrics] == [
        (1, 3.0),
        (2, 2.5),
        (3, 1.0),
    ]


def test_missing_numbers_of_a_score_become_nan(tmp_path):
    table = {"method": ["a"], "metric": ["skill"], "scope": ["overall"], "point": [None], "mean": [0.5]}
    pq.write_table(pa.table(table | {"ci_lo": [None], "ci_hi": [0.7]}), tmp_path / "scores.parquet")
    (score,) = run_folder.read(tmp_path).scores
    assert np.isnan(score.point)
    assert np.isnan(score.ci_lo)
    assert (score.mean, score.ci_hi, score.n_boot) == (0.5, 0.7, 0)


@pytest.mark.parametrize(
    "file", ["scores.parquet", "predictions/gallery.npz", "coverage.npz", "config.json", "results.json"]
)
@pytest.mark.parametrize("content", [b"", b"\x00\xff garbage", b"[1, 2]", b"PK\x03\x04 cut", b"PAR1"])
def test_corrupt_file_is_named_in_one_line(folder, file, content):
    (folder / file).write_bytes(content)
    with pytest.raises(WearjaxError) as error:
        run_folder.read(folder)
    assert file.rpartition("/")[2] in str(error.value)
    assert "\n" not in str(error.value)


def test_truncated_archives_are_errors(folder):
    for name in ("predictions/gallery.npz", "coverage.npz", "scores.parquet"):
        file = folder / name
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(WearjaxError, match=file.name):
            run_folder.read(folder)
        file.write_bytes(whole)
    run_folder.read(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": np.zeros((1, 19, 1440), np.int32)}, "values must be"),
        ({"target": np.zeros((1, 19, 1440), np.float32)}, "target must be"),
        ({"imputed/lsm2": np.zeros((2, 19, 1440), np.float32)}, "lsm2 must be"),
        ({"date": np.asarray(["2024-01-01"] * 2)}, "date must have shape"),
        ({"scenario": None}, "gallery without scenario"),
        ({"participant": np.asarray([{"a": 1}], dtype=object)}, "not a readable gallery"),
    ],
)
def test_gallery_that_does_not_fit_is_refused(folder, change, said):
    file = folder / "predictions" / "gallery.npz"
    arrays = dict(np.load(file)) | change
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(WearjaxError, match=said):
        run_folder.read(folder)


def test_score_table_without_a_column_is_refused(tmp_path):
    pq.write_table(pa.table({"method": ["a"], "metric": ["skill"]}), tmp_path / "scores.parquet")
    with pytest.raises(WearjaxError, match="without column scope, point, mean, ci_lo, ci_hi"):
        run_folder.read(tmp_path)

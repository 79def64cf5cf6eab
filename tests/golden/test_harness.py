"""The harness itself: it finds further cases, and cannot pass by finding none or by not looking."""

from __future__ import annotations

import json

import harness
import numpy as np
import pytest

from wearjax.segments import masks

SEED = 11


def write(folder, name, content):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))


def further_case() -> dict:
    """A masks case of another length and id, with the answer of the code under test."""
    spec = {"C": 19, "T": 600, "fill": [1] * 19, "runs": [[0, 100, 200, None], [7, 30, 90, 0]]}
    values = harness.run_length_day(spec)
    mask, applicable = masks.make_mask("random_noise", values, ~np.isnan(values), np.random.default_rng(SEED))
    expected = {
        "applicable": applicable,
        "n_masked": int(mask.sum()),
        "per_channel": mask.sum(axis=1).tolist(),
        "runs": harness.mask_runs(mask),
        "sha256_packbits": harness.packbits_sha256(mask),
    }
    return {"id": "anything", "raw_day": spec, "seed": SEED, "expected": {"random_noise": expected}}


def test_further_cases_run_and_can_fail(tmp_path):
    right, wrong = further_case(), further_case()
    wrong["expected"]["random_noise"]["sha256_packbits"] = "0" * 64
    write(tmp_path, "deep/down/more.json", {"family": "masks", "cases": [right, wrong]})
    write(tmp_path, "table.json", {"source": "not a case file", "cases": 3})
    write(tmp_path, "list.json", [1, 2])
    cases, problems = harness.find_cases(tmp_path)
    assert not problems
    assert [case.family for case in cases] == ["masks", "masks"]
    harness.run(cases[0])
    with pytest.raises(AssertionError, match="random_noise"):
        harness.run(cases[1])


def test_finding_nothing_is_a_problem(tmp_path):
    assert "no such folder" in harness.find_cases(tmp_path / "none")[1][0]
    assert "no golden case" in harness.find_cases(tmp_path)[1][0]
    write(tmp_path, "a.json", {"family": "masks", "cases": []})
    assert "no golden case" in harness.find_cases(tmp_path)[1][0]
    write(tmp_path, "broken.json", '{"family"')
    assert "broken.json: not JSON" in harness.find_cases(tmp_path)[1][0]


def test_unknown_families_and_ops_fail(tmp_path):
    write(tmp_path, "a.json", {"family": "astrology", "cases": [{}]})
    write(tmp_path, "b.json", {"family": "preprocess", "cases": [{"op": "upside_down"}]})
    cases, _ = harness.find_cases(tmp_path)
    for case in cases:
        with pytest.raises(LookupError, match="no checker for family"):
            harness.run(case)


def test_every_copied_case_file_is_covered():
    cases, problems = harness.find_cases(harness.HERE)
    assert not problems
    for family in {case.family for case in cases}:
        assert (harness.HERE / f"check_{family}.py").exists()


def test_folder_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("WEARJAX_GOLDEN", str(tmp_path))
    assert harness.folder() == tmp_path
    monkeypatch.delenv("WEARJAX_GOLDEN")
    assert harness.folder() == harness.HERE


def test_reads_nulls_and_infinities():
    np.testing.assert_array_equal(
        harness.numbers([[None, "inf"], ["-inf", 1]]), [[np.nan, np.inf], [-np.inf, 1]]
    )
    harness.close([np.nan, np.inf], [None, "inf"])
    for wrong in ([1.0, "inf"], [None, "-inf"], [None]):
        with pytest.raises(AssertionError):
            harness.close([np.nan, np.inf], wrong)
    with pytest.raises(AssertionError):
        harness.close(1 + 2e-6, 1.0)


def test_mask_runs():
    mask = np.array([[1, 1, 0, 1], [0, 0, 0, 0], [0, 1, 1, 0]], bool)
    assert harness.mask_runs(mask) == [[0, 0, 2], [0, 3, 4], [2, 1, 3]]


def test_a_file_that_is_one_case_is_known_by_its_keys(tmp_path):
    write(tmp_path, "one.json", {"true": [], "pred": [], "expected": {}, "description": "any"})
    write(tmp_path, "more/two.json", {"model": "M", "weights": {}, "input_x": [], "output": []})
    write(tmp_path, "three.json", {"rule": "mean", "cases": ["one"], "expected": {}})
    write(tmp_path, "four.json", {"csv_rows": []})
    write(tmp_path, "five.json", {"note": "", "counts": {}})
    write(tmp_path, "six.json", {"A": {"val_or_test_first_cases": []}, "B": {"val_or_test_first_cases": []}})
    write(tmp_path, "seven.json", {"note": "published", "tables": {"A": {}}})
    cases, problems = harness.find_cases(tmp_path)
    assert not problems
    assert {case.file.stem: case.family for case in cases} == {
        "one": "vital_metrics",
        "two": "vital_forward",
        "three": "vital_metrics_aggregate",
        "four": "vital_windowing",
        "five": "vital_parameter_counts",
        "six": "vital_masks",
    }
    aggregate = next(case for case in cases if case.family == "vital_metrics_aggregate")
    assert harness.sibling(aggregate.case, "one")["description"] == "any"


def test_a_wrong_forecast_fails():
    case = next(c for c in harness.find_cases(harness.HERE)[0] if c.case.get("model") == "DLinear").case
    case["output"][0][0][0] += 1e-4
    with pytest.raises(AssertionError, match="float64"):
        harness.run(harness.GoldenCase(harness.HERE, "vital_forward", "changed", case))

"""Golden cases of the derived seeds and the draw matrix."""

from __future__ import annotations

import harness

from wearjax.scores import bootstrap


@harness.checks("bootstrap_seeding")
def check(case: dict) -> None:
    seed = bootstrap.derived_seed(case["seed"], case["tag"])
    assert seed == case["derived_seed"]
    matrix = bootstrap.resample_matrix(seed, case["n_users"], case["n_boot"])
    assert matrix.tolist() == case["index_matrix"]

"""Every golden case is one test; see `harness` for how a family gets its checker."""

from __future__ import annotations

import harness
import pytest

CASES, PROBLEMS = harness.find_cases(harness.folder())


def test_the_folder_holds_readable_cases():
    assert not PROBLEMS, "\n".join(PROBLEMS)


@pytest.mark.parametrize("golden", CASES, ids=lambda golden: golden.name)
def test_agrees_with_the_reference(golden: harness.GoldenCase):
    harness.run(golden)

"""`wearjax data synth` writes labels beside the days."""

from __future__ import annotations

import json

import numpy as np

from wearjax.cli import data
from wearjax.days import task_labels
from wearjax.days.open import open_days
from wearjax.sources import synthetic_labels


def test_labels_lie_beside_the_days(tmp_path):
    lookups = {}
    for name, shuffle in (("plain", False), ("shuffled", True)):
        data.synth(out=tmp_path / name, participants=8, days=2, seed=3, shuffle_labels=shuffle)
        lookups[name] = task_labels.read_lookup(tmp_path / name)
        provenance = json.loads((tmp_path / name / "store.json").read_text())["provenance"]
        assert provenance["shuffled_labels"] is shuffle
    days = open_days(tmp_path / "plain")
    assert lookups["plain"].tasks == tuple(synthetic_labels.RULES)
    assert len(lookups["plain"]) == days.retained.sum()
    plain, shuffled = (lookups[name].cohort("age", set(days.participants)) for name in ("plain", "shuffled"))
    assert plain.users == shuffled.users
    assert sorted(plain.labels) == sorted(shuffled.labels)
    assert not np.array_equal(plain.labels, shuffled.labels)

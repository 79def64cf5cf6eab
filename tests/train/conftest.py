"""A store of 24 small days in the form that `open_days` reads."""

from __future__ import annotations

import pytest
import toy_pretraining


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return toy_pretraining.write_store(tmp_path_factory.mktemp("days") / "store")

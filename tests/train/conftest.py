"""A store of 24 small days in the form that `open_days` reads."""

from __future__ import annotations

import pytest
import toy_pretraining

from wearjax.train import host


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return toy_pretraining.write_store(tmp_path_factory.mktemp("days") / "store")


@pytest.fixture(autouse=True)
def quick_compilation(monkeypatch):
    """The compiler option of long runs lengthens compilation by a third, which is most of what these tests do."""
    monkeypatch.setattr(host, "compiler_options", lambda platform: None)

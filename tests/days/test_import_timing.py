"""The measurement of imports, on the smallest export, and its options."""

from __future__ import annotations

import pytest

from wearjax import bench
from wearjax.days import import_timing
from wearjax.errors import ConfigError
from wearjax.sources import synthetic_apple_health


def test_one_import_is_timed(tmp_path):
    export = tmp_path / "export.zip"
    synthetic_apple_health.write_export(export, size_mb=0.8)
    found = import_timing._import(export, export, tmp_path)
    assert found["seconds"] > 0
    assert found["wall_seconds"] > 0
    assert 0 <= found["reading_mb"] <= found["import_mb"]


def test_rows_of_two_sizes(monkeypatch):
    sizes = []

    def measured(size_mb):
        sizes.append(size_mb)
        return {
            "xml_mb": size_mb,
            "days": 3,
            "records": 1000,
            "seconds": 2.0,
            "wall_seconds": 4.0,
            "reading_mb": 5.0,
            "import_mb": 6.0,
        }

    monkeypatch.setattr(import_timing, "measure", measured)
    [(_, rows)] = bench.run("import", repeats=1, size_mb=100)
    assert sizes == [10, 100]
    assert rows[1]["MB/s a core"] == "50.0"
    assert rows[1]["records/s"] == "500"
    bench.run("import", repeats=1)
    assert sizes[2:] == [100, 1000]


def test_a_size_belongs_to_the_import():
    with pytest.raises(ConfigError, match="--size-mb: only for wearjax bench import"):
        bench.run("loader", repeats=1, size_mb=5)
    with pytest.raises(ConfigError, match="a made day alone"):
        bench.run("import", repeats=1, size_mb=0.01)

"""What a person is told of the devices."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import pytest

from wearjax.errors import ConfigError
from wearjax.train import devices


@pytest.fixture
def nvidia(monkeypatch):
    """A machine with an NVIDIA driver, of which nobody hides a GPU."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices.shutil, "which", lambda name: f"/usr/bin/{name}")
    before = jax.config.jax_platforms
    jax.config.update("jax_platforms", None)
    yield
    jax.config.update("jax_platforms", before)


def test_number_and_kind(monkeypatch):
    assert devices.lines()[0] == f"devices: {jax.device_count()} cpu"
    found = [SimpleNamespace(platform="gpu", device_kind="NVIDIA H200")] * 2
    monkeypatch.setattr(jax, "devices", lambda: found)
    assert devices.lines() == ["devices: 2 gpu (NVIDIA H200)"]


def test_a_gpu_that_is_not_used_is_named(nvidia, monkeypatch):
    assert "pip install 'wearjax[cuda]'" in devices.lines()[1]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert len(devices.lines()) == 1
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    jax.config.update("jax_platforms", "cpu")
    assert len(devices.lines()) == 1


def test_no_warning_without_one(nvidia, monkeypatch):
    monkeypatch.setattr(devices, "_has_nvidia", lambda: False)
    assert len(devices.lines()) == 1


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("Unable to initialize backend 'cuda':\n no GPU"), "backend 'cuda': no GPU"),
        (AssertionError(), "AssertionError"),
    ],
)
def test_a_platform_that_is_absent_is_one_line(monkeypatch, error, said):
    def failing():
        raise error

    monkeypatch.setattr(jax, "devices", failing)
    with pytest.raises(
        ConfigError, match=rf"^JAX finds no device, .*{said}\); .*'wearjax\[cuda\]'"
    ) as caught:
        devices.lines()
    assert "\n" not in str(caught.value)

"""The devices that JAX sees, and several processes that train one model together on theirs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import jax
import numpy as np

from wearjax.errors import ConfigError, one_line


def start_multi_host(
    *, coordinator: str | None = None, processes: int | None = None, process: int | None = None
) -> None:
    """Joins this process to the others of the job; call it before anything else touches a device.

    Without arguments the cluster is asked (Cloud TPU pods, Slurm, Open MPI).

    Args:
        coordinator: `host:port` of the first process.
        processes: how many there are.
        process: which one this is, from 0.

    Raises:
        ConfigError: the job cannot be recognised, or the coordinator not reached.
    """
    try:
        jax.distributed.initialize(coordinator, processes, process)
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"--multi-host: cannot join the job ({reason})") from error


def lines() -> list[str]:
    """What JAX computes on, e.g. `devices: 2 gpu (NVIDIA H200)`, and a warning where it overlooks a GPU.

    Raises:
        ConfigError: the platform that was asked for (JAX_PLATFORMS) is not there.
    """
    try:
        found = jax.devices()
    except (RuntimeError, AssertionError) as error:  # JAX asserts that it knows the platform
        asked = getattr(jax.config, "jax_platforms", None)
        raise ConfigError(
            f"JAX finds no device, JAX_PLATFORMS is {asked!r} ({one_line(error)}); GPUs need pip install "
            "'wearjax[cuda]', TPUs pip install 'wearjax[tpu]'"
        ) from error
    platform, kind = found[0].platform, found[0].device_kind
    told = [f"devices: {len(found)} {platform}" + ("" if kind == platform else f" ({kind})")]
    # Where somebody chose the platform, or hid the GPUs, there is nothing to say.
    hidden = getattr(jax.config, "jax_platforms", None) or os.environ.get("CUDA_VISIBLE_DEVICES") in (
        "",
        "-1",
    )
    if platform == "cpu" and not hidden and _has_nvidia():
        told.append(
            "warning: this machine has an NVIDIA GPU, but JAX computes on its CPU; install its libraries with: "
            "pip install 'wearjax[cuda]'"
        )
    return told


def _has_nvidia() -> bool:
    return Path("/proc/driver/nvidia").exists() or shutil.which("nvidia-smi") is not None


def is_lead() -> bool:
    """Whether this process writes what only one may write."""
    return jax.process_index() == 0


def wait(name: str) -> None:
    """Returns when every process has come here."""
    if jax.process_count() > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)


def any_of(flag: bool) -> bool:
    """Whether the flag is set in any process; all must ask at the same step."""
    if jax.process_count() == 1:
        return flag
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.asarray(flag))))

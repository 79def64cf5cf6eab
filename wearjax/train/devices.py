"""Several processes that train one model together: starting them, waiting, and deciding together."""

from __future__ import annotations

import jax
import numpy as np

from wearjax.errors import ConfigError


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

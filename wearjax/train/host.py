"""How training steps are compiled for the machine they run on."""

from __future__ import annotations

import jax


def compiler_options(platform: str) -> dict[str, bool] | None:
    """Options for compiling a training step for the devices of a platform.

    On CPUs the older code generation for fused loops: measured 11 % faster on a WBM step, no difference on LSM-2.
    """
    if platform != "cpu" or jax.__version_info__ >= (0, 11):  # measured in 0.10; the option may go
        return None
    return {"xla_cpu_use_fusion_emitters": False}

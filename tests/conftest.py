"""Set before any test touches JAX: eight simulated devices, a compilation cache, no hypothesis deadlines."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

# In the environment, so that the processes that tests start share the cache.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"wearjax-xla-{os.getuid()}")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

import hypothesis
import jax

jax.config.update("jax_num_cpu_devices", 8)

hypothesis.settings.register_profile("wearjax", deadline=None, derandomize=True)
hypothesis.settings.load_profile("wearjax")

"""Compiler options of training steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from wearjax.train import host

compiler_options = host.compiler_options  # before the tests of training replace it


def test_options_of_this_platform_are_ones_that_the_compiler_takes():
    options = compiler_options(jax.default_backend())
    found = jax.jit(lambda x: jnp.exp(x).sum(), compiler_options=options)(jnp.arange(3.0))
    np.testing.assert_allclose(found, np.exp([0.0, 1.0, 2.0]).sum(), rtol=1e-6)


def test_accelerators_get_none():
    assert compiler_options("gpu") is None
    assert compiler_options("tpu") is None

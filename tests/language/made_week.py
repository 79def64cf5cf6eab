"""Days of hours for the tests of the language room."""

import numpy as np


def days(n_days=7, seed=0):
    """(n_days, 24, 38) with a plain rhythm: asleep until 7, walking in hour 12, heart rate about 72 bpm."""
    rng = np.random.default_rng(seed)
    values = np.zeros((n_days, 24, 19), np.float32)
    values[:, :, [0, 3]] = 60 * rng.integers(0, 100, (n_days, 24, 1))
    values[:, :, [1, 4]] = 30 * rng.integers(0, 100, (n_days, 24, 1))
    values[:, :, 5] = 1.2 + 0.1 * rng.integers(-2, 3, (n_days, 24))
    values[:, :, 6] = 1000 * rng.integers(20, 90, (n_days, 24))
    values[:, :7, 7] = 1
    values[:, 12, 9] = 1
    return np.concatenate([values, np.isnan(values)], axis=2).astype(np.float32)


def hide(array, *where):
    """Marks values as missing, in both halves."""
    array[(*where, slice(0, 19))] = np.nan
    array[(*where, slice(19, 38))] = 1
    return array

"""Reads `.npz` and `.npy` files that may be damaged."""

from __future__ import annotations

import os

import numpy as np


def load(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """All arrays of a file, by name; never unpickles.

    Raises FileNotFoundError, and ValueError in one line for all else that is wrong: archives, compression and array
    headers each have errors of their own, and a damaged header may ask for more memory than there is.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            if not isinstance(stored, np.lib.npyio.NpzFile):
                raise ValueError("a single array, expected an archive of arrays")
            arrays = {name: stored[name] for name in stored.files}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):  # a member without the magic of an array comes as its bytes
                raise ValueError(f"{name} is no array")
        return arrays
    except FileNotFoundError:
        raise
    except Exception as error:
        told = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(told) from error


def mapped(path: str | os.PathLike) -> np.ndarray:
    """One array of an `.npy` file, memory-mapped; never unpickles. Raises FileNotFoundError, ValueError as `load`."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(found, np.ndarray):
            raise ValueError("an archive, expected a single array")
        return found
    except FileNotFoundError:
        raise
    except Exception as error:  # a header is a Python literal, and its parser has errors of its own
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from error

"""The allocator setting that training verbs make."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, resource, sys
from wearjax.cli import memory

free = ctypes.CDLL(None).free
free.argtypes = [ctypes.c_void_p]
allocate = ctypes.CDLL(None).malloc
allocate.restype, allocate.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
SIZE = 2**28


def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = allocate(SIZE)
    ctypes.memset(block, 1, SIZE)
    free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


if sys.argv[1] == "keep":
    assert memory.keep_freed()
faults()
print(faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_a_block_used_again_takes_no_page_faults():
    kept, given_back = (
        int(subprocess.run([sys.executable, "-c", PROGRAM, word], capture_output=True, check=True).stdout)
        for word in ("keep", "give back")
    )
    assert kept < 100
    assert given_back > 1000 * max(kept, 1) or given_back > 60_000

import struct

import numpy as np
import pytest

from wearjax.daily_metrics import INDEX, N_METRICS
from wearjax.language import record_images, record_text
from wearjax.sources.daily_record import DailyRecord


def shown(keys, *, changed=0.0):
    values = np.full((40, N_METRICS), np.nan)
    for key in keys:
        values[:, INDEX[key]] = np.arange(40) + 40.0
    values[10:20] = np.nan
    values[35, INDEX["rhr"]] += changed
    return record_text.table(DailyRecord("u", np.arange(100, 140), values), 139, window=28, history=12)


def size(png):
    assert png.startswith(b"\x89PNG")
    return struct.unpack(">II", png[16:24])


@pytest.mark.parametrize("draw", [record_images.image_grid, record_images.image_grouped])
def test_same_bytes_for_the_same_record_only(draw):
    first = draw(shown(["rhr", "steps"]), dpi=30)
    assert draw(shown(["rhr", "steps"]), dpi=30) == first
    assert draw(shown(["rhr", "steps"], changed=9.0), dpi=30) != first


def test_a_row_more_for_each_two_metrics():
    two, three = (
        record_images.image_grid(shown(keys), dpi=20) for keys in (["rhr"], ["rhr", "hrv", "steps"])
    )
    assert size(three)[1] == 2 * size(two)[1]


def test_a_row_for_each_domain():
    one, both = (
        record_images.image_grouped(shown(keys), dpi=20) for keys in (["rhr", "hrv"], ["rhr", "steps"])
    )
    assert size(both)[1] == 2 * size(one)[1]

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from wearjax.scores import rank

MAYBE = st.one_of(st.just(float("nan")), st.integers(0, 3).map(float))


@given(hnp.arrays(float, (4, 3), elements=MAYBE), st.booleans())
def test_ranks_agree_with_scipy_among_those_present(values, descending):
    ranks = rank.average_ranks(values, descending=descending)
    for column in range(3):
        present = np.isfinite(values[:, column])
        keyed = -values[present, column] if descending else values[present, column]
        np.testing.assert_array_equal(ranks[present, column], stats.rankdata(keyed))
        assert np.isnan(ranks[~present, column]).all()

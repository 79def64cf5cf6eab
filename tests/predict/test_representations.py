"""Vectors of weeks in padded batches, and how retrieval is counted."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from wearjax.convert.bundle import Bundle
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import ConfigError, MethodError
from wearjax.models import wbm
from wearjax.predict import representations

TINY = wbm.WBMConfig(hours=6, dim=8, tokenizer_hidden=4, depth=1, d_state=4, headdim=4, ffn_ratio=1)
STATS = NormalizationStats(np.zeros(19), np.where(np.arange(19) < 7, 2.0, 1.0), 0.0)


def made_bundle(kind: str = "wbm") -> Bundle:
    graph, state = nnx.split(nnx.eval_shape(lambda: wbm.WBM(TINY, rngs=nnx.Rngs(0))))
    rng = np.random.default_rng(0)
    state = jax.tree.map(lambda p: jnp.asarray(rng.normal(0, 0.4, p.shape), p.dtype), state)
    return Bundle(kind, TINY, nnx.merge(graph, state), STATS)


def test_vectors_do_not_depend_on_the_batch():
    rng = np.random.default_rng(1)
    weeks = rng.normal(size=(5, 6, 19)).astype(np.float32)
    weeks[rng.random(weeks.shape) < 0.3] = np.nan
    weeks[3] = np.nan
    encode = representations.WeekEncoder(made_bundle(), batch_size=2)
    vectors = encode(weeks)
    assert vectors.shape == (5, 8)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors[::-1], encode(weeks[::-1]), rtol=1e-5, atol=1e-6)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-2
    assert encode(weeks[:0]).shape == (0, 8)
    with pytest.raises(MethodError, match=r"expected \(week, 6, 19\)"):
        encode(weeks.swapaxes(1, 2))
    with pytest.raises(MethodError, match="kind 'wbm'"):
        representations.WeekEncoder(made_bundle("lsm2"))


def restated(vectors, participants, k):
    hits, top_k, chance = [], [], []
    for i in range(len(vectors)):
        others = [j for j in range(len(vectors)) if j != i]
        same = [participants[j] == participants[i] for j in others]
        if not any(same):
            continue
        cosine = [
            vectors[i] @ vectors[j] / np.linalg.norm(vectors[i]) / np.linalg.norm(vectors[j]) for j in others
        ]
        ranked = np.argsort(cosine)[::-1]
        hits.append(same[ranked[0]])
        top_k.append(any(same[j] for j in ranked[:k]))
        chance.append(sum(same) / len(others))
    return np.mean(hits), np.mean(top_k), np.mean(chance), len(hits)


@pytest.mark.parametrize("k", [1, 3, 50])
def test_retrieval_is_the_plain_count(k, monkeypatch):
    rng = np.random.default_rng(2)
    participants = np.array(list("aabbbbcdddee"))[rng.permutation(12)]
    vectors = rng.normal(size=(12, 3)) + np.eye(5)[np.searchsorted(list("abcde"), participants)][:, :3]
    monkeypatch.setattr(representations, "_ROWS_AT_ONCE", 4)
    found = representations.retrieval_accuracy(vectors * rng.uniform(1, 9, (12, 1)), participants, k=k)
    top1, recall, chance, asked = restated(vectors, participants, k)
    assert found["top1"] == pytest.approx(top1)
    assert found["recall_at_k"] == pytest.approx(recall)
    assert found["chance"] == pytest.approx(chance)
    assert (found["weeks"], found["asked"], found["participants"], found["k"]) == (12, asked, 5, k)
    assert asked == 11


def test_participants_apart_and_collapsed():
    participants = np.repeat(np.arange(4), 3)
    apart = representations.retrieval_accuracy(np.eye(4)[participants], participants)
    assert apart["top1"] == apart["recall_at_k"] == 1
    assert apart["chance"] == pytest.approx(2 / 11)
    same = representations.retrieval_accuracy(np.ones((12, 3)), participants)
    assert same["top1"] == same["recall_at_k"] == 0  # ties count against


def test_nobody_to_ask_and_impossible_input():
    alone = representations.retrieval_accuracy(np.eye(3), np.arange(3))
    assert np.isnan(alone["top1"])
    assert (alone["weeks"], alone["asked"]) == (3, 0)
    with pytest.raises(ConfigError, match="expected one each"):
        representations.retrieval_accuracy(np.eye(3), np.arange(2))
    with pytest.raises(ConfigError, match="finite"):
        representations.retrieval_accuracy(np.full((2, 2), np.nan), np.zeros(2))
    with pytest.raises(ConfigError, match="k must"):
        representations.retrieval_accuracy(np.eye(2), np.zeros(2), k=0)

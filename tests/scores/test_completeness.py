from types import SimpleNamespace

import pytest

from wearjax.scores import completeness


def line(method, scope, metric="skill", n=5):
    return SimpleNamespace(method=method, metric=metric, scope=scope, n_participants=n)


@pytest.mark.parametrize(
    ("leaf", "scopes"),
    [
        ("channel_5", ("overall", "physiology")),
        ("channel_12", ("overall", "workout")),
        ("task:sleep_gap:ch_3", ("overall", "semantic", "sleep_gap")),
        ("task:signal_slice:ch_6", ("overall", "signal_slice", "cat:physiology")),
        ("task:random_noise:cat_collapsed:sleep", ("overall", "random_noise", "cat:sleep")),
        ("task:Demographics:age", ("overall", "Demographics")),
    ],
)
def test_a_task_counts_in_its_scopes(leaf, scopes):
    assert completeness.is_leaf(leaf)
    assert completeness.scopes_of(leaf) == (*scopes, leaf)


def test_what_another_method_has_is_lacking():
    scores = [
        line("a", "channel_5"),
        line("a", "channel_0"),
        line("b", "channel_0"),
        line("b", "channel_5", n=4),
    ]
    scores += [
        line("a", "overall"),
        line("b", "overall"),
        line("b", "activity"),
        line("b", "overall", "rank"),
    ]
    scores += [line("b", "sex", "fair_skill"), line("a", "sex", "fair_skill")]
    found = completeness.lacking(scores, baseline="locf")
    assert found == {"b": dict.fromkeys(("overall", "physiology", "channel_5"), ("channel_5",))}
    kept = completeness.comparable(scores, found, baseline="locf")
    assert [s.scope for s in kept if s.method == "b"] == ["channel_0", "activity"]
    assert completeness.told(found)[0].startswith("b: no score, or one of fewer participants, in channel_5; ")


def test_a_method_without_any_score_lacks_everything():
    scores = [line("a", "task:Demographics:age", "rank"), line("locf", "task:Demographics:age", "rank")]
    found = completeness.lacking(scores, baseline="locf", methods=("locf", "a", "b"))
    assert set(found) == {"b"}
    assert set(found["b"]) == {"overall", "Demographics", "task:Demographics:age"}


def test_what_only_the_baseline_has_is_nobodys_loss():
    """Against itself the baseline has a skill also where its error is zero."""
    scores = [line("locf", "channel_5", n=9), line("a", "channel_0"), line("locf", "channel_0")]
    assert completeness.lacking(scores, baseline="locf") == {}
    scores += [line("a", "channel_3", "rank"), line("locf", "channel_0", "rank")]
    found = completeness.lacking(scores, baseline="locf")
    assert set(found) == {"locf", "a"}  # in ranks, each has one that the other has not
    kept = completeness.comparable(
        [line("locf", "overall"), line("locf", "overall", "rank")], found, baseline="locf"
    )
    assert [s.metric for s in kept] == ["skill"]


def test_few_participants_are_said():
    assert completeness.few_participants(10) is None
    assert "only 9 participants were scored" in completeness.few_participants(9)
    assert "only 1 participant was scored: intervals are not available" in completeness.few_participants(1)

from wearjax.benchmarks.openmhc import score_text
from wearjax.benchmarks.openmhc.imputation_scores import Score


def score(method, value, *, metric="skill", n=5, low=0.1, high=0.2):
    return Score(method, metric, "overall", 3, n, value, value, 0.0, low, high, 100)


def test_intervals_of_one_participant_are_not_available():
    alone = score("a", 0.15, n=1, low=0.15, high=0.15)
    assert score_text.percent(alone, baseline="locf", interval=True) == "15.0 [-]"
    assert score_text.rank(alone, interval=True) == "0.15 [-]"
    assert score_text.percent(score("a", 0.15), baseline="locf", interval=True) == "15.0 [10.0, 20.0]"
    assert score_text.rank(score("a", 1.5, low=1, high=2), interval=True) == "1.50 [1.00, 2.00]"


def test_methods_come_best_first_and_ties_by_name():
    found = score_text.Comparable([score("b", 0.1), score("a", 0.1), score("c", -0.1)], baseline="locf")
    assert found.best_first(["c", "none", "b", "locf", "a"]) == ["a", "b", "locf", "c", "none"]
    assert [found.name(m) for m in ("a", "locf")] == ["a", "locf (baseline)"]


def test_shares_of_replaced_answers_are_told_largest_first():
    told = score_text.replaced("m", 1234, "answers were replaced", {"a": 0.1, "b": 0.5, "c": 0.0})
    assert told == "m: 1,234 answers were replaced (b 50.00%, a 10.00%)"
    many = score_text.replaced("m", 8, "x", {str(i): 0.1 for i in range(8)})
    assert many.endswith(" and 2 more)")

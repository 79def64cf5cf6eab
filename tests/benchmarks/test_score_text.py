from pathlib import Path

from wearjax.benchmarks.openmhc import score_text
from wearjax.benchmarks.openmhc.imputation_scores import Score


def score(method, value, *, metric="skill", scope="overall", n=5, low=0.1, high=0.2):
    return Score(method, metric, scope, 3, n, value, value, 0.0, low, high, 100)


def remarks(*scores, methods=("linear", "a"), **options):
    found = score_text.Comparable(scores, baseline="linear", methods=methods)
    return found.remarks(n_participants=20, **options)


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


def test_of_equals_the_baseline_comes_first():
    found = score_text.Comparable([score("a", 0.0), score("locf", 0.0)], baseline="locf")
    assert found.best_first(["a", "locf"]) == ["locf", "a"]


def test_fair_skill_is_explained_or_its_absence():
    fair = [score(m, v, metric="fair_skill") for m, v in (("linear", 0.0), ("a", 0.8))]
    told = remarks(score("a", 0.1), *fair)
    assert score_text.FAIR in told
    assert score_text.NO_FAIR not in told
    assert "equally bad for everybody scores high" in score_text.FAIR
    assert score_text.NO_FAIR in remarks(score("a", 0.1))
    leaf = "task:Demographics:age"
    skills = [score("a", 0.1, scope=scope) for scope in ("overall", "Demographics", leaf)]
    told = remarks(*skills, *fair, score("b", 0.1, scope="overall"), methods=("linear", "a", "b"))
    assert "fair - of b: it is of everything together, of which something is lacking" in told


def test_tables_of_several_methods_say_how_they_are_ordered():
    assert score_text.ORDER in remarks(score("a", 0.1))
    assert score_text.ORDER not in remarks(methods=("linear",))


def test_skills_at_the_limits_of_the_ratio_are_told():
    high = score("a", 0.2, scope="Demographics", low=-98.999999, high=0.9)
    low = score("a", 0.2, scope="task:Demographics:age", low=0.99, high=0.99)  # no table shows single tasks
    (told,) = [line for line in remarks(high, low, with_interval=["Demographics"]) if "limits" in line]
    assert told.startswith("-9900.0 and 99.0 are the limits of a skill")
    assert told.endswith("a value or interval reaches one in a: Demographics")
    assert not any("limits" in line for line in remarks(high)), "that interval is not shown"
    assert not any("limits" in line for line in remarks(score("a", 0.2, low=-98.0, high=0.98)))


def test_a_skill_of_zero_that_is_a_tie_is_told():
    def skills(age, sex):
        return [
            score("a", age + sex),
            score("a", age, scope="Demographics"),
            score("a", age, scope="task:Demographics:age"),
            score("a", sex, scope="Medical conditions"),
            score("a", sex, scope="task:Medical conditions:PH"),
        ]

    tie = "a: a tie with linear in every part of {} that has a skill, hence 0"
    assert tie.format("Demographics") in remarks(*skills(0.0, 0.3))
    assert tie.format("overall") in remarks(*skills(0.0, 0.0))
    assert not any("a tie with" in line for line in remarks(*skills(0.1, -0.1)))


def test_the_folder_of_a_written_run_is_told():
    assert score_text.written(None) == []
    assert score_text.written(Path("runs/mine")) == ["run folder: runs/mine"]

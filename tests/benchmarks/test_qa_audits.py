"""Audits find planted faults, and pass questions without them."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from made_items import BANDS, item, level_type, origin

from wearjax.benchmarks.wearableqa import (
    audit_queue,
    audit_records,
    audit_shortcuts,
    audit_wording,
    audits,
    build,
    dataset,
    option_classifier,
)
from wearjax.benchmarks.wearableqa.candidate import Option
from wearjax.benchmarks.wearableqa.item import LETTERS, line

KIND = level_type()
KINDS = {KIND.name: KIND}


def questions(n: int = 80, *, options=BANDS, gold=None, **fields):
    """Golds and letters at random, four questions a person."""
    rng = np.random.default_rng(0)
    golds = rng.permutation(np.arange(n) % 10) if gold is None else [gold(i) for i in range(n)]
    letters = rng.permutation(np.arange(n) % 10)
    return [
        item(
            f"q{i}",
            user=f"u{i // 4}",
            gold=int(golds[i]),
            answer=LETTERS[letters[i]],
            options=options,
            **fields,
        )
        for i in range(n)
    ]


def verdicts(found) -> dict[tuple[str, str], bool | None]:
    return {(each.audit, each.type): each.passed for each in found}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited") / "q"
    return build.build(origin(8), folder, types=(KIND,), jobs=1)


def test_a_good_build_passes_and_the_files_say_so(built):
    found = audits.run(built, types=KINDS, sampled=2)
    assert audits.failed(found) == []
    names = verdicts(found)
    for name in (
        "answers that can be made again",
        "answers of the reference solver",
        "questions with one true option",
    ):
        assert names[name, "all"] is True
    assert names["answer changes with another person's days", "data"] is True
    assert names["p of equal letters", "data"] is True
    stored = json.loads((built.path / dataset.AUDIT).read_text())
    assert stored["failed"] == 0
    assert stored["dataset"] == built.digest
    assert len((built.path / dataset.QUEUE).read_text().splitlines()) == 2
    assert "all: 1 (limit 1), n = " in audits.to_text(found)
    assert "FAILED" not in audits.to_text(found)


def test_a_gold_that_the_record_does_not_give_is_found(built):
    wrong = list(built.items)
    answer = LETTERS[(wrong[0].gold + 1) % 10]
    wrong[0] = dataclasses.replace(wrong[0], answer=answer)
    broken = dataset.Dataset(built.path)
    broken.__dict__["items"] = tuple(wrong)
    found, faults = audit_records.run(broken, KINDS)
    names = verdicts(found)
    assert names["answers that can be made again", "all"] is False
    assert names["answers of the reference solver", "all"] is False
    assert names["questions with one true option", "all"] is False
    assert list(faults) == [wrong[0].id]
    assert len(faults[wrong[0].id]) == 3


def test_questions_that_everybody_answers_alike_are_found(built):
    """With edges that nobody's heart rate reaches, other people's days give the same answer."""
    graph = dataclasses.replace(
        built.items[0].graph,
        nodes=tuple(
            dataclasses.replace(node, args={"edges": [500]}) if node.op == "band" else node
            for node in built.items[0].graph.nodes
        ),
    )
    alike = dataset.Dataset(built.path)
    alike.__dict__["items"] = tuple(
        item(f"q{i}", user=each.user_id, end_date=each.end_date, graph=graph)
        for i, each in enumerate(built.items)
    )
    found, _ = audit_records.run(alike, KINDS)
    assert verdicts(found)["answer changes with another person's days", "data"] is False


def test_wording_faults_are_found(tmp_path):
    short = (Option("1", (0.0,)), *BANDS[1:])
    given = [item("q1"), dataclasses.replace(item("q1"), id="q2"), item("q3", options=short)]
    given.append(item("q4", reasoning_group="health"))
    (tmp_path / dataset.BUILD).write_text(json.dumps({"format": dataset.FORMAT}))
    (tmp_path / dataset.ITEMS).write_text("".join(line(each.to_json()) for each in given))
    found, faults = audit_wording.run(dataset.Dataset(tmp_path))
    names = verdicts(found)
    assert names["questions that occur twice", "all"] is False
    assert names["longest to shortest option", "all"] is False
    assert names["questions with forbidden wording", "all"] is False
    assert set(faults) == {"q3", "q4"}


def test_questions_without_shortcuts_pass():
    assert audits.failed(audit_shortcuts.run(questions(), KINDS)) == []


def test_an_answer_that_is_right_too_often_is_found():
    skewed = questions(gold=lambda i: 0 if i % 2 else i // 2 % 10)
    names = verdicts(audit_shortcuts.run(skewed, KINDS))
    assert names["most frequent answer", KIND.name] is False
    assert names["options alone, classifier", KIND.name] is False
    assert [each.passed for each in audit_wording.rates(skewed)] == [False]


def test_a_gold_that_is_the_longest_is_found():
    stretched = [
        dataclasses.replace(q, choices=tuple(t + " " * (i == q.gold) for i, t in enumerate(q.choices)))
        for q in questions()
    ]
    names = verdicts(audit_shortcuts.run(stretched, KINDS))
    assert names["longest option", KIND.name] is False
    assert names["options alone, classifier", KIND.name] is False


def test_a_stem_that_tells_the_gold_is_found():
    words = ["amber", "birch", "cedar", "daisy", "elder", "fern", "grass", "heath", "iris", "juniper"]
    telling = [
        dataclasses.replace(q, stem=f"What was it, {words[int(q.keys[q.gold][0])]}?") for q in questions()
    ]
    names = verdicts(audit_shortcuts.run(telling, KINDS))
    assert names["options alone, classifier", KIND.name] is True
    assert names["stem and options, classifier", KIND.name] is False


def test_a_middle_amount_is_found():
    amounts = tuple(Option(f"{50 + i} bpm", (50.0 + i,)) for i in range(10))
    always = audit_shortcuts.middle(questions(options=amounts, gold=lambda i: 4 + i % 2))
    even = audit_shortcuts.middle(questions(options=amounts))
    assert (always.mean(), even.mean()) == (0.5, 0.1)
    assert even.mean() < audits.by_chance(80) < always.mean()


def test_what_stems_tell_of_definitional_pairs_is_reported_by_itself():
    tied = [dataclasses.replace(q, tag="definitional" if i % 2 else "") for i, q in enumerate(questions())]
    found = audit_shortcuts.classified(
        "stem", {KIND.name: tied}, option_classifier.with_stem, audit_shortcuts.PRIOR_KNOWLEDGE, seed=0
    )
    by_type = {each.type: each for each in found}
    assert (by_type[KIND.name].n, by_type[KIND.name].passed) == (40, True)
    assert by_type["definitional pairs"].n == 40
    assert by_type["definitional pairs"].passed is None


def test_failures_are_told_with_their_notes():
    found = [
        audits.at_most("rule", "lead_lag", 10, 0.5, 0.2, "odd"),
        audits.at_most("rule", "all", 20, 0.1, 0.2),
        audits.Finding("rule", "trend_shape", 3, None, note="too few"),
    ]
    assert audits.to_text(found).splitlines() == [
        "rule  all: 0.1 (limit 0.2), n = 20; 1 of 2 passed; not run for trend_shape (too few)",
        "FAILED  lead_lag: 0.5 (limit 0.2), n = 10 odd",
    ]


def test_people_of_a_fold_stay_together_and_small_types_are_not_classified():
    few = questions(12)
    fold = option_classifier.folds(few)
    assert len({(q.user_id, k) for q, k in zip(few, fold, strict=True)}) == 3
    rows = [e for e in audit_shortcuts.run(few, KINDS) if "classifier" in e.audit]
    assert all(e.value is None and "needs 20 questions" in e.note for e in rows)
    assert rows


def test_without_scikit_learn_classifiers_are_not_run_and_say_so(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    found = [e for e in audit_shortcuts.run(questions(40), KINDS) if "classifier" in e.audit]
    assert [e.value for e in found] == [None, None]
    assert all("wearjax[probes]" in e.note for e in found)
    assert audits.failed(found) == []


class Answering:
    """Stands for the client of an endpoint."""

    failures = ()

    def __init__(self, endpoint, *, cache=None):
        self.endpoint = endpoint

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def check(self):
        pass

    def chat(self, conversation):
        from wearjax.language.answers import Reply

        text = conversation[0]["content"]
        assert "Intended answer: " in text
        bad = self.endpoint in ("a", "b") and "What was the mean resting heart rate (q1)" in text
        return Reply(text="Answer: leaky" if bad else "No idea." if self.endpoint == "c" else "Answer: fine")

    def map(self, function, given, *, progress=None):
        return [function(each) for each in given]


def test_two_votes_put_a_question_into_the_queue(tmp_path, monkeypatch):
    from wearjax.language import endpoint

    monkeypatch.setattr(endpoint, "Client", Answering)
    (tmp_path / dataset.BUILD).write_text(json.dumps({"format": dataset.FORMAT}))
    (tmp_path / dataset.ITEMS).write_text("".join(line(item(name).to_json()) for name in ("q1", "q2")))
    votes = audit_queue.review(dataset.Dataset(tmp_path), ["a", "b", "c"])
    assert votes["q1"] == {"fine": 0, "ambiguous": 0, "leaky": 2, "none": 1}
    assert votes["q2"] == {"fine": 2, "ambiguous": 0, "leaky": 0, "none": 1}
    (row,) = map(json.loads, (tmp_path / dataset.QUEUE).read_text().splitlines())
    assert row["id"] == "q1"
    assert row["decision"] is None
    assert "2 leaky" in row["reasons"][0]


def test_decisions_in_the_queue_survive_further_audits(tmp_path):
    (tmp_path / dataset.BUILD).write_text(json.dumps({"format": dataset.FORMAT}))
    (tmp_path / dataset.ITEMS).write_text("".join(line(item(f"q{i}").to_json()) for i in range(5)))
    made = dataset.Dataset(tmp_path)
    rows = audit_queue.add(made, {"q1": ["odd"]}, sampled=2)
    decided = [{**row, "decision": "accept", "note": "checked"} for row in rows]
    (tmp_path / dataset.QUEUE).write_text("".join(map(line, decided)))
    again = audit_queue.add(made, {"q1": ["odd", "odder"]}, sampled=2)
    assert [(row["decision"], row["note"]) for row in again] == [("accept", "checked")] * len(rows)
    assert next(row for row in again if row["id"] == "q1")["reasons"] == ["odd", "odder"]

"""The stored form of questions, the folder they lie in, and where records come from."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from made_items import BANDS, LEVEL, candidate, item, record

from wearjax.benchmarks.wearableqa import dataset, origin, parts, registry, safety
from wearjax.benchmarks.wearableqa import item as items
from wearjax.benchmarks.wearableqa.candidate import Hidden
from wearjax.benchmarks.wearableqa.item import Item
from wearjax.benchmarks.wearableqa.yields import Judged, Survivor
from wearjax.errors import ConfigError, SourceError, StoreError
from wearjax.segments import daily_records
from wearjax.sources.tally import Tally


def stored(**fields) -> dict:
    return json.loads(items.line(item("q", answer="C", gold=4, **fields).to_json()))


def test_an_item_survives_its_file():
    hidden = Hidden(metrics=("hrv",), window_metrics=("steps",), cohort=True)
    given = item("q", answer="C", gold=4, hidden=hidden, coupling=("rhr", "hrv", -2), rho=0.75, relation="x")
    back = Item.from_json(json.loads(items.line(given.to_json())))
    assert back.to_json() == given.to_json()
    assert back.hidden == hidden
    assert back.coupling == ("rhr", "hrv", -2)
    assert back.choices[back.gold] == BANDS[4].text
    assert back.candidate().gold == BANDS[4]
    assert len(back.candidate().distractors) == 9
    assert BANDS[4] not in back.candidate().distractors


def test_an_item_has_the_fields_of_the_public_records():
    assert {
        "id", "question", "choices", "answer", "category", "reasoning_group", "signal", "grounding", "representation",
        "user_id", "end_date", "window_size", "shows_cohort", "graph", "graph_digest", "gold_key",
    } <= set(stored())  # fmt: skip


def test_a_graph_that_was_changed_is_refused():
    row = stored()
    row["graph"]["nodes"][1]["args"]["edges"][0] = 53
    with pytest.raises(ConfigError, match="another digest"):
        Item.from_json(row)


@pytest.mark.parametrize(
    "broken", [{"choices": ["a"]}, {"answer": "K"}, {"end_date": "yesterday"}, {"graph": None}]
)
def test_what_is_no_item_is_refused(broken):
    with pytest.raises(ConfigError, match=r"item|graph"):
        Item.from_json(stored() | broken)


def test_the_sixteen_types_stand_in_the_order_of_the_taxonomy():
    assert len(registry.NAMES) == 16 == len(registry.TYPES)
    assert sum(registry.TARGETS.values()) == 4084
    assert [registry.TYPES[name].name for name in registry.NAMES] == list(registry.NAMES)
    assert [registry.TYPES[name].group for name in registry.NAMES] == ["data"] * 8 + ["health"] * 8
    assert [each.name for each in registry.chosen(("lead_lag", "trend_shape"))] == ["trend_shape", "lead_lag"]
    with pytest.raises(ConfigError, match="'mood': known are signal_summary"):
        registry.chosen(("mood",))


def test_a_part_gives_back_what_settling_and_assembly_need(tmp_path):
    first = candidate("u", 19_800, 3, relation="r", tag="empirical", rho=0.5, hidden=Hidden(series=True))
    judged = Judged(
        "level_band", (Survivor(first, 0.25, 7), Survivor(first, None, 0)), (0.25, 1.0), 9, 12, {"G1": 7}
    )
    parts.write(tmp_path / "a", "u", [judged])
    parts.write(tmp_path / "b", "u", [judged])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    (back,) = parts.Reader().read(tmp_path / "a")
    assert (back.chances, back.proposed, back.looked, dict(back.rejected)) == ((0.25, 1.0), 9, 12, {"G1": 7})
    again = back.survivors[0].candidate
    assert (again.gold, again.distractors, again.hidden) == (first.gold, first.distractors, first.hidden)
    assert (again.relation, again.tag, again.rho, again.stem) == ("r", "empirical", 0.5, first.stem)
    assert again.graph.digest() == LEVEL.digest()
    assert back.survivors[1].chance is None


def test_a_damaged_part_says_which(tmp_path):
    (tmp_path / "part").write_bytes(gzip.compress(b'{"user": "u"}'))
    with pytest.raises(StoreError, match="part: not readable as a part of a build"):
        parts.Reader().read(tmp_path / "part")


def queue(folder, **row) -> None:
    (folder / dataset.QUEUE).write_text(items.line({"id": "q1", "decision": None, **row}))


def folder_of(tmp_path, *given: Item):
    (tmp_path / dataset.BUILD).write_text(json.dumps({"format": dataset.FORMAT}))
    (tmp_path / dataset.ITEMS).write_text("".join(items.line(each.to_json()) for each in given))
    return tmp_path


def test_people_reject_accept_and_fix_questions(tmp_path):
    folder = folder_of(tmp_path, item("q1"), item("q2"))
    queue(folder, decision="reject")
    assert [each.id for each in dataset.Dataset(folder).items] == ["q2"]
    assert [each.id for each in dataset.Dataset(folder).built] == ["q1", "q2"]
    queue(folder, decision="accept")
    assert [each.id for each in dataset.Dataset(folder).items] == ["q1", "q2"]
    queue(folder, decision="fix", question="Better?")
    fixed = dataset.Dataset(folder).items[0]
    assert fixed.stem == "Better?"
    assert fixed.choices == item("q1").choices
    queue(folder, decision="perhaps")
    with pytest.raises(StoreError, match="decision 'perhaps'"):
        _ = dataset.Dataset(folder).items


def test_an_unfinished_folder_is_no_dataset(tmp_path):
    with pytest.raises(StoreError, match=r"no build\.json"):
        dataset.Dataset(tmp_path)
    folder_of(tmp_path).joinpath(dataset.BUILD).write_text('{"format": 99}')
    with pytest.raises(StoreError, match="format 99"):
        dataset.Dataset(tmp_path)


@pytest.mark.parametrize(
    ("group", "stem", "choices", "fault"),
    [
        ("health", "Which pattern?", ["high"], "not medical advice"),
        ("health", "Which pattern? This is not medical advice.", ["Signs of diabetes"], "diabet"),
        ("data", "Which dose was taken?", ["high"], "dose"),
        ("health", "Not a diagnosis; not medical advice.", ["high"], "diagnos"),
    ],
)
def test_forbidden_wording_is_found(group, stem, choices, fault):
    assert any(fault in each for each in safety.problems(group, stem, choices))


def test_marked_health_questions_pass_the_lint():
    stem = safety.marked("health", "Which pattern?")
    assert safety.problems("health", stem, ["Marker pattern consistent with raised lipids"]) == []
    assert safety.marked("health", stem) == stem
    assert safety.marked("data", "How many?") == "How many?"
    assert safety.problems("data", "How many doses, overdosed?", []) == []  # whole words only


def test_records_are_found_whatever_they_are_stored_in(tmp_path):
    given = record("u", np.random.default_rng(0))
    daily_records.write_records(tmp_path / "store", [given])
    (tmp_path / "wide.csv").write_text("user,date,rhr\nu,2024-01-01,60\nu,2024-01-03,61\n")
    assert origin.at(tmp_path / "store").name == "records"
    wide = origin.at(tmp_path / "wide.csv", days=2)
    (read,) = wide.read(Tally(), None)
    assert (wide.name, read.user, len(read.dates)) == (
        "csv",
        "u",
        1,
    )  # the day before the last is not measured
    with pytest.raises(SourceError, match="neither a store of daily records"):
        origin.at(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="units are for wide tables"):
        origin.at(tmp_path / "store", units={"rhr": "hz"})
    with pytest.raises(ConfigError, match="at least 1 person"):
        origin.synthetic(0)

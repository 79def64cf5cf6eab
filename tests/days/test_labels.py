from __future__ import annotations

import json

import pytest
from made_days import made_cohort
from openmhc_root import write_openmhc_root

from wearjax.days import labels
from wearjax.errors import SourceError, StoreError


@pytest.fixture
def root(tmp_path):
    days = made_cohort(3, 1)
    users = [d.participant for d in days]
    known = {
        users[0]: {"birth_year": 1980, "sex": "male"},
        users[1]: {"birth_year": None, "sex": "female"},
        users[2]: {"birth_year": 1999, "sex": None},
    }
    parts = {"train": users[:1], "validation": users[1:2], "test": users[2:]}
    return write_openmhc_root(tmp_path / "root", days, parts, known), known


def test_reads_birth_year_and_sex_of_a_root(root):
    path, known = root
    assert labels.read_demographics(path) == known


@pytest.mark.parametrize(
    ("values", "sex"),
    [
        ([0, 1], "male"), (["Male", "Female"], "female"), ([1.0, 0.0], "female"), ([False, True], "male"),
        ([1, None], None), ([1, float("nan")], None),
    ],
)  # fmt: skip
def test_the_latest_answer_counts(root, values, sex):
    path, known = root
    user = next(iter(known))
    # written newest first: the time decides, not the place
    answer = {"timestamps": ["2021-05-01", "2020-01-01"], "values": values[::-1]}
    (path / "labels" / "last_labels.json").write_text(json.dumps({"BiologicalSex": {user: answer}}))
    assert labels.read_demographics(path)[user]["sex"] == sex


def test_an_answer_without_a_time_is_unusable(root):
    path, known = root
    user = next(iter(known))
    answer = {"BiologicalSex": {user: {"timestamps": [], "values": [True]}}}
    (path / "labels" / "last_labels.json").write_text(json.dumps(answer))
    assert labels.read_demographics(path)[user]["sex"] is None


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("last_labels.json", {"BiologicalSex": {"u": {"timestamps": ["2020"], "values": [7]}}}, "user u"),
        ("last_labels.json", {"BiologicalSex": {"u": {"timestamps": ["2020"], "values": []}}}, "user u"),
        ("last_labels.json", [], "expected a JSON object"),
        ("enrollment_info.json", {"u": "1980"}, "user u"),
        ("enrollment_info.json", {"u": {"birth_year": "old"}}, "user u"),
    ],
)
def test_damaged_labels_are_named(root, file, content, message):
    path, _ = root
    (path / "labels" / file).write_text(json.dumps(content))
    with pytest.raises(SourceError, match=message):
        labels.read_demographics(path)


def test_a_root_without_labels_knows_nothing(root):
    path, _ = root
    for file in (path / "labels").iterdir():
        file.unlink()
    assert labels.read_demographics(path) == {}


def test_reads_participants_of_a_store(tmp_path):
    assert labels.read_demographics(tmp_path) == {}
    (tmp_path / "participants.json").write_text('{"a": {"birth_year": 1970, "sex": "female"}, "b": {}}')
    assert labels.read_demographics(tmp_path) == {
        "a": {"birth_year": 1970, "sex": "female"},
        "b": {"birth_year": None, "sex": None},
    }


@pytest.mark.parametrize("text", ["[]", "{", '{"a": 3}', '{"a": {"sex": "both"}}'])
def test_damaged_participants_are_named(tmp_path, text):
    (tmp_path / "participants.json").write_text(text)
    with pytest.raises(StoreError, match=r"participants\.json: expected"):
        labels.read_demographics(tmp_path)

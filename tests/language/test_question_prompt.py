import datetime as dt

import numpy as np
import pytest

from wearjax.daily_metrics import INDEX, N_METRICS
from wearjax.errors import ConfigError
from wearjax.language import question_prompt, record_images, record_text
from wearjax.language.question_prompt import Question
from wearjax.sources.daily_record import BloodValue, DailyRecord, Demographics

DAY = 19_786
TEXTS = [form for form in question_prompt.FORMS if not form.startswith(("image", "csv_chart"))]


def question(**changed) -> Question:
    values = np.full((40, N_METRICS), np.nan)
    values[:, INDEX["rhr"]] = 60 + np.arange(40) % 7
    values[:, INDEX["steps"]] = 9000 - 10 * np.arange(40)
    record = DailyRecord("secret-user", DAY - 39 + np.arange(40), values)
    options = {
        "stem": "How did it go over the latest 28 days?",
        "choices": tuple(f"choice {i}" for i in range(10)),
        "table": record_text.table(record, DAY, window=28, history=500),
        "demographics": Demographics(age=44, sex="male", bmi=27.26, age_band="40-49"),
        "blood": {"hba1c": BloodValue(5.44, "%"), "glucose": BloodValue(92.0, "mg/dL", dt.date(2024, 1, 9))},
        "cohort": {"rhr": {"p10": 51.25, "p25": 55, "p50": 60, "p75": 66, "p90": 71, "min": 44, "max": 88}},
    }
    return Question(**(options | changed))


def headings(text: str) -> list[str]:
    return [line[3:] for line in text.splitlines() if line.startswith("## ")]


ALL = ["User profile", "Sensor data", "Blood panel", "Cohort percentiles", "Question", "Options"]


def test_sections_in_order():
    text = question_prompt.build(question()).text
    assert headings(text) == ALL
    assert "## User profile\nAge: 44\nSex: male\nBMI: 27.3\n\n## Sensor data\n" in text
    assert "RHR: resting heart rate, bpm\nSteps: daily steps\n" in text
    assert "2024-03-04: RHR=64, Steps=8610\n\n## Blood panel\n" in text
    assert "Fasting glucose: 92 mg/dL (2024-01-09)\nHbA1c: 5.44 %\n\n## Cohort percentiles" in text
    assert "RHR (bpm): min 44, p10 51.2, p25 55, p50 60, p75 66, p90 71, max 88\n\n## Question\n" in text
    assert "\nA. choice 0\n" in text
    assert "\nJ. choice 9\n\n" in text
    assert "one letter from A to J:\nAnswer: <letter>" in text
    assert "secret-user" not in text


@pytest.mark.parametrize(
    ("changed", "gone", "words"),
    [
        ({"demographics": Demographics()}, "User profile", "profile"),
        ({"table": None}, "Sensor data", "daily record"),
        ({"blood": {}}, "Blood panel", "blood panel"),
        ({"cohort": {}}, "Cohort percentiles", "reference cohort"),
        ({"cohort": {"rhr": {"p50": float("nan")}}}, "Cohort percentiles", "reference cohort"),
    ],
)
def test_empty_sections_are_left_out_and_not_mentioned(changed, gone, words):
    full, less = (question_prompt.build(question(**c)).text for c in ({}, changed))
    assert headings(less) == [name for name in ALL if name != gone]
    assert words in full.split("\n\n")[0]
    assert words not in less.split("\n\n")[0]


def test_bands_stand_in_for_numbers():
    text = question_prompt.build(question(demographics=Demographics(age_band="40-49", bmi_band=">=30"))).text
    assert "## User profile\nAge: 40-49\nBMI: >=30\n\n" in text


def test_a_stem_without_a_window_gets_one():
    text = question_prompt.build(question(stem="Which is it?")).text
    assert "## Question\nThis question is about the latest 28 days. Which is it?\n" in text
    assert "## Question\nHow did it go over the latest 28 days?\n" in question_prompt.build(question()).text


@pytest.mark.parametrize("form", TEXTS)
def test_reasoning_and_direct_differ_in_the_last_paragraph_only(form):
    cot, direct = (question_prompt.build(question(), form=form, mode=mode).text for mode in ("cot", "direct"))
    assert cot.rpartition("\n\n")[0] == direct.rpartition("\n\n")[0]
    assert cot.rpartition("\n\n")[2] == question_prompt.closing("cot", "ABCDEFGHIJ")
    assert (
        direct.rpartition("\n\n")[2]
        == question_prompt.closing("direct", "ABCDEFGHIJ")
        != cot.rpartition("\n\n")[2]
    )


def sections(text: str) -> dict[str, str]:
    return {part.splitlines()[0]: part for part in ("\n" + text).split("\n## ")}


@pytest.mark.parametrize("form", TEXTS)
def test_only_the_sensor_section_depends_on_the_format(form):
    found = question_prompt.build(question(), form=form)
    first, other = sections(question_prompt.build(question()).text), sections(found.text)
    assert [name for name in first if first[name] != other[name]] == (
        [] if form == "row" else ["Sensor data"]
    )
    assert getattr(record_text, form)(question().table) in found.text
    assert (found.images, found.files) == ((), {})
    assert question_prompt.build(question(), form=form).digest == found.digest


def test_figures(monkeypatch):
    monkeypatch.setattr(record_images, "image_grid", lambda table: b"grid")
    monkeypatch.setattr(record_images, "image_grouped", lambda table: b"groups")
    for form, image, has_table in (
        ("image_grid", b"grid", False),
        ("image_grouped", b"groups", False),
        ("csv_chart", b"grid", True),
    ):
        made = question_prompt.build(question(), form=form)
        assert made.images == (image,)
        assert ("date,RHR,Steps\n" in made.text) is has_table
        assert "latest 28 days are shaded" in made.text
        content = made.messages()[0]["content"]
        assert [part["type"] for part in content] == ["image_url", "text"]


def test_removing_history_series_and_all():
    history = question_prompt.build(question_prompt.without(question(), "history")).text
    assert "2024-02-06: " in history
    assert "2024-02-05: " not in history
    series = question_prompt.build(question_prompt.without(question(), "series")).text
    assert headings(series) == [name for name in ALL if name != "Sensor data"]
    bare = question_prompt.build(question_prompt.without(question(), "data")).text
    assert headings(bare) == ["Question", "Options"]
    assert question_prompt.without(question(), "nothing").table is not None


def test_agents_get_files_instead_of_the_table():
    fixed = question_prompt.build(question(), mode="agentic_fixed", runs=7)
    assert set(fixed.files) == {"record.csv"}
    assert fixed.files["record.csv"].startswith("date,RHR,Steps\n2024-01-25,60,9000\n")
    assert "2024-03-04: RHR" not in fixed.text
    assert "2024-03-04,64" not in fixed.text
    assert "have 7 runs" in fixed.text
    views = question_prompt.build(question(), mode="agentic_views")
    assert {"record.csv", "window.csv", "rows.txt", "columns.txt", "table.md", "statistics.md"} == set(
        views.files
    )
    assert all(f"- {name}: " in views.text for name in views.files)
    assert len(views.files["window.csv"].splitlines()) == 29
    assert fixed.digest != views.digest
    assert question_prompt.build(question(table=None), mode="agentic_fixed").files == {}


def test_refuses_what_it_does_not_know():
    with pytest.raises(ConfigError, match="format 'yaml': expected one of row, col"):
        question_prompt.build(question(), form="yaml")
    with pytest.raises(ConfigError, match="mode 'agent'"):
        question_prompt.check("row", "agent", "nothing")
    with pytest.raises(ConfigError, match="remove 'days'"):
        question_prompt.check("row", "cot", "days")
    with pytest.raises(ConfigError, match="has no file to work on where series are removed"):
        question_prompt.check("row", "agentic_views", "series")

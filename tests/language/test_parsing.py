import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.language import parsing
from wearjax.language.task_prompts import DESCRIPTIONS

BMI = DESCRIPTIONS["BMI_categories"].labels
PRESSURE = DESCRIPTIONS["blood_pressure_categories"].labels
BED = DESCRIPTIONS["GoSleepTime_categories"].labels


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("Thinking.\nAnswer: 3", "3"),
        ("Answer: 1\nBut wait.\n**Answer: 2**", "2"),
        ("**Answer:** <2>", "2"),
        ("Final answer：`2`.", "2"),
        ("so the answer = 4", "4"),
        ("ANSWER:\n\n  3  ", "3"),
        ("Answer:", None),
        ("Answer: $\\boxed{5}$", "5"),
        ("so it is \\boxed{\\text{Obesity}} I think\nbye", "Obesity"),
        ("I choose **B** because\n**C** is wrong", "C"),
        ("  7 ", "7"),
        ("two\nlines", None),
        ("", None),
    ],
)
def test_where_the_answer_is(reply, found):
    assert parsing.answer(reply) == found


@pytest.mark.parametrize(
    ("text", "labels", "index"),
    [
        ("2", BMI, 2),
        ("<2>", BMI, 2),
        ("2.0", BMI, 2),
        ("overweight", BMI, 2),
        ("2: Overweight", BMI, 2),
        ("Overweight (2)", BMI, 2),
        ("index 2", BMI, 2),
        ("Morbid Obesity", BMI, 4),
        ("Obesity or Morbid obesity", BMI, None),
        ("3: Overweight", BMI, None),
        ("5", BMI, None),
        ("-1", BMI, None),
        ("2.5", BMI, None),
        ("1 or 2", BMI, None),
        ("Hypertension stage 1", PRESSURE, 2),
        ("3 - Hypertension stage 2", PRESSURE, 3),
        ("Hypertension", PRESSURE, None),
        ("Normal", PRESSURE, 0),
        ("Very late", BED, 3),
        ("Late", BED, 2),
        ("Lately", BED, None),
        ("No, nothing points to it", ("No", "Yes"), 0),
        ("Not known", ("No", "Yes"), None),
        ("unknown", BMI, None),
    ],
)
def test_label(text, labels, index):
    assert parsing.label(f"Some 4 words.\nAnswer: {text}", labels) == index


@given(st.sampled_from([d for d in DESCRIPTIONS.values() if d.labels]), st.data())
def test_every_label_is_read_by_index_and_by_name(described, data):
    index = data.draw(st.integers(0, len(described.labels) - 1))
    name = data.draw(st.sampled_from([str.upper, str.lower, str]))(described.labels[index])
    for text in (str(index), name, f"{index}: {name}", f"{name} ({index})"):
        assert parsing.label(f"Answer: {text}", described.labels) == index


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("71.5 kg", 71.5),
        ("71.5 kg (157 lb)", 71.5),
        ("about 1,250 min/week", 1250.0),
        ("-0.5", -0.5),
        (".25", 0.25),
        ("1e-3", 0.001),
        ("24.9 kg/m^2", 24.9),
        ("24.9 kg/m2", 24.9),
        ("60-70", None),
        ("120/80 mmHg", None),
        ("forty", None),
        ("12%", 12.0),
        ("1e999", None),
        ("nan", None),
    ],
)
def test_number(text, value):
    assert parsing.number(f"From 20 to 90.\nAnswer: {text}") == value


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_number_as_written(value):
    assert parsing.number(f"Answer: {value!r}") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.3", 0.3), ("30 %", 0.3), ("1", 1.0), ("0", 0.0), ("1.2", None), ("-0.1", None), ("30", None), ("x", None)],
)  # fmt: skip
def test_probability(text, value):
    assert parsing.probability(f"Answer: {text}") == value


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ("Reasons.\nAnswer: C", "C"),
        ("Answer: c.", "C"),
        ("Answer: (C) steady rise", "C"),
        ("**Answer: C) A rise in I**", "C"),
        ("Answer: C because it rises", "C"),
        ("Answer: option C", "C"),
        ("Answer: the correct option is C", "C"),
        ("Answer: A", "A"),
        ("Answer: A fall", None),
        ("Answer: I do not know", None),
        ("Answer: C or D", None),
        ("Answer: C, D", None),
        ("Answer: C/D", None),
        ("Answer: K", None),
        ("Answer: B\nAnswer: D", "D"),
        ("Answer: none of these", None),
        ("thus \\boxed{E}", "E"),
        ("thus **F**, not\n**a trend**", "F"),
        ("\\boxed{B} then **D**", "D"),  # the last of both
        ("**D**, no: \\boxed{B}", "B"),
        ("so **\\boxed{B}**", "B"),
        ("(G)", "G"),
        ("h", "H"),
        ("I would say that it is G", None),
        ("", None),
    ],
)
def test_letter(reply, letter):
    assert parsing.letter(reply) == letter


@given(st.sampled_from("ABCDEFGHIJ"), st.text(alphabet="abc xyz\n.", max_size=30))
def test_every_letter_at_the_end(letter, before):
    assert parsing.letter(f"{before}\nAnswer: {letter}") == letter


@given(st.text())
def test_any_reply_is_read_without_error(reply):
    for read in (parsing.answer, parsing.number, parsing.probability, parsing.letter):
        read(reply)
        read("Answer: " + reply)
    assert parsing.label("Answer: " + reply, BMI) in (None, 0, 1, 2, 3, 4)

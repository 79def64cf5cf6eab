import pytest

from wearjax.channels import NAMES
from wearjax.report import words


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("watch_hr", "Watch heart rate"), ("iphone_steps", "Phone steps"), ("sleep_inbed", "In bed"),
        ("workout_hiit", "Workout HIIT"), ("random_noise", "Random noise"), ("lsm2", "LSM-2"),
    ],
)  # fmt: skip
def test_names_for_people(name, said):
    assert words.readable(name) == said


def test_channels_of_scores():
    assert words.channel("ch_5") == "Watch heart rate"
    assert words.channel("ch_99") == "Ch 99"
    assert words.channel("sleep") == "Sleep (all)"
    assert len({words.channel(name) for name in NAMES}) == len(NAMES)


def test_untrusted_text_becomes_one_bounded_line():
    assert words.plain("a\n b\x07\tc") == "a b c"
    assert words.plain("x" * 300, 10) == "x" * 9 + "…"


def test_colours_stay_with_a_method():
    alone = words.colours(["lsm2", "saits"])
    crowd = words.colours(["mean", "saits", "linear", "lsm2", "locf"])
    assert alone["lsm2"] == crowd["lsm2"]
    assert len(set(crowd.values())) == len(crowd)
    variants = words.colours(["lsm2 · a", "lsm2 · b"])
    assert variants["lsm2 · a"] == alone["lsm2"] != variants["lsm2 · b"]
    assert len(words.colours([f"m{i}" for i in range(30)])) == 30


def test_long_ids_keep_their_end():
    assert words.short("synthetic-000012", 12) == "synt…-000012"
    assert words.short("abc", 12) == "abc"
    assert all(len(words.short("x" * n, 16)) <= 16 for n in range(40))

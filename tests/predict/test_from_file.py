import pytest

from wearjax.errors import ConfigError
from wearjax.predict import from_file

FILE = """
from dataclasses import dataclass
import beside

class Plain:
    name = beside.NAME
    def impute(self, data, observed_mask, target_mask):
        return data

@dataclass
class Sized:
    size: int

ready = Sized(3)
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "beside.py").write_text("NAME = 'plain'\n")
    return tmp_path / "mine.py"


def test_a_class_is_made_and_an_object_taken(file):
    method = from_file.load(f"{file}:Plain")
    assert (type(method).__name__, method.name) == ("Plain", "plain")
    assert from_file.load(f"{file}:ready").size == 3


def test_files_of_one_name_stay_apart(file, tmp_path):
    other = tmp_path / "other" / "mine.py"
    other.parent.mkdir()
    other.write_text("class Plain:\n    name = 'other'\n")
    assert [from_file.load(f"{f}:Plain").name for f in (file, other, file)] == ["plain", "other", "plain"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean", "expected FILE.py:Class"),
        ("{}:", "expected FILE.py:Class"),
        ("{}:two words", "expected FILE.py:Class"),
        ("nowhere.py:Plain", "nowhere.py: no such file"),
        ("{}:Absent", "no 'Absent'; its classes: Plain, Sized"),
        ("{}:Sized", "cannot be made without arguments .*size"),
    ],
)
def test_what_cannot_be_loaded_is_named(file, text, message):
    with pytest.raises(ConfigError, match=message):
        from_file.load(text.format(file))


@pytest.mark.parametrize(
    "content", ["import nowhere_to_be_found", "class A(:", "raise RuntimeError('at\\nonce')"]
)
def test_a_file_that_fails_says_so_in_one_line(tmp_path, content):
    (tmp_path / "broken.py").write_text(content)
    with pytest.raises(ConfigError, match=r"broken\.py: \w+Error while it was loaded") as caught:
        from_file.load(f"{tmp_path / 'broken.py'}:A")
    assert "\n" not in str(caught.value)

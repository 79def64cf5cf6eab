"""Steps of another library in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from wearjax.errors import ConfigError
from wearjax.train.rival import RivalStep


def test_every_call_is_one_step_there(tmp_path):
    file = tmp_path / "other.py"
    log = tmp_path / "log"
    file.write_text(
        "def make_step(batch_size):\n"
        "    print('said by the file')\n"
        f"    return lambda: open({str(log)!r}, 'a').write(f'{{batch_size}} ')\n"
    )
    with RivalStep(file, 4) as step:
        step()
        assert log.read_text() == "4 "
        step()
    assert log.read_text() == "4 4 "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_library", "No module named 'no_such_library'"),
        ("x = 1", r"has no function make_step\(batch_size\)"),
        ("def make_step(n):\n    return lambda: 1 / 0", "its step ended the process"),
    ],
)
def test_a_file_that_cannot_is_named(tmp_path, text, said):
    file = tmp_path / "other.py"
    file.write_text(text)
    with pytest.raises(ConfigError, match=rf"other\.py: .*{said}"), RivalStep(file, 1) as step:
        step()


def test_no_file():
    with pytest.raises(ConfigError, match="no such file"):
        RivalStep(Path("nowhere.py"), 1)

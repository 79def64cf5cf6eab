import html.parser
import json
import re
import subprocess
import sys
from pathlib import Path

import fake_run_folder
import numpy as np
import pytest

from wearjax.errors import WearjaxError
from wearjax.report import page, page_file
from wearjax.sources import minute_grid

VOID = {"meta", "br", "link", "img", "input", "hr", "use", "path", "image"}


class Outline(html.parser.HTMLParser):
    """Collects ids, links and text, and checks that tags nest."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.targets, self.text, self.sources = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs["id"]] if "id" in attrs else []
        for name, value in attrs.items():
            self.targets += re.findall(r"url\(#([^)]+)\)", value or "")
            if name in ("href", "xlink:href") and value.startswith("#"):
                self.targets.append(value[1:])
            elif name in ("href", "xlink:href", "src"):
                self.sources.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    folder = fake_run_folder.write_evaluation(tmp_path_factory.mktemp("runs") / "demo")
    path = page.write_report(folder)
    return folder, path, path.read_text()


def test_page_stands_alone_and_is_small(evaluated):
    folder, path, text = evaluated
    assert path == folder / "report.html"
    assert path.stat().st_size < 3_000_000
    assert "http:" not in text
    assert "https:" not in text
    outline = Outline(text)
    assert len(outline.ids) == len(set(outline.ids))
    assert set(outline.targets) <= set(outline.ids)
    assert all(source.startswith("data:image/png;base64,") for source in outline.sources)
    assert [p.name for p in folder.iterdir() if "partial" in p.name] == []


def test_page_says_what_was_measured(evaluated):
    _folder, _, text = evaluated
    words = Outline(text).words
    assert "On 1,043 days of 24 participants (test split), lsm2 makes" in words
    assert "less error than locf (95 % interval" in words
    assert "31,245" in words
    assert "1.23%" in words
    assert "no cell hidden" in words
    assert "12" in words
    assert "model.patch" in words
    assert "10, 30" in words
    assert "jax" in words
    assert "Fair skill" in words
    assert "Age group" in words
    assert text.count('class="day"') == 6
    for section in ("skill", "scenarios", "days", "coverage", "training", "counts", "settings"):
        assert f'<section id="{section}">' in text
    assert 'class="absent"' not in text


def test_figures_show_display_units(evaluated):
    words = Outline(evaluated[2]).words
    assert "Watch heart rate (bpm)" in words
    assert "Watch energy (kcal/min)" in words


def test_same_folder_gives_the_same_bytes(tmp_path):
    folder = fake_run_folder.write_imputation(tmp_path / "run", days=1)
    once, again = (page.write_report(folder, tmp_path / f"{name}.html").read_bytes() for name in "ab")
    assert once == again


def test_two_runs_are_compared_and_differences_named(tmp_path):
    folder = fake_run_folder.write_evaluation(tmp_path / "demo", days=1, methods={"lsm2": 0.4, "locf": 0.0})
    other = fake_run_folder.write_evaluation(
        tmp_path / "wider", seed=1, methods={"lsm2": 0.6, "locf": 0.0}, days=1
    )
    results = json.loads((other / "results.json").read_text())
    (other / "results.json").write_text(json.dumps(results | {"n_participants": 7}))
    path = page.write_report([folder, other], tmp_path)
    words = Outline(path.read_text()).words
    assert path == tmp_path / "report.html"
    assert "lsm2 · demo" in words
    assert "lsm2 · wider" in words
    assert words.count("The runs were not scored alike") == 1
    assert "participants: demo 24, wider 7" in words


def test_runs_of_one_name_stay_apart(tmp_path):
    folders = [tmp_path / f"{letter}" / "run" for letter in "ab"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
    words = Outline(page.write_report(folders, tmp_path).read_text()).words
    assert "a/run" in words
    assert "b/run" in words


def test_filled_recordings_have_no_scores_but_their_import(tmp_path):
    folder = fake_run_folder.write_imputation(tmp_path / "filled", days=2)
    text = page.write_report(folder).read_text()
    words = Outline(text).words
    assert "40 days of 3 participants were filled with lsm2: 412,345 minute values" in words
    assert 'id="skill"' not in text
    assert 'id="training"' not in text
    assert "never measured, filled" in words
    assert "hidden truth" not in words
    assert "third-party source" in words
    assert "500" in words
    assert "Steps without a device were left out." in words
    assert "Minutes filled, by channel" in words
    assert "412,000" in words
    assert "days seen at once" not in words


SAID_WHEN_ABSENT = {
    "scores.parquet": "No scores",
    "metrics.jsonl": "no training curve",
    "predictions/gallery.npz": "no example days",
    "coverage.npz": "No coverage maps",
    "config.json": "No configuration",
    "results.json": "nothing is known about what was skipped",
}


def test_each_file_alone_makes_a_page_that_names_the_absent(tmp_path):
    whole = fake_run_folder.write_evaluation(tmp_path / "whole", days=1, methods={"lsm2": 0.4, "locf": 0.0})
    for number, present in enumerate(SAID_WHEN_ABSENT):
        target = tmp_path / f"part{number}" / present
        target.parent.mkdir(parents=True)
        target.write_bytes((whole / present).read_bytes())
        words = Outline(page.write_report(tmp_path / f"part{number}").read_text()).words
        for file, said in SAID_WHEN_ABSENT.items():
            assert (said in words) == (file != present), (present, file)


HOSTILE = "<script>alert('x')</script>&\"$\\frac{1}$\n\x07日本"


def test_text_from_files_is_escaped(tmp_path):
    folder = fake_run_folder.write_imputation(
        tmp_path / "filled", days=1, participant=HOSTILE.replace("{1}", "1") + "{:d}", notes=(HOSTILE, "-->")
    )
    coverage = dict(np.load(folder / "coverage.npz"))
    coverage["participants"] = np.asarray([HOSTILE, "b", "c"])
    np.savez(folder / "coverage.npz", **coverage)
    (folder / "config.json").write_text(json.dumps({HOSTILE: HOSTILE, "versions": {"a": HOSTILE}}))
    scored = fake_run_folder.write_evaluation(
        tmp_path / "s", methods={HOSTILE.replace("/", "|"): 0.3, "locf": 0.0}, days=1
    )
    text = page.write_report([folder, scored], tmp_path).read_text()
    assert text.count("<script") == 1  # the page's own
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text
    Outline(text)


def test_wrong_arguments_are_said_in_one_line(tmp_path):
    with pytest.raises(WearjaxError, match="no run folder given"):
        page.write_report([])
    with pytest.raises(WearjaxError, match="no such run folder"):
        page.write_report(tmp_path / "nowhere")
    with pytest.raises(WearjaxError, match="not a run folder"):
        page.write_report(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (tmp_path / "file").write_text("")
    with pytest.raises(WearjaxError, match="cannot be written"):
        page.write_report(folder, tmp_path / "file" / "report.html")


def test_only_an_earlier_page_is_replaced_unasked(evaluated, tmp_path):
    folder, _, text = evaluated
    letter = tmp_path / "letter.html"
    letter.write_text("<!DOCTYPE html><p>not ours")
    with pytest.raises(WearjaxError, match=r"letter\.html exists and is not a page of wearjax.*--force"):
        page.write_report(folder, letter)
    assert letter.read_text() == "<!DOCTYPE html><p>not ours"
    assert [p.name for p in tmp_path.iterdir()] == ["letter.html"]
    assert page.write_report(folder, letter, overwrite=True).read_text() == text
    assert page.write_report(folder, letter).read_text() == text  # an earlier page
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(WearjaxError, match=r"report\.html exists"):
        page.write_report(folder, tmp_path)


def test_a_page_of_another_kind_and_a_store_are_left_alone(evaluated, tmp_path):
    folder, _, _ = evaluated
    yours = tmp_path / "your_days.html"
    yours.write_text('<!DOCTYPE html><meta name="generator" content="wearjax: your days">')
    with pytest.raises(WearjaxError, match=r"a page of another kind \(your days\).*--force"):
        page.write_report(folder, yours)
    (tmp_path / "store.json").write_text("{}")
    with pytest.raises(WearjaxError, match="is a day store"):
        page.write_report(folder, tmp_path)


def test_zeros_that_an_import_assumed_are_not_called_measured(tmp_path):
    folder = fake_run_folder.write_imputation(tmp_path / "run") or tmp_path / "run"
    results = json.loads((folder / "results.json").read_text())
    assert "measured or taken as 0" not in page.write_report(folder).read_text()
    results["import"]["notes"] = [minute_grid.ABSENT_NOTE]
    (folder / "results.json").write_text(json.dumps(results))
    text = page.write_report(folder).read_text()
    assert "of all channel minutes were measured or taken as 0" in text
    assert "minute values measured or taken as 0" in text


def test_every_page_says_what_made_it():
    pages = [t.read_text() for t in (Path(page.__file__).parent / "templates").glob("*.html.j2")]
    whole = [text for text in pages if "<!DOCTYPE" in text]
    assert len(whole) == 4
    for text in whole:
        assert page_file.GENERATOR in text[text.index("<!DOCTYPE") :][:300]


def test_import_is_light():
    code = (
        "import sys, wearjax.report.page, wearjax.report.figures, wearjax.days.coverage\n"
        "heavy = {'jax', 'flax', 'orbax', 'grain', 'matplotlib', 'pandas', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

from html.parser import HTMLParser

import made_questions
import pytest

from wearjax.benchmarks.wearableqa import analysis, results
from wearjax.errors import StoreError
from wearjax.language.questions_run import Response
from wearjax.report import qa_page

CONFIG = {
    "model": "toy <b>", "parameters": {}, "format": "row", "mode": "cot", "removed": "nothing", "prompts": 1,
    "dataset": {"digest": "d"}, "bootstrap": 20, "seed": 42,
}  # fmt: skip


def write(folder, *, right, **changed):
    items = made_questions.items()
    letters = [
        item.answer if i < right else None if i == 11 else "AB"[item.answer == "A"]
        for i, item in enumerate(items)
    ]
    answers = [analysis.answer(item, letter) for item, letter in zip(items, letters, strict=True)]
    replies = [
        Response(i.id, f"<script>alert(1)</script> Answer: {a}") for i, a in zip(items, letters, strict=True)
    ]
    baseline = {"random": [analysis.answer(item, "A") for item in items]}
    found = results.of_answers(
        answers,
        config=CONFIG | changed,
        counts={"questions": 12},
        responses=replies,
        baselines=baseline,
        draws=20,
    )
    found.save(folder)
    return found


class Texts(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.links, self.ids = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.tags.append(tag)
        self.links += [known["href"]] if tag == "a" else []
        self.ids += [known["id"]] if "id" in known else []


def test_one_run(tmp_path):
    write(tmp_path / "run", right=6)
    assert qa_page.is_run(tmp_path / "run")
    page = qa_page.write(tmp_path / "run").read_text()
    assert "50.0 % of 12 questions answered rightly" in page
    assert "1 of 12 replies named no option" in page
    assert "Without a language model" in page
    assert "toy &lt;b&gt;" in page
    assert "<script>" not in page
    found = Texts(page)
    assert {link[1:] for link in found.links} <= set(found.ids)
    assert found.tags.count("svg") == 2
    assert qa_page.write(tmp_path / "run").read_text() == page


def test_runs_together(tmp_path, monkeypatch):
    monkeypatch.setattr(qa_page, "_letters", lambda run, name: "")
    write(tmp_path / "a", right=9)
    write(tmp_path / "b", right=4, mode="direct")
    write(tmp_path / "c", right=2, removed="history")
    page = qa_page.write([tmp_path / name for name in "abc"], tmp_path).read_text()
    assert "WearableQA: 3 runs" in page
    assert "has most answers right: 75.0 %" in page
    assert "Reasoning against the letter alone" in page
    assert "Less data against all" in page
    assert "without history" in page


def test_unreadable(tmp_path):
    with pytest.raises(StoreError, match="no results of WearableQA there"):
        qa_page.write(tmp_path)
    (tmp_path / "results.json").write_text('{"benchmark": "wearableqa"}')
    with pytest.raises(StoreError, match="not readable as results of WearableQA"):
        qa_page.write(tmp_path)
    assert not qa_page.is_run(tmp_path / "nowhere")

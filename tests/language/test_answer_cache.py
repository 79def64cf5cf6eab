import json
import os
import signal
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stub_endpoint import StubEndpoint, prompt_of

from wearjax.errors import StoreError
from wearjax.language import answer_cache
from wearjax.language.answer_cache import AnswerCache
from wearjax.language.endpoint import Client, Endpoint

whole_numbers = st.integers(-(2**63), 2**63)
answers = st.dictionaries(st.text(), st.text() | whole_numbers | st.none() | st.lists(st.text()))


@settings(max_examples=12)
@given(st.lists(answers, min_size=1, max_size=5), st.data())
def test_a_file_cut_anywhere_keeps_whole_answers_and_goes_on(tmp_path_factory, values, data):
    file = tmp_path_factory.mktemp("cache") / "answers.jsonl"
    whole, ends = AnswerCache(file), []
    for i, value in enumerate(values):
        whole.put(str(i), value)
        ends.append(file.stat().st_size)
    cut = data.draw(st.integers(0, ends[-1]))
    os.truncate(file, cut)
    cache = AnswerCache(file)
    kept = [i for i, end in enumerate(ends) if end <= cut]
    assert [i for i in range(len(values)) if cache.get(str(i)) is not None] == kept
    cache.put("after", {"text": "ü"})
    again = AnswerCache(file)
    assert again.get("after") == {"text": "ü"}
    for i in kept:
        assert again.get(str(i)) == values[i]
    # A line that lacks only its end is whole, once the next answer has ended it.
    assert len(again) + again.damaged == len(kept) + 1 + (cut not in (0, *ends))


def test_two_processes_share_a_file(tmp_path):
    one, two = AnswerCache(tmp_path / "deep" / "a"), AnswerCache(tmp_path / "deep" / "a")
    one.put("k", {"n": 1})
    assert two.get("k") == {"n": 1}
    two.put("k", {"n": 2})
    assert AnswerCache(tmp_path / "deep" / "a").get("k") == {"n": 1}


def test_threads_write_whole_lines(tmp_path):
    caches = [AnswerCache(tmp_path / "a") for _ in range(3)]

    def fill(t):
        for i in range(20):
            caches[t].put(f"{t}-{i}", {"text": "x" * 500})

    threads = [threading.Thread(target=fill, args=(t,)) for t in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = AnswerCache(tmp_path / "a")
    assert (len(found), found.damaged) == (60, 0)


def test_digest_sees_model_messages_and_parameters_only():
    base = ("m", [{"role": "user", "content": "a"}], {"temperature": 0, "seed": 1})
    same = ("m", [{"content": "a", "role": "user"}], {"seed": 1, "temperature": 0})
    assert answer_cache.digest(*base) == answer_cache.digest(*same)
    others = [
        ("n", *base[1:]),
        ("m", [{"role": "user", "content": "b"}], base[2]),
        ("m", base[1] * 2, base[2]),
        ("m", base[1], {"temperature": 0, "seed": 2}),
    ]
    assert len({answer_cache.digest(*other) for other in (base, *others)}) == 5


def test_file_is_readable_by_its_owner_only(tmp_path):
    AnswerCache(tmp_path / "a").put("k", {})
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_refuses_a_folder_and_another_format(tmp_path):
    with pytest.raises(StoreError, match="is a folder"):
        AnswerCache(tmp_path)
    (tmp_path / "a").write_text(json.dumps({"format": 9, "key": "k", "answer": {}}) + "\n")
    with pytest.raises(StoreError, match="format 9"):
        AnswerCache(tmp_path / "a")


RUN = """
import sys
from wearjax.language.endpoint import Client, Endpoint
with Client(Endpoint(sys.argv[1], "toy", concurrency=2), cache=sys.argv[2]) as client:
    client.map(lambda i: client.complete(f"question {i}"), range(6))
"""


def test_a_killed_run_resumes_without_asking_twice(tmp_path):
    stuck, release = threading.Event(), threading.Event()
    answered = []

    def step(body):
        if not release.is_set() and len(answered) >= 3:
            stuck.set()
            release.wait(60)
        answered.append(prompt_of(body))
        return "Answer: " + prompt_of(body)

    file = tmp_path / "answers.jsonl"
    with StubEndpoint(step) as stub:
        child = subprocess.Popen([sys.executable, "-c", RUN, stub.url, str(file)], stdin=subprocess.DEVNULL)
        try:
            assert stuck.wait(60)
            while not file.exists() or len(file.read_text().splitlines()) < 3:
                assert child.poll() is None
        finally:
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
        release.set()
        finished = set(answered[:3])
        n_before = len(stub.bodies)
        with Client(Endpoint(stub.url, "toy"), cache=file) as client:
            texts = client.map(lambda i: client.complete(f"question {i}"), range(6))
        asked_again = stub.prompts[n_before:]
    assert texts == [f"Answer: question {i}" for i in range(6)]
    assert not finished & set(asked_again)
    assert sorted(asked_again) == sorted({f"question {i}" for i in range(6)} - finished)

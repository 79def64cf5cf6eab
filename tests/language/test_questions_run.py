"""Questions put to a scripted endpoint: failures, garbage, silence, a kill in between, and an agent with Python."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from stub_endpoint import StubEndpoint, completion, prompt_of

from wearjax.errors import ConfigError
from wearjax.language import questions_run
from wearjax.language.answer_cache import AnswerCache
from wearjax.language.endpoint import Client, Endpoint, EndpointError
from wearjax.language.question_prompt import Prompt
from wearjax.language.questions_run import Agent, Response
from wearjax.language.sandbox import Limits

LETTERS = "ABCDEFGHIJ"
FAST = {"backoff_s": 1e-3, "timeout_s": 5.0}
AGENT = Agent(limits=Limits(cpu_s=5, wall_s=20), strict=False)
NAMES = [f"q{i}" for i in range(8)]


def build(name: str) -> Prompt:
    return Prompt(f"question {name}?", LETTERS)


def ask(stub, names=NAMES, *, build=build, kept=None, concurrency=1, **options):
    endpoint = Endpoint(stub.url, "toy", concurrency=concurrency, **{**FAST, **options})
    with Client(endpoint) as client:
        return questions_run.ask(names, build, client, kept=kept, agent_options=AGENT)


def test_replies_are_read_and_garbage_is_wrong():
    script = {
        "q0": "Thinking.\nAnswer: C", "q1": "", "q2": "It is hard to say.", "q3": "Answer: K", "q4": "Answer: A or B",
        "q5": "**d**", "q6": (200, {}, completion("Answer: E", finish_reason="length")), "q7": "f.",
    }  # fmt: skip
    with StubEndpoint(lambda body: script[prompt_of(body).split()[1][:-1]]) as stub:
        found = ask(stub, concurrency=3)
    assert [r.id for r in found] == NAMES
    assert [r.letter for r in found] == ["C", None, None, None, None, "D", "E", "F"]
    assert [r.outcome for r in found].count("unparsed") == 4
    assert [r.cut_off for r in found] == [False] * 6 + [True, False]
    assert (found[0].text, found[0].prompt_tokens) == ("Thinking.\nAnswer: C", 10)
    assert found[0].prompt == build("q0").digest


def test_busy_and_broken_endpoints_are_asked_again():
    steps = iter(
        [
            (429, {"Retry-After": "0.01"}, b"{}"),
            (500, {}, b"oops"),
            (200, {}, b"not json"),
            (200, {}, {"choices": []}),
            "Answer: B",
        ]
    )
    with StubEndpoint(lambda body: next(steps)) as stub:
        (found,) = ask(stub, ["q0"])
    assert (found.letter, len(stub.bodies)) == ("B", 5)


def test_silence_is_a_failure_and_is_not_kept(tmp_path):
    released = threading.Event()

    def silent(body):
        if "q1" in prompt_of(body):
            released.wait(20)
        return "Answer: A"

    with StubEndpoint(silent) as stub:
        found = ask(stub, ["q0", "q1", "q2"], kept=tmp_path / "r.jsonl", timeout_s=0.3, retries=0)
        released.set()
    assert [r.outcome for r in found] == ["parsed", "failed", "parsed"]
    assert "no answer within 0.3 s" in (found[1].error or "")
    with StubEndpoint(["Answer: D"]) as stub:
        again = ask(stub, ["q0", "q1", "q2"], kept=tmp_path / "r.jsonl")
    assert [r.letter for r in again] == ["A", "D", "A"]
    assert stub.prompts == ["question q1?"]


def test_gives_up_on_an_endpoint_that_never_answers(tmp_path):
    names = [f"q{i}" for i in range(30)]
    with (
        StubEndpoint(lambda body: "Answer: A" if "q0?" in prompt_of(body) else (400, {}, b"gone")) as stub,
        pytest.raises(EndpointError, match="10 questions in a row failed, the last with: status 400: gone"),
    ):
        ask(stub, names, kept=tmp_path / "r.jsonl")
    assert len(stub.bodies) == 11
    assert len(AnswerCache(tmp_path / "r.jsonl")) == 1


PROGRAM = """
import sys
from wearjax.language import questions_run
from wearjax.language.endpoint import Client, Endpoint
from wearjax.language.question_prompt import Prompt
url, kept = sys.argv[1:]
with Client(Endpoint(url, "toy", concurrency=2)) as client:
    questions_run.ask([f"q{i}" for i in range(8)], lambda n: Prompt(f"question {n}?", "ABCDEFGHIJ"), client, kept=kept)
"""


def test_goes_on_after_a_kill_without_repeating_finished_calls(tmp_path):
    kept, halt = tmp_path / "r.jsonl", threading.Event()

    def stalls(body):
        if len(stub.bodies) > 4:
            halt.wait(60)
        return f"Answer: {LETTERS[int(prompt_of(body)[10])]}"

    with StubEndpoint(stalls) as stub:
        environment = {**os.environ, "PYTHONPATH": str(Path(questions_run.__file__).parents[2])}
        running = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), stub.url, str(kept)], env=environment
        )
        while not (kept.exists() and len(kept.read_bytes().splitlines()) == 4):
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGKILL)
        running.wait()
        halt.set()
    with kept.open("ab") as file:
        file.write(b'{"format": 1, "key": "q7", "ans')  # killed in the middle of a line
    finished = {json.loads(line)["key"] for line in kept.read_bytes().splitlines()[:4]}
    built = []

    def counted(name):
        built.append(name)
        return build(name)

    with StubEndpoint(lambda body: f"Answer: {LETTERS[int(prompt_of(body)[10])]}") as stub:
        found = ask(stub, build=counted, kept=kept)
    assert [r.letter for r in found] == list("ABCDEFGH")
    assert set(built) == set(NAMES) - finished
    assert Counter(stub.prompts) == Counter(f"question {name}?" for name in built)


class Local:
    """A model without an endpoint."""

    def __init__(self):
        self.seen = []

    def complete(self, prompt, images=None):
        self.seen.append((prompt, images))
        if "q1" in prompt:
            raise EndpointError("out of memory")
        return "Answer: B"


def test_anything_that_completes_can_be_asked(tmp_path):
    local = Local()
    found = questions_run.ask(
        ["q0", "q1"], lambda n: Prompt(n, LETTERS, images=(b"png",)), local, kept=tmp_path / "r.jsonl"
    )
    assert [(r.letter, r.error) for r in found] == [("B", None), (None, "out of memory")]
    assert local.seen[0] == ("q0", [b"png"])
    with pytest.raises(ConfigError, match="need an endpoint"):
        questions_run.ask(["q0"], lambda n: Prompt(n, LETTERS, files={"record.csv": "a"}), local)


COMPUTE = """I compute it.
```python
rows = [line.split(',') for line in open('record.csv').read().split()]
print(sum(float(cells[1]) for cells in rows[1:]))
```"""


def test_an_agent_runs_its_program_on_the_record(tmp_path):
    def answers(body):
        if len(body["messages"]) == 1:
            return COMPUTE
        return f"Answer: {'C' if prompt_of(body) == 'Output:' + chr(10) + '7.0' else 'A'}"

    files = {"record.csv": "date,RHR\n2024-01-01,3\n2024-01-02,4\n"}
    with StubEndpoint(answers) as stub:
        for _ in range(2):
            (found,) = ask(
                stub, ["q0"], build=lambda n: Prompt(n, LETTERS, files=files), kept=tmp_path / "r.jsonl"
            )
            assert (found.letter, found.runs, found.attempts) == ("C", 1, ())
            assert found.turns == (COMPUTE, "Answer: C")
    assert len(stub.bodies) == 2


def test_what_the_sandbox_refused_is_told():
    script = ["```python\nopen('/victim', 'w')\n```", "Answer: J"]
    with StubEndpoint(script) as stub:
        (found,) = ask(stub, ["q0"], build=lambda n: Prompt(n, LETTERS, files={"record.csv": "date\n"}))
    assert (found.letter, found.attempts) == ("J", ("write outside",))


def test_responses_of_another_form_are_asked_again(tmp_path):
    AnswerCache(tmp_path / "r.jsonl").put("q0", {"something": "else"})
    with StubEndpoint(["Answer: A"]) as stub:
        (found,) = ask(stub, ["q0"], kept=tmp_path / "r.jsonl")
    assert (found.letter, len(stub.bodies)) == ("A", 1)
    assert Response.from_json(found.to_json()) == found

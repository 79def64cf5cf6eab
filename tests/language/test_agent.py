import json

from stub_endpoint import StubEndpoint, completion

from wearjax.language import agent, messages
from wearjax.language.endpoint import Client, Endpoint
from wearjax.language.sandbox import Limits, Sandbox

LIMITS = Limits(cpu_s=5, wall_s=20)
START = [messages.user("Mean of column a in week.csv?")]
PROGRAM = """Let me look.
```python
rows = open('week.csv').read().split()[1:]
print(sum(map(int, rows)) / len(rows))
```
"""


def converse(script, **options):
    with (
        StubEndpoint(script) as stub,
        Client(Endpoint(stub.url, "toy", retries=0)) as client,
        Sandbox(files={"week.csv": "a\n1\n2\n6\n"}, limits=LIMITS, strict=False) as sandbox,
    ):
        return stub, agent.converse(client, START, sandbox, **options)


def test_runs_a_block_and_answers():
    stub, done = converse([PROGRAM, "Answer: 3"])
    assert (done.text, done.ended, len(done.runs)) == ("Answer: 3", "answer", 1)
    assert stub.bodies[1]["messages"] == [
        *START,
        {"role": "assistant", "content": PROGRAM},
        {"role": "user", "content": "Output:\n3.0"},
    ]
    assert [m["role"] for m in done.conversation] == ["user", "assistant", "user", "assistant"]
    assert "tools" not in stub.bodies[0]


def test_an_answer_beside_a_program_waits_for_its_output():
    stub, done = converse([PROGRAM + "Output: 9\nAnswer: 9", "Answer: 3"])
    assert done.text == "Answer: 3"
    assert len(stub.bodies) == 2


def test_answers_at_once():
    stub, done = converse(["Answer: 3"])
    assert (done.ended, done.runs, len(stub.bodies)) == ("answer", (), 1)


def test_several_blocks_are_one_program():
    _, done = converse(["```python\nx = 2\n```\nthen\n```py\nprint(x)\n```", "Answer: 2"])
    assert [run.stdout for run in done.runs] == ["2\n"]


def test_tool_calls_are_answered_each():
    calls = [
        ("python", json.dumps({"code": "print(1)"})),
        ("shell", "{}"),
        ("python", "not json"),
        ("python", "[]"),
    ]
    stub, done = converse([completion(None, tool_calls=calls), "Answer: 1"], offer_tool=True)
    assert (done.ended, len(done.runs)) == ("answer", 1)
    assert stub.bodies[0]["tools"][0]["function"]["name"] == "python"
    assistant, *told = stub.bodies[1]["messages"][1:]
    assert [c["id"] for c in assistant["tool_calls"]] == [m["tool_call_id"] for m in told]
    assert [m["role"] for m in told] == ["tool"] * 4
    assert told[0]["content"] == "1"
    assert "no tool 'shell'" in told[1]["content"]
    assert "must be JSON" in told[2]["content"]
    assert "must be JSON" in told[3]["content"]


def test_runs_are_bounded_and_the_last_word_is_asked_for():
    stub, done = converse([PROGRAM], max_runs=2)
    assert (done.ended, len(done.runs), len(stub.bodies)) == ("no answer", 2, 3)
    assert "no run left" in stub.prompts[-1]
    _, done = converse([PROGRAM, PROGRAM, "Answer: 3"], max_runs=2)
    assert (done.ended, done.text) == ("answer", "Answer: 3")
    _, done = converse(
        [PROGRAM, PROGRAM + "Answer: 3"], max_runs=1
    )  # what stands beside the last program counts
    assert (done.ended, len(done.runs)) == ("answer", 1)


def test_calls_beyond_the_bound_are_told_so():
    calls = [("python", json.dumps({"code": f"print({i})"})) for i in range(3)]
    stub, done = converse([completion(None, tool_calls=calls), "Answer: 0"], max_runs=2, offer_tool=True)
    assert len(done.runs) == 2
    assert stub.bodies[1]["messages"][-2]["content"] == "not run: no run left"


def test_a_bad_tool_call_again_and_again_ends():
    stub, done = converse([completion(None, tool_calls=[("shell", "{}")])], max_runs=3)
    assert done.ended == "no answer"
    assert (len(stub.bodies), done.runs) == (4, ())


def test_one_reminder():
    stub, done = converse(["Hmm.", "Well."])
    assert (done.ended, done.text, len(stub.bodies)) == ("no answer", "Well.", 2)
    _, done = converse(["```python\nprint(1)", "Answer: 3"])  # a block without its end is not run
    assert (done.ended, done.runs) == ("answer", ())


def test_violations_come_back_to_the_model():
    stub, done = converse(["```python\nopen('/victim', 'w')\n```", "Answer: 0"])
    assert "writes in its own folder only" in stub.prompts[-1]
    assert done.runs[0].attempts == ("write outside",)


def test_endpoint_failure_ends_the_conversation():
    _, done = converse([PROGRAM, (400, {}, b"too long")])
    assert (done.ended, done.error, len(done.runs)) == ("error", "status 400: too long", 1)


def test_a_finished_conversation_is_replayed_from_the_cache(tmp_path):
    with StubEndpoint([PROGRAM, "Answer: 3"]) as stub:
        for cached in (False, True):
            with (
                Client(Endpoint(stub.url, "toy"), cache=tmp_path / "a") as client,
                Sandbox(files={"week.csv": "a\n1\n2\n6\n"}, limits=LIMITS, strict=False) as sandbox,
            ):
                done = agent.converse(client, START, sandbox)
                assert (done.text, done.cached) == ("Answer: 3", cached)
    assert len(stub.bodies) == 2

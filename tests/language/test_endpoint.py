import base64
import threading
import time
from email.utils import formatdate

import pytest
from stub_endpoint import StubEndpoint, completion

from wearjax.errors import ConfigError
from wearjax.language import messages
from wearjax.language.answers import EndpointError
from wearjax.language.endpoint import Client, Endpoint

ASK = [messages.user("how old?")]


class Clock:
    """Stands for the client's pauses: notes them and does not wait."""

    def __init__(self):
        self.pauses = []

    def wait(self, seconds):
        self.pauses.append(seconds)
        return False

    def clear(self):
        pass

    def set(self):
        pass


def client_of(stub, **options):
    cache = options.pop("cache", None)
    client = Client(Endpoint(stub.url, "toy", **options), cache=cache)
    client._stop = Clock()
    return client


def test_asks_and_reads():
    with StubEndpoint(["Answer: 3"]) as stub, client_of(stub, extra={"top_p": 0.5}) as client:
        reply = client.chat(ASK)
    assert (reply.text, reply.error, reply.finish_reason, reply.attempts) == ("Answer: 3", None, "stop", 1)
    assert stub.bodies == [
        {"model": "toy", "messages": ASK, "temperature": 0.0, "max_tokens": 2048, "seed": 0, "top_p": 0.5}
    ]
    assert "Authorization" not in stub.headers[0]
    usage = client.usage
    assert (usage.answers, usage.prompt_tokens, usage.completion_tokens) == (1, 10, 3)


def test_nothing_sent_that_is_none():
    options = {"temperature": None, "seed": None, "max_tokens_field": "max_completion_tokens"}
    with StubEndpoint(["x"]) as stub, client_of(stub, **options) as client:
        client.chat(ASK)
    assert stub.bodies == [{"model": "toy", "messages": ASK, "max_completion_tokens": 2048}]


def test_images_travel_as_data_urls():
    with StubEndpoint(["x"]) as stub, client_of(stub) as client:
        assert client.complete("look", [b"\x89PNG one", b"two"]) == "x"
    first, second, text = stub.bodies[0]["messages"][0]["content"]
    kind, data = first["image_url"]["url"].split(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data) == b"\x89PNG one"
    assert base64.b64decode(second["image_url"]["url"].split(",")[1]) == b"two"
    assert text == {"type": "text", "text": "look"}


def test_key_comes_from_the_environment_at_each_call(monkeypatch):
    monkeypatch.delenv("TOY_KEY", raising=False)
    with StubEndpoint(["x"]) as stub, client_of(stub, api_key_env="TOY_KEY") as client:
        with pytest.raises(ConfigError, match="TOY_KEY is not set"):
            client.chat(ASK)
        assert stub.bodies == []
        monkeypatch.setenv("TOY_KEY", "s3cret")
        client.chat(ASK)
    assert stub.headers[0]["Authorization"] == "Bearer s3cret"


def test_key_is_not_repeated_in_errors(monkeypatch):
    monkeypatch.setenv("TOY_KEY", "s3cret")
    refusal = (401, {}, {"error": {"message": "wrong key s3cret\nsorry"}})
    with StubEndpoint([refusal]) as stub, client_of(stub, api_key_env="TOY_KEY") as client:
        reply = client.chat(ASK)
    assert reply.error == "status 401: wrong key *** sorry"
    assert len(stub.bodies) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_retries_what_may_pass(status):
    with (
        StubEndpoint([(status, {}, b"busy"), (status, {}, {"no": 1}), "fine"]) as stub,
        client_of(stub) as client,
    ):
        reply = client.chat(ASK)
    assert (reply.text, reply.attempts, client.usage.retries) == ("fine", 3, 2)
    assert client.failures == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 302])
def test_does_not_retry_what_stays(status):
    with StubEndpoint([(status, {}, b"<p>no such\n model</p>"), "fine"]) as stub, client_of(stub) as client:
        reply = client.chat(ASK)
        assert reply.error == f"status {status}: <p>no such model</p>"
        stub.script = [(status, {}, b"")]
        with pytest.raises(EndpointError, match=rf"toy at http.*: status {status}: no explanation"):
            client.complete("how old?")
    assert len(stub.bodies) == 2
    assert [f.attempts for f in client.failures] == [1, 1]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>gateway\n</html>", "not JSON"),
        (b'{"choices": [', "not JSON"),
        ({"choices": []}, "no chat completion"),
        ({"error": {"message": "overloaded"}}, "no chat completion"),
        ([1], "no chat completion"),
        ({"choices": [{"message": {"content": 7}}]}, "no chat completion"),
    ],
)
def test_garbage_is_retried_and_named(body, reason):
    with StubEndpoint([(200, {}, body)]) as stub, client_of(stub, retries=2) as client:
        reply = client.chat(ASK)
    assert reason in reply.error
    assert "\n" not in reply.error
    assert len(stub.bodies) == 3
    assert (client.usage.failed, client.usage.answers) == (1, 0)
    assert client.failures[0].error == reply.error


def test_pauses_double_with_seeded_jitter_up_to_a_bound():
    def pauses(seed, text="how old?"):
        with StubEndpoint([(500, {}, b"")]) as stub:
            options = {"backoff_s": 1.0, "backoff_max_s": 5.0, "retries": 5, "jitter_seed": seed}
            with client_of(stub, **options) as client:
                client.chat([messages.user(text)])
                return client._stop.pauses

    first = pauses(1)
    assert len(first) == 5
    for pause, full in zip(first, [1, 2, 4, 5, 5], strict=True):
        assert full / 2 <= pause <= full
    assert first == pauses(1)
    assert first != pauses(2)
    assert first != pauses(1, "another question")


@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_honoured(as_date):
    value = formatdate(time.time() + 31, usegmt=True) if as_date else "30"
    busy = (429, {"Retry-After": value}, b"")
    with StubEndpoint([busy, "fine"]) as stub, client_of(stub, backoff_s=0.01) as client:
        assert client.chat(ASK).text == "fine"
        # The pause before the retry, and what is left of it at the next request of any thread.
        assert len(client._stop.pauses) == 2
        assert all(25 <= pause <= 31 for pause in client._stop.pauses)


def test_pause_of_one_call_holds_the_others():
    with StubEndpoint([(429, {"Retry-After": "40"}, b""), "one", "two"]) as stub, client_of(stub) as client:
        client.chat(ASK)
        client.chat([messages.user("another")])
        assert client._stop.pauses[-1] > 30


def test_too_long_a_pause_ends_the_call():
    with StubEndpoint([(429, {"Retry-After": "86400"}, b"quota")]) as stub, client_of(stub) as client:
        reply = client.chat(ASK)
    assert reply.error == "status 429: quota; asks to wait 86400 s"
    assert len(stub.bodies) == 1


def test_unreadable_retry_after_falls_back_to_back_off():
    with StubEndpoint([(503, {"Retry-After": "soon"}, b""), "fine"]) as stub, client_of(stub) as client:
        assert client.chat(ASK).text == "fine"
        assert client._stop.pauses[0] <= 1


def test_timeouts_and_broken_connections_are_retried():
    late = threading.Event()

    def slow(_):
        late.wait(5)
        return "too late"

    with StubEndpoint([slow, "fine"]) as stub, client_of(stub, timeout_s=1.0) as client:
        reply = client.chat(ASK)
        late.set()
    assert reply.text == "fine"
    assert reply.attempts >= 2  # a laden machine may be late once more
    with client_of(stub, retries=1) as client:  # nobody listens any more
        reply = client.chat(ASK)
    assert reply.error.startswith("connection failed (ConnectError")
    assert reply.attempts == 2


def test_interruption_ends_a_pause():
    with StubEndpoint([(500, {}, b"")]) as stub, Client(Endpoint(stub.url, "toy")) as client:
        client._stop.set()
        reply = client.chat(ASK)
    assert "interrupted" in reply.error
    assert len(stub.bodies) == 1


def test_reads_parts_and_tool_calls():
    parts = completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    called = completion(tool_calls=[("python", '{"code": "1"}')])
    with (
        StubEndpoint([parts, called, completion(None, finish_reason="length")]) as stub,
        client_of(stub) as client,
    ):
        assert client.chat(ASK).text == "ab"
        reply = client.chat(ASK, tools=[{"type": "function"}])
        assert (reply.text, reply.tool_calls) == (
            "",
            (messages.ToolCall("c0", "python", '{"code": "1"}'),),
        )
        assert client.chat(ASK).finish_reason == "length"
    assert stub.bodies[1]["tools"] == [{"type": "function"}]
    assert "tools" not in stub.bodies[0]


def test_answers_are_asked_once(tmp_path):
    file = tmp_path / "answers.jsonl"
    with StubEndpoint(["first", "second"]) as stub:
        with client_of(stub, cache=file) as client:
            fresh, again = client.chat(ASK), client.chat(ASK)
        with client_of(stub, cache=file) as client:
            later = client.chat(ASK)
            assert client.usage.cached == 1
            assert client.usage.prompt_tokens == 0
        with client_of(stub, cache=file, temperature=0.5) as client:
            other = client.chat(ASK)
    assert [r.text for r in (fresh, again, later, other)] == ["first", "first", "first", "second"]
    assert [r.cached for r in (fresh, again, later, other)] == [False, True, True, False]
    assert len(stub.bodies) == 2
    assert later.raw == fresh.raw


def test_failures_are_not_kept_as_answers(tmp_path):
    with StubEndpoint([(400, {}, b"no"), "fine"]) as stub, client_of(stub, cache=tmp_path / "a") as client:
        assert client.chat(ASK).error
        assert client.chat(ASK).text == "fine"


def test_equal_questions_at_once_are_asked_once(tmp_path):
    with StubEndpoint(["one"]) as stub, client_of(stub, cache=tmp_path / "a", concurrency=4) as client:
        replies = client.map(lambda _: client.chat(ASK), range(8))
    assert {r.text for r in replies} == {"one"}
    assert len(stub.bodies) == 1
    assert client._same == {}


def test_concurrency_is_used_and_kept():
    together, most = threading.Barrier(3, timeout=10), []
    running, lock = [0], threading.Lock()

    def step(_):
        with lock:
            running[0] += 1
            most.append(running[0])
        together.wait()  # passes only when three calls are under way
        with lock:
            running[0] -= 1
        return "x"

    with StubEndpoint(step) as stub, client_of(stub, concurrency=3) as client:
        client.map(lambda i: client.complete(str(i)), range(6))
    assert max(most) == 3


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"base_url": "localhost:1"}, "base_url"),
        ({"model": ""}, "model"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"concurrency": 0}, "concurrency"),
        ({"retries": -1}, "retries"),
        ({"extra": {"stream": True}}, "stream"),
    ],
)
def test_impossible_values_are_named(options, named):
    with pytest.raises(ConfigError, match=named):
        Endpoint(**{"base_url": "http://x", "model": "toy", **options})

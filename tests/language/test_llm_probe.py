import base64
import dataclasses

import numpy as np
import pytest
from made_week import days, hide
from stub_endpoint import StubEndpoint, prompt_of

from wearjax.errors import ConfigError, MethodError
from wearjax.language import week, week_image
from wearjax.language.answers import EndpointError
from wearjax.language.endpoint import Client, Endpoint
from wearjax.language.llm_probe import LLMProbe
from wearjax.language.sandbox import Limits
from wearjax.language.task_prompts import TaskDescription
from wearjax.predict import protocols
from wearjax.predict.protocols import EvalContext

USERS = ("ann-7731", "bob-4410", "eve-9025")
DATA = [days(9, seed) for seed in range(3)]
DATES = tuple(tuple(f"2019-03-{d:02d}" for d in range(1, 10)) for _ in USERS)


def context(task, split="test", users=USERS, dates=DATES):
    return EvalContext(task, split, users, dates)


def steps_of(body):
    """The participant that a prompt is about, by its step count."""
    means = [week.fullest_week(array).values[:, 0].mean() for array in DATA]
    starts = [f"iphone_steps | steps/h | {week_image.shorten(mean)} " for mean in means]
    return next(i for i, start in enumerate(starts) if start in prompt_of(body))


def probe_of(stub, mode="statistics", **options):
    endpoint = Endpoint(stub.url, "toy", retries=0, concurrency=options.pop("concurrency", 2))
    return LLMProbe(mode, endpoint, **options)


def predict(probe, task, data=DATA, labels=None, kind="ordinal", **who):
    if labels is not None:
        protocols.call_set_context(probe, context(task, "train", **who))
        protocols.call_fit(probe, data, np.asarray(labels, float), kind, task=task)
    protocols.call_set_context(probe, context(task, **who))
    return protocols.call_predict(probe, data, task=task)


@pytest.fixture
def drawn(monkeypatch):
    """Stands for the figures, which have tests of their own."""
    weeks = []

    def render(shown):
        weeks.append(shown)
        return shown.values.tobytes()

    monkeypatch.setattr(week_image, "render", render)
    return weeks


def test_is_a_predictor():
    with StubEndpoint(["x"]) as stub:
        probe = probe_of(stub)
    assert isinstance(probe, protocols.Predictor)
    assert protocols.data_spec_of(probe) == protocols.DataSpec("hourly", "day")
    assert protocols.method_name(probe) == "toy (statistics)"


def test_levels_in_the_order_of_the_data():
    with StubEndpoint(lambda body: f"Reasons.\nAnswer: {steps_of(body) + 1}") as stub:
        probe = probe_of(stub)
        np.testing.assert_array_equal(predict(probe, "BMI_categories"), [1, 2, 3])
    assert [a.participant for a in probe.answers["BMI_categories", "test"]] == list(USERS)
    assert probe.counts() == {("BMI_categories", "test"): {"parsed": 3}}
    assert probe.client.usage.answers == 3
    text = stub.prompts[0]
    assert "2: Overweight" in text
    assert text.endswith("Answer: <index>")
    assert "watch_hr | bpm | 7" in text


def test_no_ids_and_no_dates_are_sent(drawn):
    for mode in ("statistics", "vision", "agentic"):
        with StubEndpoint(["Answer: 1"]) as stub:
            predict(
                probe_of(stub, mode, strict=False), "Diabetes", DATA[:1], users=USERS[:1], dates=DATES[:1]
            )
        sent = str(stub.bodies)
        assert not any(secret in sent for secret in (*USERS, "2019-03", "Diabetes)"))


def test_binary_by_index_or_probability():
    with StubEndpoint(["Answer: Yes"]) as stub:
        np.testing.assert_array_equal(predict(probe_of(stub), "Diabetes"), [1, 1, 1])
    with StubEndpoint(["Answer: 30%"]) as stub:
        out = predict(probe_of(stub, binary_answer="probability"), "Diabetes")
        np.testing.assert_allclose(out, 0.3)
        # Levels stay levels.
        assert np.isnan(predict(probe_of(stub, binary_answer="probability"), "BMI_categories")).all()
    assert "Answer: <probability>" in stub.prompts[0]


def test_numbers_are_kept_within_the_training_labels():
    with StubEndpoint(lambda body: f"Answer: {[45, 300, -1][steps_of(body)]} years") as stub:
        probe = probe_of(stub)
        out = predict(probe, "age", labels=[20, 80.5, np.nan], kind="regression")
        np.testing.assert_array_equal(out, [45, 80.5, 20])
        assert "values lie between 20 and 80.5" in stub.prompts[0]
        assert probe.counts()["age", "test"] == {"parsed": 1, "clipped": 2}
        np.testing.assert_array_equal(predict(probe_of(stub), "age"), [45, 300, -1])  # never fitted: as said


def test_a_percentage_of_a_fraction():
    with StubEndpoint(["Answer: 12 %"]) as stub:
        out = predict(probe_of(stub), "framingham_risk", labels=[0.01, 0.9, 0.3], kind="regression")
    np.testing.assert_allclose(out, 0.12)


def test_unparsed_failed_and_empty_are_nan_and_counted():
    def step(body):
        return ["I cannot say.", (400, {}, b"refused")][steps_of(body)]

    data = [*DATA[:2], hide(days(2))]
    dates = (*DATES[:2], ("2019-03-01", "2019-03-02"))
    with StubEndpoint(step) as stub:
        probe = probe_of(stub)
        out = predict(probe, "BMI_categories", data, dates=dates)
    assert np.isnan(out).all()
    assert len(stub.bodies) == 2
    assert probe.counts() == {("BMI_categories", "test"): {"unparsed": 1, "failed": 1, "no data": 1}}
    told = probe.answers["BMI_categories", "test"]
    assert (told[0].text, told[1].error) == ("I cannot say.", "status 400: refused")
    assert [f.error for f in probe.client.failures] == ["status 400: refused"]


def test_days_without_matching_dates_are_consecutive_and_counted():
    dates = (("2019-03-01",), *DATES[1:])
    with StubEndpoint(["Answer: 1"]) as stub:
        probe = probe_of(stub)
        predict(probe, "BMI_categories", dates=dates)
    assert probe.counts()["BMI_categories", "test"] == {"parsed": 3, "undated": 1}


def test_data_that_tell_their_dates_are_never_undated():
    class Dated(list):
        dates = (("2019-03-01", "2019-03-09"),)

    two_days_apart = Dated([days(2)])
    with StubEndpoint(["Answer: 1"]) as stub:
        probe = probe_of(stub)
        predict(probe, "BMI_categories", two_days_apart, users=USERS[:1], dates=DATES[:1])
    assert probe.counts()["BMI_categories", "test"] == {"parsed": 1}
    assert "| 14%" in stub.prompts[0]  # one day of seven; the other is of another week


def test_vision_sends_the_figure(drawn):
    with StubEndpoint(["Answer: 2"]) as stub:
        probe = probe_of(stub, "vision", concurrency=1)
        predict(probe, "BMI_categories", DATA[:1], users=USERS[:1], dates=DATES[:1])
        predict(probe, "Diabetes", DATA[:1], users=USERS[:1], dates=DATES[:1])
    image, text = stub.bodies[0]["messages"][1]["content"]
    sent = base64.b64decode(image["image_url"]["url"].split(",")[1])
    assert sent == week.fullest_week(DATA[0], DATES[0]).values.tobytes()
    assert len(drawn) == 1  # kept for the next task
    assert stub.bodies[1]["messages"][1]["content"][0] == image
    assert "gray lines at midnight" in text["text"]
    assert "- watch_hr (bpm): heart rate" in text["text"]


def test_agentic_runs_python_on_the_week():
    def step(body):
        last = prompt_of(body)
        if last.startswith("Output:"):
            return "Answer: " + last.split()[1]
        return "```python\nprint(len(open('week.csv').read().splitlines()) - 167)\n```"

    with StubEndpoint(step) as stub:
        probe = probe_of(stub, "agentic", limits=Limits(cpu_s=5), strict=False)
        out = predict(probe, "BMI_categories", DATA[:2], users=USERS[:2], dates=DATES[:2])
    np.testing.assert_array_equal(out, [2, 2])
    assert [len(a.runs) for a in probe.answers["BMI_categories", "test"]] == [1, 1]
    assert "You have 12 runs" in stub.prompts[0]


def test_a_resumed_run_asks_only_what_is_left(tmp_path):
    asked = []

    def step(body):
        asked.append(steps_of(body))
        if len(asked) == 2:
            return (400, {}, b"gone")
        return "Answer: 1"

    with StubEndpoint(step) as stub:
        first = probe_of(stub, cache=tmp_path / "answers", concurrency=1)
        out = predict(first, "BMI_categories")
        again = probe_of(stub, cache=tmp_path / "answers", concurrency=1)
        np.testing.assert_array_equal(predict(again, "BMI_categories"), [1, 1, 1])
    assert np.isnan(out).sum() == 1
    assert asked == [0, 1, 2, 1]
    assert [a.cached for a in again.answers["BMI_categories", "test"]] == [True, False, True]


def test_an_endpoint_that_never_answers_ends_the_run():
    users = tuple(f"u{i}" for i in range(30))
    data, dates = [DATA[0]] * 30, (DATES[0],) * 30
    with StubEndpoint([(401, {}, b"no key")]) as stub:
        probe = probe_of(stub, concurrency=1)
        protocols.call_set_context(probe, context("Diabetes", users=users, dates=dates))
        with pytest.raises(
            EndpointError, match="10 calls in a row failed, the last with: status 401: no key"
        ):
            probe.predict(data)
    assert len(stub.bodies) == 10
    assert len(probe.client.failures) == 10


def test_progress_and_own_descriptions():
    seen = []
    described = {"mood": TaskDescription("mood", "How is the mood?", ("bad", "good"))}
    with StubEndpoint(["Answer: good"]) as stub:
        probe = probe_of(stub, descriptions=described, progress=lambda *p: seen.append(p), name="mine")
        np.testing.assert_array_equal(predict(probe, "mood"), [1, 1, 1])
        assert probe.name == "mine"
        with pytest.raises(MethodError, match="'fun' has no description"):
            predict(probe, "fun")
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_settings_tell_what_changes_predictions():
    endpoint = Endpoint("http://x", "toy")
    base = LLMProbe("statistics", endpoint).settings
    assert LLMProbe("statistics", dataclasses.replace(endpoint, concurrency=9, retries=1)).settings == base
    for other in (
        LLMProbe("vision", endpoint),
        LLMProbe("statistics", endpoint, binary_answer="probability"),
        LLMProbe("statistics", dataclasses.replace(endpoint, model="other")),
        LLMProbe("statistics", dataclasses.replace(endpoint, temperature=1.0)),
    ):
        assert other.settings != base


def test_refuses():
    endpoint = Endpoint("http://x", "toy")
    with pytest.raises(ConfigError, match="mode 'magic' is unknown"):
        LLMProbe("magic", endpoint)
    with pytest.raises(ConfigError, match="binary_answer"):
        LLMProbe("statistics", endpoint, binary_answer="maybe")
    with pytest.raises(ConfigError, match="max_runs"):
        LLMProbe("agentic", endpoint, max_runs=0)
    with pytest.raises(ConfigError, match="give the cache to the client"):
        LLMProbe("statistics", Client(endpoint), cache="x")
    with pytest.raises(MethodError, match="set_context must be called first"):
        LLMProbe("statistics", endpoint).predict([])
    probe = LLMProbe("statistics", endpoint)
    probe.set_context(context("age"))
    with pytest.raises(MethodError, match="1 participants in the data, 3 in the context"):
        probe.predict(DATA[:1])

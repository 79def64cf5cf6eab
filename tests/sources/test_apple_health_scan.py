"""Plain records read in blocks: the very days, counts and refusals that the XML parser alone gives."""

from __future__ import annotations

import gzip
import re

import made_apple_health as made
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from wearjax.channels import INDEX
from wearjax.errors import SourceError
from wearjax.sources import apple_health, apple_health_container, apple_health_records, apple_health_xml
from wearjax.sources.tally import Tally

DAY = "2024-05-01"
TYPES = (
    made.STEPS,
    made.STEPS,
    made.HEART,
    made.ENERGY,
    made.SLEEP,
    "HKQuantityTypeIdentifierBodyMass",
    "A&amp;B",
)
ODD_VALUES = (
    "Q &amp; A", "&apos;&quot;&lt;&gt;", "&#8217;", "&#11;", "&nbsp;", "&", "&am", "&ltx;", "<", ">",
    "a\tb", "a\nb", "\x0b", "'",
)  # fmt: skip
UNITS = {made.STEPS: "count", made.HEART: "count/min", made.ENERGY: "kcal"}


def outcome(file, *, plain: bool, **options):
    """What a reading gives: days by date, counts, and the refusal, if any, without its byte position."""
    tally = Tally()
    try:
        days = {
            str(day.date): day.values
            for day in apple_health.read_days(file, tally=tally, plain=plain, keep_partial=True, **options)
        }
    except SourceError as error:
        return {}, None, _unplaced(str(error))
    return days, {**tally.as_dict(), "notes": [_unplaced(note) for note in tally.as_dict()["notes"]]}, ""


def _unplaced(text: str) -> str:
    return re.sub(r"near byte [\d,]+", "near byte", text)


def same(file, **options):
    """Asserts that both ways agree, and returns what they give."""
    (fast, counts, error), (exact, wanted, refusal) = (
        outcome(file, plain=plain, **options) for plain in (True, False)
    )
    assert error == refusal
    assert counts == wanted
    assert list(fast) == list(exact)
    for date, values in fast.items():
        np.testing.assert_array_equal(values, exact[date], err_msg=date)
    return fast, counts, error


@st.composite
def attributes(draw) -> list[tuple[str, str]]:
    """The attributes of a record as they are written, mostly as a phone writes them."""
    kind = draw(st.sampled_from(TYPES))
    first = draw(st.integers(0, 86_000))
    seconds = (first, first + draw(st.integers(0, 399)))
    start, end = (f"{DAY} {s // 3600:02}:{s // 60 % 60:02}:{s % 60:02} +0200" for s in seconds)
    in_bed = "HKCategoryValueSleepAnalysisInBed"
    value = draw(st.sampled_from(["7", "1.1", "61", "16777216", "4e1", "-1", "", "1_0", in_bed]))
    address = draw(st.sampled_from(["&lt;&lt;HKDevice: 0x1f&gt;, ", "&lt;&lt;HKDevice: 0x2>, ", "", "&lt;"]))
    out = [
        ("type", kind),
        ("sourceName", draw(st.sampled_from(["Quist’s Apple\u00a0Watch", "iPhone", "Ring", *ODD_VALUES]))),
        ("sourceVersion", "10.6.1"),
        ("device", address + draw(st.sampled_from([made.WATCH, made.PHONE, "name:Ring, manufacturer:Oura"])) + "&gt;"),
        ("unit", UNITS.get(kind, "kg")),
        ("creationDate", end),
        ("startDate", draw(st.sampled_from([start, start, start, "20240501100000+0200", "soon", ""]))),
        ("endDate", end),
        ("value", value),
    ]  # fmt: skip
    dropped = draw(st.sets(st.sampled_from(["sourceVersion", "device", "creationDate", "value"]), max_size=2))
    if draw(st.integers(0, 9)) == 0:
        dropped |= {draw(st.sampled_from(["sourceName", "startDate", "endDate"]))}
    out = [(name, text) for name, text in out if name not in dropped]
    return draw(st.permutations(out)) if draw(st.integers(0, 7)) == 0 else out


@st.composite
def records(draw, indent=" ") -> str:
    quote = "'" if draw(st.integers(0, 9)) == 0 else '"'
    space = draw(st.sampled_from([" "] * 9 + ["\n  ", "\t"]))
    written = space.join(f"{name}={quote}{text}{quote}" for name, text in draw(attributes()))
    child = draw(
        st.sampled_from(
            [""] * 4
            + ['  <MetadataEntry key="K" value="1"/>\n', '  <MetadataEntry key="K" value="1"/>\n' * 2]
            + ['  <MetadataEntry key="HKWasUserEntered" value="1"/>\n']
            + [
                '  <MetadataEntry value="1" key="HKWasUserEntered"/>\n',
                '  <MetadataEntry key="K" value=">"/>\n',
            ]
            + ['  <L>\n   <B bpm="1"/>\n  </L>\n', "text", f' <Record type="{made.STEPS}" value="3"/>\n']
        )
    )
    end = ">\n" + child + f"{indent}</Record>\n" if child else "/>\n"
    return f"{indent}<Record{space}{written}{end}"


YOGA = (
    f' <Workout workoutActivityType="HKWorkoutActivityTypeYoga" sourceName="w" startDate="{DAY} 10:00:00 +0200"'
    f' endDate="{DAY} 10:30:00 +0200">\n{{}} </Workout>\n'
)
ODD = (
    "<!-- {} -->\n", "<![CDATA[ {} ]]>\n", "<?pi {} ?>\n", ' <Correlation type="C">\n{} </Correlation>\n',
    ' <Correlation type="C"/>{}', "<X a='\"'/>\n{}", ' <X a="/>\n">{}</X>\n', '<X a="\x0b\x01{}"/>',
    "&#10;{}", "&lt;{}", "\r\n{}", "{}]]", ' <Record type="X" {} />\n', " text\n{}", "</HealthData>\n{}",
    "&nbsp;{}", "{}\n", "\t{}", YOGA, ' <ExportDate value="2019-01-01 00:00:00 +0000"/>\n{}',
    ' <ActivitySummary dateComponents="2024-05-01"/>\n{}', " <Record\n{}", "<{}", '"{}', "'{}",
    "{} </Record>\n", " </Record>\n{}",
    ' <Record type="X" sourceName="a" startDate="" endDate=""/>\n </Record>\n{}',
)  # fmt: skip


@st.composite
def pieces(draw) -> str:
    run = "".join(draw(st.lists(records(), max_size=4)))
    if draw(st.integers(0, 3)):
        return run
    inner = "".join(draw(st.lists(records(indent=draw(st.sampled_from(["", " ", "  "]))), max_size=2)))
    return run + draw(st.sampled_from(ODD)).replace("{}", inner)


def one(start="10:00", end="10:01", *, name="Quist’s Apple\u00a0Watch", value="7", inside="", **more) -> str:
    """A plain record, as a phone writes it."""
    return made.steps(
        f"{DAY} {start}", f"{DAY} {end}", value, source="SOURCE", inside=inside, **more
    ).replace("SOURCE", name)


def both(tmp_path, *elements: str | bytes, chunk: int = 1 << 18):
    file = tmp_path / "export.xml"
    file.write_bytes(made.document(*elements) if isinstance(elements[0], str) else elements[0])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(apple_health_container, "_CHUNK_BYTES", chunk)
        return same(file, include_third_party=True)


def five(hour: int) -> str:
    return "".join(one(f"{hour:02}:{m:02}", f"{hour:02}:{m + 1:02}", value=str(hour + m)) for m in range(5))


@pytest.mark.parametrize("chunk", [1 << 18, 1000, 60])
@pytest.mark.parametrize("odd", ODD)
def test_other_things_between_plain_records(tmp_path, odd, chunk):
    both(tmp_path, five(10), odd.replace("{}", five(11)), five(12), chunk=chunk)


@pytest.mark.parametrize("value", ODD_VALUES)
@pytest.mark.parametrize(
    "field", ["type", "sourceName", "device", "unit", "creationDate", "startDate", "value", "key"]
)
def test_odd_values_in_plain_records(tmp_path, field, value):
    inside = '\n  <MetadataEntry key="K" value="1"/>\n '
    record = one(inside=inside)
    changed, n = re.subn(rf'(?<= {field}=")[^"]*', lambda _: value, record, count=1)
    assert n == 1
    both(tmp_path, five(9), changed, five(10))


def test_records_stay_in_their_order(tmp_path, monkeypatch):
    """In float32 a large number swallows ones that come singly after it, but not those summed before."""
    monkeypatch.setattr(apple_health_records, "BATCH", 1)
    odd = one(value="1").replace(" sourceVersion", "  sourceVersion")
    small, large = one("10:00", "10:02", value="2"), one(value="16777216")
    for order, wanted in (((odd, small, large), 16777218.0), ((large, odd, small), 16777216.0)):
        days, _, _ = both(tmp_path, five(9), *order, five(11))
        assert float(days[DAY][INDEX["watch_steps"], 600]) == wanted


@pytest.mark.parametrize("chunk", [5000, 900])
def test_a_container_that_breaks_off(tmp_path, chunk):
    """The record that waited for its end is kept, as the parser keeps it."""
    packed = gzip.compress(made.document(*(five(h) for h in range(24))))
    days, counts, _ = both(tmp_path, packed[:-900], chunk=chunk)
    assert counts["notes"]
    assert np.nansum(days[DAY][INDEX["watch_steps"]]) > 0


def test_entries_made_by_hand_among_plain_records(tmp_path):
    by_hand = '\n  <MetadataEntry key="K" value="1"/>\n  <MetadataEntry key="HKWasUserEntered" value="1"/>\n '
    days, counts, _ = both(tmp_path, five(9), one("10:10", "10:20", inside=by_hand), five(11))
    assert counts["skipped"] == [{"measure": "StepCount", "reason": "entered by hand", "count": 1}]
    assert np.nansum(days[DAY][INDEX["watch_steps"]]) == pytest.approx(55 + 65)


@pytest.mark.parametrize(
    "field", ["type", "sourceName", "sourceVersion", "device", "unit", "creationDate", "startDate", "value"]
)
def test_attributes_may_be_missing(tmp_path, field):
    """A record without its type, start or value is counted as left out, never guessed; the others hold."""
    record, n = re.subn(rf' {field}="[^"]*"', "", one("10:10", "10:20", value="900"))
    assert n == 1
    days, counts, _ = both(tmp_path, five(9), record, five(11))
    steps = 0 if not days else np.nansum(days[DAY][INDEX["watch_steps"]])
    if field in ("sourceVersion", "creationDate", "sourceName", "device", "unit"):
        assert steps == pytest.approx(55 + 65 + 900)
    else:
        assert steps == pytest.approx(55 + 65)
        assert counts["skipped"]


def test_an_export_of_plain_records_never_needs_the_parser(tmp_path, monkeypatch):
    """What is fast about it: the parser gets the head and the tail only."""
    texts = [five(h) for h in range(10, 20)]
    given = []
    give = apple_health_xml.Document._give

    def noted(self, text):
        given.append(len(text))
        give(self, text)

    monkeypatch.setattr(apple_health_xml.Document, "_give", noted)
    file = tmp_path / "export.xml"
    file.write_bytes(made.document(*texts))
    _, counts, _ = outcome(file, plain=True)
    assert counts["read"] == {"StepCount": 50}
    assert sum(given) < 1000 < file.stat().st_size


@given(
    body=st.lists(pieces(), max_size=6).map("".join),
    chunk=st.sampled_from([1 << 18, 700, 90]),
    keep=st.sampled_from([1.0] * 5 + [0.97, 0.8, 0.5]),
    broken=st.sampled_from([None] * 6 + [b"<", b"\x0b", b'"', b"\xff", b"&", b">"]),
    place=st.floats(0.3, 1),
    batch=st.sampled_from([4096, 3]),
)
@example(body='<X a="x\n <Record type="y"/>\n', chunk=1 << 18, keep=1.0, broken=None, place=0.5, batch=3)
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_blocks_and_parser_agree(tmp_path_factory, body, chunk, keep, broken, place, batch):
    data = made.document(body)
    if broken:
        at = int(place * len(data))
        data = data[:at] + broken + data[at:]
    file = tmp_path_factory.getbasetemp() / "agree.xml"
    file.write_bytes(data[: max(int(keep * len(data)), 300)])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(apple_health_container, "_CHUNK_BYTES", chunk)
        patched.setattr(apple_health_records, "BATCH", batch)
        same(file, include_third_party=True)

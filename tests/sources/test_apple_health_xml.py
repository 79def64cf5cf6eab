"""The byte filter and the parse: Apple's faults pass, attacks and breaks end in one line."""

from __future__ import annotations

import re

import made_apple_health as made
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.errors import SourceError
from wearjax.sources import apple_health_xml as xml
from wearjax.sources.archive import DamagedError

BROKEN_DTD = """<!DOCTYPE HealthData [
<!-- HealthKit Export Version: 12 -->
<!ELEMENT HealthData (ExportDate,Me,(Record|Workout)*)>
<!ATTLIST WorkoutStatistics
  startDate CDATA #REQUIRED
  startDate CDATA #REQUIRED
<!ELEMENT VisionPrescription ((RightEye|LeftEye)*>
  <!ATTLIST RightEye sphere CDATA
]>
"""
BOMB_DTD = """<!DOCTYPE HealthData [
<!ENTITY a "lol lol lol lol lol lol lol lol lol lol">
<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
<!ENTITY file SYSTEM "file:///etc/passwd">
]>
"""


def chunks(data: bytes, size: int):
    return (data[i : i + size] for i in range(0, len(data), size))


class Elements:
    """Stands where the reader of records does and keeps every element."""

    def __init__(self):
        self.found, self.depth = [], 0

    def attach(self, parser):
        parser.StartElementHandler = lambda name, attributes: self.found.append((name, attributes))

    def at(self, place):
        pass

    def take(self, block=None, records=None):
        assert records is None or not len(records)


def elements(data: bytes, *, size: int = 1 << 16):
    reader = Elements()
    cleaned = xml.parse(chunks(data, size), reader, name="export.xml", plain=False)
    return reader.found, cleaned


@pytest.mark.parametrize(
    "dtd", [made.DTD, BROKEN_DTD, "", '<!DOCTYPE HealthData SYSTEM "http://example.invalid/x.dtd">\n']
)
@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_whatever_stands_before_the_root_is_skipped(dtd, size):
    found, cleaned = elements(
        made.document(made.steps("2024-05-01 10:00", "2024-05-01 10:01", 7), dtd=dtd), size=size
    )
    assert [name for name, _ in found] == ["HealthData", "ExportDate", "Me", "Record"]
    assert found[-1][1]["value"] == "7"
    assert cleaned.dropped == 0


def test_a_byte_order_mark_is_no_hindrance():
    found, _ = elements(b"\xef\xbb\xbf" + made.document())
    assert found[0][0] == "HealthData"


@pytest.mark.parametrize(
    ("inserted", "left", "dropped"),
    [
        (b"a\x0bb", "ab", 1), (b"\x00a\x1fb\x08", "ab", 3), (b"a\xef\xbf\xbeb", "ab", 3),
        (b"a\xffb", "ab", 1),
        (b"a\xed\xa0\x80b", "ab", 3), (b"a&#11;b", "ab", 5), (b"a&#x0B;b&#0;", "ab", 10),
        (b"a&#xFFFFFFFF;b", "ab", 12), (b"a&#x20AC;&amp;b", "a€&b", 0), (b"a&#9;b", "a\tb", 0),
        ("a\u2019\u00a0b".encode(), "a\u2019\u00a0b", 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 3, 1 << 16])
def test_illegal_characters_are_dropped_and_counted(inserted, left, dropped, size):
    data = made.document(made.element("Record", {"sourceName": "MARK"})).replace(b"MARK", inserted)
    found, cleaned = elements(data, size=size)
    assert found[-1][1]["sourceName"] == left
    assert cleaned.dropped == dropped


@given(st.binary(max_size=200), st.integers(1, 64))
def test_any_bytes_give_elements_or_a_source_error(noise, size):
    data = made.document(made.element("Record", {"sourceName": "MARK"})).replace(b"MARK", noise)
    try:
        outcome = f"{len(elements(data, size=size)[0])} elements"
    except SourceError as error:  # nothing else may escape
        outcome = str(error)
    assert "\n" not in outcome


@pytest.mark.parametrize("reference", ["&c;", "&file;", "&nbsp;"])
def test_entities_are_never_resolved(reference):
    data = made.document(made.element("Record", {"sourceName": "MARK"}), dtd=BOMB_DTD)
    with pytest.raises(SourceError, match=r"^export\.xml: an entity reference near byte [\d,]+ .* refused$"):
        elements(data.replace(b"MARK", reference.encode()))


def test_an_entity_bomb_that_is_not_used_is_harmless():
    found, _ = elements(made.document(made.steps("2024-05-01 10:00", "2024-05-01 10:01", 7), dtd=BOMB_DTD))
    assert len(found) == 4


def test_a_second_document_type_inside_is_refused():
    with pytest.raises(SourceError, match="not well-formed"):
        elements(made.document(BOMB_DTD))


@pytest.mark.parametrize("keep", [0.5, 0.8, 0.99])
def test_a_break_names_the_byte(keep):
    data = made.document(*[made.steps("2024-05-01 10:00", "2024-05-01 10:01", i) for i in range(50)])
    data = data[: int(len(data) * keep)]
    with pytest.raises(DamagedError, match=f"breaks off at byte {len(data):,}"):
        elements(data)


def test_a_fault_in_the_middle_names_the_byte():
    data = made.document(
        made.element("Record", {"a": "1"}), '<Record b=1"/>', made.element("Record", {"a": "1"})
    )
    at = data.index(b'b=1"')
    with pytest.raises(DamagedError, match="not well-formed XML near byte") as caught:
        elements(data)
    assert abs(int(re.search(r"byte ([\d,]+)", str(caught.value))[1].replace(",", "")) - at) < 20


def test_what_follows_the_root_is_ignored():
    found, cleaned = elements(made.document() + b"<HealthData/>")
    assert [name for name, _ in found] == ["HealthData", "ExportDate", "Me"]
    assert cleaned.ignored_tail


def test_no_root_within_reach(monkeypatch):
    monkeypatch.setattr(xml, "PROLOG_BYTES_MAX", 1000)
    with pytest.raises(SourceError, match="no HealthData element"):
        elements(b"<!DOCTYPE HealthData [" + b"<!ELEMENT x ANY>" * 500 + b"]><HealthData/>", size=100)


def test_a_tag_without_end_does_not_fill_memory(monkeypatch):
    monkeypatch.setattr(xml, "TAG_BYTES_MAX", 1000)
    with pytest.raises(SourceError, match="a tag longer than"):
        elements(made.document('<Record a="' + "x" * 5000 + '"/>'), size=100)


def test_a_comment_without_end_does_not_fill_memory(monkeypatch):
    monkeypatch.setattr(xml, "TAG_BYTES_MAX", 1000)
    with pytest.raises(SourceError, match="a tag longer than"):
        elements(made.document("<!-- " + "<Record/>" * 500), size=100)

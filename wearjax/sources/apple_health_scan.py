"""Finds the plain records in a block of a HealthData document, many times faster than an XML parser reads them.

Nearly all bytes of an export are records written in one way: the attributes in one order, no child or only
metadata, one space before the tag. The texts between two values then tell by themselves, two neighbours at a
time, whether a stretch is a sequence of such records, and where each value stands. Everything else (other
elements, other orders and layouts, comments, unusual characters and references) is left to the parser.
"""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Int64, UInt8, UInt64

_Absent = TypeVar("_Absent")
_RECORD = b" <Record type="
# What stands between two values, by code; zero is anything else.
(_FIRST, _AFTER_EMPTY, _AFTER_CHILDREN, NAME, _VERSION, DEVICE, UNIT, _CREATED, START, END, VALUE,
 _CHILD, _NEXT_CHILD, _CHILD_VALUE) = range(1, 15)  # fmt: skip
_TEXTS = {
    _FIRST: _RECORD,
    _AFTER_EMPTY: b"/>\n" + _RECORD,
    _AFTER_CHILDREN: b"/>\n </Record>\n" + _RECORD,
    NAME: b" sourceName=",
    _VERSION: b" sourceVersion=",
    DEVICE: b" device=",
    UNIT: b" unit=",
    _CREATED: b" creationDate=",
    START: b" startDate=",
    END: b" endDate=",
    VALUE: b" value=",
    _CHILD: b">\n  <MetadataEntry key=",
    _NEXT_CHILD: b"/>\n  <MetadataEntry key=",
}
_FOLLOWERS = {
    (_FIRST, _AFTER_EMPTY, _AFTER_CHILDREN): (NAME,),
    (NAME,): (_VERSION, DEVICE, UNIT, _CREATED, START),
    (_VERSION,): (DEVICE, UNIT, _CREATED, START),
    (DEVICE,): (UNIT, _CREATED, START),
    (UNIT,): (_CREATED, START),
    (_CREATED,): (START,),
    (START,): (END,),
    (END,): (VALUE, _CHILD, _AFTER_EMPTY),
    (VALUE,): (_CHILD, _AFTER_EMPTY),
    (_CHILD, _NEXT_CHILD): (_CHILD_VALUE,),
    (_CHILD_VALUE,): (_NEXT_CHILD, _AFTER_CHILDREN),
}
_N_CODES = 15
_MAY_FOLLOW = np.zeros((_N_CODES, _N_CODES), bool)
for _codes, _next in _FOLLOWERS.items():
    _MAY_FOLLOW[np.ix_(_codes, _next)] = True
_ENTITY = re.compile(rb"&(?:lt|gt|amp|quot|apos);")
_BY_HAND = b"HKWasUserEntered"  # changes what a record counts for: left to the parser

# Texts are told apart by their length and compared eight bytes at a time, from the end.
_LENGTH_MAX = 63
_OF_LENGTH = np.zeros(_LENGTH_MAX + 1, np.uint8)
for _code, _text in _TEXTS.items():
    if _code != _FIRST:  # as long as another; it can only stand at the start of a block
        _OF_LENGTH[len(_text)] = _code
_N_WORDS = 1 + max(map(len, _TEXTS.values())) // 8
_WORDS = np.zeros((_N_WORDS, _N_CODES), np.uint64)
_KEPT_BITS = np.zeros((_N_WORDS, _N_CODES), np.uint64)
for _code, _text in _TEXTS.items():
    for _i in range(_N_WORDS):
        _end = len(_text) - 8 * _i
        _part = _text[max(_end - 8, 0) : max(_end, 0)]
        _WORDS[_i, _code] = int.from_bytes(_part.rjust(8, b"\0"), "little")
        _KEPT_BITS[_i, _code] = int.from_bytes((b"\xff" * len(_part)).rjust(8, b"\0"), "little")
_PADDING = bytes(8 * _N_WORDS)  # so that words before the first value can be looked at
_REPEATED_LENGTH_MAX = 48
_DATE_LENGTH = len("2020-01-01 00:00:00 +0000")


class Block:
    """A block of a document, cut before every ` <Record type=`.

    Attributes:
        cuts: byte positions of the cuts; record i stands between cut i and the next. The last one is open.
        plain: whether each record, if it is a child of the root, is a whole plain one (the last: so far).
    """

    def __init__(self, block: bytes):
        self._block = block
        self._padded = np.frombuffer(_PADDING + block, np.uint8)
        self._letters = self._padded[len(_PADDING) :]
        quotes = np.flatnonzero(self._letters == ord('"'))
        self._opening = quotes[0::2]
        self._closing = quotes[1::2]
        if len(self._closing) < len(self._opening):  # the block ends within a value
            self._closing = np.append(self._closing, len(block))
        self._after = np.zeros_like(self._opening)  # where the text before each value starts
        self._after[1:] = self._closing[:-1] + 1
        self._codes = codes = self._recognised()
        starts_one = (codes >= _FIRST) & (codes <= _AFTER_CHILDREN)
        self._first: Int64[np.ndarray, "record"] = np.flatnonzero(starts_one)
        self._record_of = np.cumsum(starts_one) - 1
        self.cuts: list[int] = (self._opening[self._first] - len(_RECORD)).tolist()
        self.plain: Bool[np.ndarray, "record"] = np.ones(len(self._first), bool)
        if self.cuts:
            self._refuse(np.flatnonzero(~_MAY_FOLLOW[codes[:-1], codes[1:]]))
            self._refuse(np.flatnonzero(codes == 0))
            self._refuse(self._unplain_values(quotes))
            self._refuse(self._unknown_references())
            self._refuse(self._by_hand())

    def _recognised(self) -> UInt8[np.ndarray, "text"]:
        length = self._opening - self._after
        codes = _OF_LENGTH[np.minimum(length, _LENGTH_MAX)]
        words = _words(self._padded)
        for i in range(_N_WORDS):
            at = np.flatnonzero((length > 8 * i) & (codes > 0)) if i else slice(None)
            code = codes[at]
            word = words[self._opening[at] + (len(_PADDING) - 8 * (i + 1))]
            codes[at] = np.where((word & _KEPT_BITS[i, code]) == _WORDS[i, code], code, 0)
        if self._block.startswith(_RECORD + b'"'):
            codes[0] = _FIRST
        in_child = (codes[:-1] == _CHILD) | (codes[:-1] == _NEXT_CHILD)
        codes[1:][in_child & (codes[1:] == VALUE)] = _CHILD_VALUE
        return codes

    def _refuse(self, texts: Int64[np.ndarray, "text"]) -> None:
        """The records to which the texts, or the values behind them, belong are not plain."""
        if len(texts):
            records = self._record_of[texts]
            self.plain[records[records >= 0]] = False

    def _unplain_values(self, quotes: Int64[np.ndarray, "quote"]) -> Int64[np.ndarray, "text"]:
        """Texts before a value with a tag's mark or a control character."""
        letters = self._letters
        at = np.flatnonzero(
            (letters < 32) | ((letters & 0xFD) == ord("<"))
        )  # ">" differs by the bit left out
        before = np.searchsorted(quotes, at)
        return before[before % 2 == 1] // 2

    def _unknown_references(self) -> Int64[np.ndarray, "text"]:
        """Texts before a value with an ampersand that starts none of XML's own five entities."""
        at = np.flatnonzero(self._letters == ord("&"))
        first, second, third = (self._letters.take(at + i, mode="clip") for i in (1, 2, 3))
        usual = ((first == ord("l")) | (first == ord("g"))) & (second == ord("t")) & (third == ord(";"))
        if usual.all():
            return _NONE
        wrong = [i for i in at[~usual].tolist() if _ENTITY.match(self._block, i) is None]
        return np.searchsorted(self._opening, np.array(wrong, np.int64)) - 1

    def _by_hand(self) -> Int64[np.ndarray, "text"]:
        """Texts before the key of a child that says a person typed the record in."""
        keys = np.flatnonzero((self._codes == _CHILD) | (self._codes == _NEXT_CHILD))
        if not len(keys) or _BY_HAND not in self._block:
            return _NONE
        return keys[[value == _BY_HAND for value in self._values(keys)]]

    def _values(self, texts: Int64[np.ndarray, "text"]) -> list[bytes]:
        start, end = self._opening[texts] + 1, self._closing[texts]
        if len(texts) > 1 and self._are_equal(start, end - start):
            return [self._block[start[0] : end[0]]] * len(texts)
        return [self._block[i:j] for i, j in zip(start.tolist(), end.tolist(), strict=True)]

    def _are_equal(self, start: Int64[np.ndarray, "text"], length: Int64[np.ndarray, "text"]) -> bool:
        """Whether all are the same and not long, as types, units and sources mostly are."""
        if not 0 < length[0] <= _REPEATED_LENGTH_MAX or (length != length[0]).any():
            return False
        found = _windows(self._letters, int(length[0]))[start]
        return bool((found == found[0]).all())

    def kinds(self, records: Int64[np.ndarray, "chosen"]) -> list[bytes]:
        """The `type` of the chosen plain records as it is written."""
        return self._values(self._first[records])

    def column(
        self, code: int, records: Int64[np.ndarray, "chosen"], *, absent: _Absent
    ) -> list[bytes | _Absent]:
        """One attribute of the chosen plain records as it is written, entities included."""
        texts = self._texts(code, records)
        if len(texts) and texts.min() >= 0:
            return [*self._values(texts)]
        found = iter(self._values(texts[texts >= 0]))
        return [next(found) if here else absent for here in (texts >= 0).tolist()]

    def dates(
        self, code: int, records: Int64[np.ndarray, "chosen"]
    ) -> UInt8[np.ndarray, "chosen 25"] | Sequence[bytes]:
        """A date of the chosen plain records: their letters where all have the common length, or texts."""
        texts = self._texts(code, records)
        if len(texts) and (self._closing[texts] - self._opening[texts] == _DATE_LENGTH + 1).all():
            return _windows(self._letters, _DATE_LENGTH)[self._opening[texts] + 1]
        return self._values(texts)

    def _texts(self, code: int, records: Int64[np.ndarray, "chosen"]) -> Int64[np.ndarray, "chosen"]:
        return self._of_record[code, records]

    @functools.cached_property
    def _of_record(self) -> Int64[np.ndarray, "code record+1"]:
        """Where each record has each text, -1 for nowhere; the last column is of texts before the first record."""
        table = np.full((_N_CODES, len(self._first) + 1), -1)
        table[self._codes, self._record_of] = np.arange(len(self._codes))
        return table


_NONE = np.zeros(0, np.int64)


def unescaped(text: bytes) -> str:
    """The value that is written so in a plain record."""
    return html.unescape(text.decode())


def _windows(letters: UInt8[np.ndarray, "byte"], length: int) -> UInt8[np.ndarray, "start length"]:
    """The bytes from each position on, for as far as `length` goes."""
    return np.lib.stride_tricks.as_strided(
        letters, (len(letters) - length + 1, length), (1, 1), writeable=False
    )


def _words(letters: UInt8[np.ndarray, "byte"]) -> UInt64[np.ndarray, "word"]:
    """The eight bytes from each position on, as one number."""
    whole = letters[: len(letters) // 8 * 8].view("<u8")
    return np.lib.stride_tricks.as_strided(whole, (max(len(letters) - 7, 0),), (1,), writeable=False)

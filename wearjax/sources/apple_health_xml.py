"""Feeds a HealthData document to an event handler: streaming, tolerant of Apple's faults, deaf to attacks.

A byte filter stands before the parser. It drops everything up to the root element, so that a broken or
hostile document type never reaches it and no entity can be declared, and it drops what XML 1.0 forbids
(U+000B in names of sources, chiefly). What remains is parsed without a tree: memory is flat in file size.
"""

from __future__ import annotations

import bisect
import contextlib
import re
from collections.abc import Callable, Iterator
from xml.parsers import expat

import numpy as np
from jaxtyping import Bool

from wearjax.errors import SourceError
from wearjax.sources import apple_health_scan as scan
from wearjax.sources.apple_health_records import RecordReader
from wearjax.sources.archive import DamagedError

PROLOG_BYTES_MAX = 1 << 20
TAG_BYTES_MAX = 1 << 20
_FORBIDDEN = bytes(b for b in range(32) if b not in b"\t\n\r")
# U+FFFE and U+FFFF; and references such as &#11; to characters that may not be referred to either.
_NONCHARACTER = re.compile(rb"\xef\xbf[\xbe\xbf]")
_REFERENCE = re.compile(rb"&#(?:x([0-9A-Fa-f]{1,8})|([0-9]{1,10}));")
_END_OF_TYPE = re.compile(rb"\]\s{0,99}>\s{0,99}(?=<HealthData[\s/>])")
_ROOT = re.compile(rb"<HealthData[\s/>]")
_AFTER_ROOT = expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]
_ENTITY = {
    expat.errors.codes[code]
    for code in (
        expat.errors.XML_ERROR_UNDEFINED_ENTITY,
        expat.errors.XML_ERROR_RECURSIVE_ENTITY_REF,
        expat.errors.XML_ERROR_EXTERNAL_ENTITY_HANDLING,
        expat.errors.XML_ERROR_ENTITY_DECLARED_IN_PE,
    )
}


class ByteFilter:
    """Iterates over the cleaned bytes of a HealthData document, from its root element on.

    Attributes:
        dropped: bytes that XML forbids, left out so far (the prolog is not counted).
        position: bytes of the document taken in so far.
        shift: bytes of the document before the first one handed on.
        ignored_tail: whether something followed the end of the root element.
    """

    def __init__(self, chunks: Iterator[bytes], *, name: str):
        self._chunks = chunks
        self._name = name
        self.dropped = 0
        self.position = 0
        self.shift = 0
        self.ignored_tail = False

    def __iter__(self) -> Iterator[bytes]:
        pending = self._root_on()
        for chunk in self._taken():
            # Up to a ">": no character and no reference is then cut in two.
            cut = chunk.rfind(b">") + 1
            if cut:
                yield self._clean(pending + chunk[:cut])
                pending = chunk[cut:]
            else:
                pending += chunk
            if len(pending) > TAG_BYTES_MAX:
                raise SourceError(_too_long(self._name))
        if pending:
            yield self._clean(pending)

    def _taken(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            self.position += len(chunk)
            yield chunk

    def _root_on(self) -> bytes:
        """The bytes from the root element on, found within a bounded look-ahead."""
        head = b""
        for chunk in self._taken():
            head += chunk
            document_type = head.find(b"<!DOCTYPE")
            found = _END_OF_TYPE.search(head, max(document_type, 0)) if document_type >= 0 else None
            self.shift = found.end() if found else -1
            if found is None and (root := _ROOT.search(head, max(document_type, 0))):
                self.shift = root.start()
            if self.shift >= 0:
                return head[self.shift :]
            if len(head) > PROLOG_BYTES_MAX:
                break
        raise SourceError(f"{self._name}: no HealthData element in the first {len(head):,} bytes")

    def _clean(self, piece: bytes) -> bytes:
        out = piece
        letters = np.frombuffer(piece, np.uint8)
        if np.count_nonzero(letters < 32) != np.count_nonzero(letters == ord("\n")):
            out = piece.translate(None, _FORBIDDEN)
        try:
            out.decode()
        except UnicodeDecodeError:
            out = out.decode(errors="ignore").encode()
        if b"\xef" in out:  # one byte is found many times faster than two
            out = _NONCHARACTER.sub(b"", out)
        if b"#" in out:
            out = _REFERENCE.sub(_kept_reference, out)
        self.dropped += len(piece) - len(out)
        return out


def _kept_reference(match: re.Match[bytes]) -> bytes:
    code = int(match[1], 16) if match[1] else int(match[2])
    allowed = (
        code in (9, 10, 13) or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or 0x10000 <= code < 0x110000
    )
    return match[0] if allowed else b""


def _too_long(name: str) -> str:
    return f"{name}: a tag longer than {TAG_BYTES_MAX >> 20} MiB; not a health export"


class Document:
    """Reads a cleaned document piece by piece: plain records in blocks, all else by an XML parser.

    Plain records between elements of the root are taken out of the text that the parser gets. They are empty
    of anything that could reach beyond them, so that the rest is well-formed just where the whole is.

    Args:
        reader: takes the records.
        plain: look for plain records; False leaves every element to the parser, to the same days.
    """

    def __init__(self, reader: RecordReader, *, name: str, plain: bool):
        self._reader = reader
        self._name = name
        self._plain = plain
        self._parser = expat.ParserCreate("UTF-8")
        reader.attach(self._parser)
        self._given = 0  # bytes that the parser got
        self._between = False  # whether it stands between two children of the root, and not within anything
        self._waiting = b""  # a plain record whose end the next piece shows
        self.taken_out = 0

    @property
    def error_position(self) -> int:
        """Bytes of the cleaned text before the parser's error."""
        return self._parser.ErrorByteIndex + self.taken_out

    def read(self, piece: bytes) -> None:
        """Reads the next piece. ExpatError where the text is not well-formed."""
        text, self._waiting = self._waiting + piece, b""
        block = scan.Block(text if self._plain else b"")
        taken = np.zeros(len(block.cuts), bool)
        try:
            self._read(block, text, taken)
        finally:
            self._reader.take(block, np.flatnonzero(taken))

    def flush(self) -> None:
        """Reads what waited for a next piece. ExpatError as in `read`."""
        text, self._waiting = self._waiting, b""
        self._give(text)
        self._reader.take()

    def end(self) -> None:
        """ExpatError where the document is not complete."""
        self._parser.Parse(b"", True)

    def _read(self, block: scan.Block, text: bytes, taken: Bool[np.ndarray, "record"]) -> None:
        cuts, last = block.cuts, len(block.cuts) - 1
        if last < 0 or cuts[0] > 0:
            self._reader.at(-1)
            self._give(text[: cuts[0]] if cuts else text)
        if last < 0:
            return
        others = [*np.flatnonzero(~block.plain[:last]).tolist(), last]
        i, step = 0, 1
        while i < last:
            if self._between:
                other = others[bisect.bisect_left(others, i)]
                taken[i:other] = True
                self.taken_out += cuts[other] - cuts[i]
                i, step = other, 1
            if i < last:
                after = min(i + step, last)
                self._reader.at(i)
                self._give(text[cuts[i] : cuts[after]])
                i, step = after, 2 * step  # few steps through what is long: the parser begins a token anew
        rest = text[cuts[last] :]
        if self._between and block.plain[last] and len(rest) <= TAG_BYTES_MAX:
            self._waiting = rest
        else:
            self._reader.at(last)
            self._give(rest)

    def _give(self, text: bytes) -> None:
        self._parser.Parse(text, False)
        self._given += len(text)
        # All is used up unless the text ends within a tag, a comment, a reference or a character.
        unused = self._given - self._parser.CurrentByteIndex
        self._between = self._reader.depth == 1 and unused == 0
        if unused > TAG_BYTES_MAX:
            raise SourceError(_too_long(self._name))


def parse(
    chunks: Iterator[bytes],
    reader: RecordReader,
    *,
    name: str,
    plain: bool = True,
    progress: Callable[[], None] = lambda: None,
) -> ByteFilter:
    """Reads the document into the reader.

    Args:
        plain: read plain records in blocks; False leaves every element to the XML parser, to the same days.

    Returns:
        The filter, which knows what it dropped.

    Raises:
        DamagedError: the document breaks off or is not well-formed; says at which byte.
        SourceError: it refers to an entity, or is no HealthData document.
    """
    cleaned = ByteFilter(chunks, name=name)
    document = Document(reader, name=name, plain=plain)
    try:
        for piece in cleaned:
            document.read(piece)
            progress()
        document.flush()
    except DamagedError:
        with contextlib.suppress(expat.ExpatError):
            document.flush()
        raise
    except expat.ExpatError as error:
        if error.code == _AFTER_ROOT:  # the export is complete; another document was glued on
            cleaned.ignored_tail = True
            return cleaned
        byte = f"{document.error_position + cleaned.shift + cleaned.dropped:,}"
        if error.code in _ENTITY:
            raise SourceError(
                f"{name}: an entity reference near byte {byte} that is not one of XML's own five; refused"
            ) from None
        reason = expat.errors.messages[error.code]
        raise DamagedError(f"{name}: not well-formed XML near byte {byte} ({reason})") from None
    try:
        document.end()
    except expat.ExpatError:
        raise DamagedError(
            f"{name}: the XML breaks off at byte {cleaned.position:,}; export or copy it again"
        ) from None
    return cleaned

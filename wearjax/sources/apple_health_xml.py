"""Feeds a HealthData document to an event handler: streaming, tolerant of Apple's faults, deaf to attacks.

A byte filter stands before the parser. It drops everything up to the root element, so that a broken or
hostile document type never reaches it and no entity can be declared, and it drops what XML 1.0 forbids
(U+000B in names of sources, chiefly). What remains is parsed without a tree: memory is flat in file size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from xml.parsers import expat

import numpy as np

from wearjax.errors import SourceError
from wearjax.sources.apple_health_container import DamagedError

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
                raise SourceError(
                    f"{self._name}: a tag longer than {TAG_BYTES_MAX >> 20} MiB; not a health export"
                )
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


def parse(
    chunks: Iterator[bytes],
    attach: Callable[[expat.XMLParserType], None],
    *,
    name: str,
    progress: Callable[[], None] = lambda: None,
) -> ByteFilter:
    """Parses the document; `attach` sets the handlers on the parser that will call them.

    Returns:
        The filter, which knows what it dropped.

    Raises:
        DamagedError: the document breaks off or is not well-formed; says at which byte.
        SourceError: it refers to an entity, or is no HealthData document.
    """
    cleaned = ByteFilter(chunks, name=name)
    parser = expat.ParserCreate("UTF-8")
    attach(parser)
    try:
        for piece in cleaned:
            parser.Parse(piece, False)
            progress()
    except expat.ExpatError as error:
        if error.code == _AFTER_ROOT:  # the export is complete; another document was glued on
            cleaned.ignored_tail = True
            return cleaned
        byte = f"{parser.ErrorByteIndex + cleaned.shift + cleaned.dropped:,}"
        if error.code in _ENTITY:
            raise SourceError(
                f"{name}: an entity reference near byte {byte} that is not one of XML's own five; refused"
            ) from None
        reason = expat.errors.messages[error.code]
        raise DamagedError(f"{name}: not well-formed XML near byte {byte} ({reason})") from None
    try:
        parser.Parse(b"", True)
    except expat.ExpatError:
        raise DamagedError(
            f"{name}: the XML breaks off at byte {cleaned.position:,}; export or copy it again"
        ) from None
    return cleaned

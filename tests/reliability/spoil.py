# ruff: noqa: E501  made data is read better in one line than in ten
"""Spoils a readable input in one way that a random generator draws: the same generator, the same damage.

Damage of any file: bytes flipped, cut off, removed, repeated, NUL bytes, replaced by nothing, by a folder or by a link
to itself, deleted. Damage of text: lines deleted, repeated, out of order, columns doubled, dropped or moved, cells of
another type, huge, not finite or in other words, other encodings and byte order marks. Damage of JSON: a value of
another type, a key that is missing or doubled, brackets without end. Damage of zips: names that lead outside, bombs,
archives in archives. Damage of XML: entities that grow or point elsewhere, elements without end.

Packed files (`.gz`, `.zip`) are spoiled as they are, or unpacked, spoiled within and packed again.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

CELLS = (
    "", " ", "NaN", "nan", "inf", "-inf", "Infinity", "1e999", "-1e308", "1e38", "9" * 40, "-1", "0", "-0.0", "1.5", "1e3",
    "9223372036854775808", "0x10", "١٢", "1,5", "1 000", "abc", "ü", "\x00", "\ufeff1", "null", "None", "true", "[1, 2]", "{}",
    '"', "''", "2024-02-30", "2024-13-01 00:00:00", "0001-01-01", "9999-12-31 23:59:59", "24:61", "12/31/9999 11:59:59 PM",
    "1/1/0001", "2024-01-01T00:00:00+99:99", "=1+1", "../../etc/passwd", "a" * 5000, "\r", "1\n2", "💔",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**63, 2**70, -(10**30), 1e308, float("nan"), float("inf"), "", "abc", "12", [], {}, [[]], [None], {"a": 1},
    "2024-02-30", "9999-12-31", "x" * 5000, 10**400,
)  # fmt: skip
TEXT = (".csv", ".json", ".jsonl", ".xml", ".awd", ".py", ".yaml", ".txt", ".md")
DEPTH = 3000  # of brackets: beyond what a parser that calls itself can follow


def spoil(path: Path, rng: random.Random) -> str:
    """Damages a file, or one file of a folder, in place; says how."""
    files = sorted(f for f in path.rglob("*") if f.is_file()) if path.is_dir() else [path]
    if not files:
        return "nothing left to damage"
    file = rng.choice(files)
    place = file.relative_to(path).as_posix() if file != path else file.name
    if rng.random() < 0.06:
        return f"{place}: {_file_damage(file, rng)}"
    content = file.read_bytes()
    name, done = file.name.lower(), ""
    damaged, done = _spoiled(name, content, rng)
    file.write_bytes(damaged)
    return f"{place}: {done}"


def _spoiled(name: str, content: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Damaged bytes of a file of this name, and the kind of damage."""
    try:
        if name.endswith(".gz") and rng.random() < 0.7:
            inner, done = _spoiled(name[: -len(".gz")], gzip.decompress(content), rng)
            return gzip.compress(inner, mtime=0), f"inside: {done}"
        if name.endswith(".zip") and rng.random() < 0.8:
            return _zip_damage(content, rng)
    except (OSError, EOFError, ValueError, IndexError, zlib.error, zipfile.BadZipFile):
        pass  # damaged before
    kinds: list[Callable[[bytes, random.Random], tuple[bytes, str]]] = [_bytes_damage]
    if name.endswith(TEXT):
        kinds += [_lines_damage, _text_damage]
    if name.endswith(".csv"):
        kinds += [_table_damage] * 4
    if name.endswith(".json"):
        kinds += [_json_damage] * 5
    if name.endswith(".jsonl"):
        kinds += [_json_lines_damage] * 3
    if name.endswith(".xml"):
        kinds += [_xml_damage] * 3
    return rng.choice(kinds)(content, rng)


def _file_damage(file: Path, rng: random.Random) -> str:
    kind = rng.choice(("deleted", "empty", "a folder", "a link to itself", "a link to nothing"))
    file.unlink()
    if kind == "empty":
        file.touch()
    elif kind == "a folder":
        file.mkdir()
    elif kind == "a link to itself":
        file.symlink_to(file.name)
    elif kind == "a link to nothing":
        file.symlink_to(file.with_name("gone"))
    return kind


def _bytes_damage(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    made, n = bytearray(content), len(content)
    kind = rng.choice(("flipped", "cut", "removed", "repeated", "zeros", "inserted", "head", "random", "nul"))
    at = rng.randrange(n) if n else 0
    length = rng.choice((1, 2, 16, 1000))
    if kind == "flipped":
        for _ in range(rng.choice((1, 3, 20))):
            if n:
                made[rng.randrange(n)] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del made[at:]
    elif kind == "removed":
        del made[at : at + length]
    elif kind == "repeated":
        made[at:at] = made[at : at + length]
    elif kind == "zeros":
        made[at : at + length] = bytes(min(length, n - at))
    elif kind == "inserted":
        made[at:at] = rng.randbytes(length)
    elif kind == "head":
        for i in range(min(n, 64)):
            if rng.random() < 0.1:
                made[i] = rng.randrange(256)
    elif kind == "random":
        made = bytearray(rng.randbytes(rng.choice((1, 10, 3000))))
    else:
        made[at:at] = bytes(length)
    return bytes(made), f"bytes {kind}"


def _lines_damage(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    lines = content.split(b"\n")
    kind = rng.choice(
        ("deleted", "repeated", "shuffled", "reversed", "first gone", "only first", "blank", "no end")
    )
    at = rng.randrange(len(lines))
    if kind == "deleted":
        del lines[at : at + rng.choice((1, 5))]
    elif kind == "repeated":
        lines[at:at] = lines[at : at + 1] * rng.choice((1, 50))
    elif kind == "shuffled":
        rest = lines[1:]
        rng.shuffle(rest)
        lines[1:] = rest
    elif kind == "reversed":
        lines[1:] = lines[:0:-1]
    elif kind == "first gone":
        del lines[0]
    elif kind == "only first":
        lines = lines[:1]
    elif kind == "blank":
        lines[at:at] = [b""] * 3
    else:
        return b"".join(lines), "lines joined"
    return b"\n".join(lines), f"lines {kind}"


def _text_damage(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    text = content.decode("utf-8", "replace")
    kind = rng.choice(
        (
            "utf-16",
            "utf-32",
            "latin-1",
            "bom",
            "two boms",
            "crlf",
            "cr",
            "quotes",
            "not utf-8",
            "upper",
            "bidi",
        )
    )
    if kind in ("utf-16", "utf-32"):
        return text.encode(kind), kind
    if kind == "latin-1":
        return text.replace("e", "é").encode("latin-1", "replace"), kind
    if kind == "not utf-8":
        at = rng.randrange(len(content) + 1)
        return content[:at] + b"\xff\xfe\xc3(" + content[at:], kind
    at = rng.randrange(len(text) + 1)
    changed = {
        "bom": "\ufeff" + text,
        "two boms": "\ufeff\ufeff" + text,
        "crlf": text.replace("\n", "\r\n"),
        "cr": text.replace("\n", "\r"),
        "quotes": text[:at] + '"' + text[at:],
        "upper": text.upper(),
        "bidi": text[:at] + "\u202e\u2028\x1b[31m" + text[at:],
    }[kind]
    return changed.encode(), kind


def _table_damage(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    rows = [line.split(",") for line in content.decode("utf-8", "replace").split("\n")]
    kind = rng.choice(
        (
            "cell",
            "cell",
            "cell",
            "column",
            "doubled column",
            "dropped column",
            "moved",
            "short row",
            "long row",
            "swapped",
        )
    )
    column = rng.randrange(len(rows[0]))
    body = [row for row in rows[1:] if len(row) == len(rows[0])]
    told = ""
    if kind == "cell" and body:
        told = rng.choice(CELLS)
        for _ in range(rng.choice((1, 1, 4))):
            rng.choice(body)[column] = told
    elif kind == "column":
        told = rng.choice(CELLS)
        for row in body:
            row[column] = told
    elif kind == "doubled column":
        for row in rows:
            row.append(row[column] if column < len(row) else "")
    elif kind == "dropped column":
        for row in rows:
            del row[column : column + 1]
    elif kind == "moved":
        for row in rows:
            row.append(row.pop(0))
    elif kind == "short row" and body:
        del rng.choice(body)[-1:]
    elif kind == "long row" and body:
        rng.choice(body).append("7")
    elif kind == "swapped":
        other = rng.randrange(len(rows[0]))
        rows[0][column], rows[0][other] = rows[0][other], rows[0][column]
    return "\n".join(map(",".join, rows)).encode(), f"table {kind} {told[:20]!r}".rstrip(" '")


def _json_damage(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    try:
        tree = json.loads(content)
    except (ValueError, RecursionError):  # damaged before
        return _bytes_damage(content, rng)
    if rng.random() < 0.1:
        opened, closed = rng.choice((("[", "]"), ('{"a":', "}")))
        return (opened * DEPTH + "1" + closed * DEPTH).encode(), "json nested"
    places = list(_places(tree))
    if not places or rng.random() < 0.05:
        value = rng.choice(VALUES)
        return json.dumps(value).encode(), f"json whole {value!r:.20}"
    holder, key = rng.choice(places)
    kind = rng.choice(("value", "value", "value", "gone", "more"))
    if kind == "gone":
        del holder[key]
    elif kind == "more":
        if isinstance(holder, dict):
            holder["unexpected"] = rng.choice(VALUES)
        else:
            holder.append(rng.choice([*VALUES, holder[key]]))
    else:
        holder[key] = rng.choice(VALUES)
    return json.dumps(
        tree
    ).encode(), f"json {key!r:.30} {kind} {holder.get(key, '') if isinstance(holder, dict) else ''!r:.20}"


def _places(tree: Any):
    """Every (container, key) of a tree."""
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _json_lines_damage(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    lines[at], done = _json_damage(lines[at], rng) if lines[at] else (b"{", "a line cut")
    return b"\n".join(lines), done


def _xml_damage(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    text = content.decode("utf-8", "replace")
    kind = rng.choice(
        (
            "bomb",
            "external",
            "attribute",
            "attribute",
            "attribute",
            "unclosed",
            "nested",
            "doubled",
            "entity",
            "tag",
        )
    )
    if kind == "bomb":
        grown = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
        return (
            f'<?xml version="1.0"?>\n<!DOCTYPE HealthData [<!ENTITY e0 "{"x" * 100}">{grown}]>\n<HealthData>&e11;</HealthData>'.encode(),
            kind,
        )
    if kind == "external":
        head = '<?xml version="1.0"?>\n<!DOCTYPE HealthData [<!ENTITY e SYSTEM "file:///etc/hostname">]>\n'
        return head.encode() + b"<HealthData><Record type='&e;'/></HealthData>", kind
    if kind == "nested":
        return text.replace(
            "</HealthData>", "<Record>" * DEPTH + "</Record>" * DEPTH + "</HealthData>"
        ).encode(), kind
    parts = text.split('"')
    at = rng.randrange(len(parts))
    if kind == "attribute" and len(parts) > 2:
        at |= 1
        value = rng.choice(CELLS).replace("<", "").replace("&", "").replace('"', "")
        parts[min(at, len(parts) - 1)] = value
        return '"'.join(parts).encode(), f"xml attribute {value[:20]!r}"
    if kind == "unclosed":
        return text.replace("/>", ">", 1).encode(), "xml unclosed"
    if kind == "doubled":
        return text.replace('value="', 'value="1" value="', 1).encode(), "xml attribute twice"
    if kind == "entity":
        return text.replace('value="', 'value="&#0;&nope;', 1).encode(), "xml entity"
    return text.replace("<Record", "<Rec\u00f6rd", 3).encode(), "xml tag"


def _zip_damage(content: bytes, rng: random.Random) -> tuple[bytes, str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    kind = rng.choice(
        (
            "outside",
            "bomb",
            "nested",
            "only nested",
            "member",
            "member",
            "member",
            "doubled",
            "renamed",
            "stored",
            "none",
            "many",
        )
    )
    names = sorted(members)
    name = rng.choice(names)
    done, method = kind, zipfile.ZIP_DEFLATED
    if kind == "outside":
        members[rng.choice(("../evil.csv", "/abs/evil.csv", "a/../../evil", "C:\\evil", "..\\evil"))] = b"x"
    elif kind == "bomb":
        members[name] = bytes(80 << 20)
    elif kind == "nested":
        members["more.zip"] = content
    elif kind == "only nested":
        members = {"inner/more.zip": content}
    elif kind == "member":
        members[name], done = _spoiled(name.lower(), members[name], rng)
    elif kind == "doubled":
        members["again/" + name.rsplit("/", 1)[-1]] = members[name]
    elif kind == "renamed":
        members[rng.choice(("", "x/")) + "renamed" + name[-4:]] = members.pop(name)
    elif kind == "stored":
        method = zipfile.ZIP_STORED
    elif kind == "none":
        members = {}
    else:
        members |= {f"many/{i}.txt": b"" for i in range(300)}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return packed.getvalue(), f"zip {done}"

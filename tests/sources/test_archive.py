"""Zips that lie about themselves end in one line; folders and zips give the same members."""

from __future__ import annotations

import zipfile

import pytest

from wearjax.errors import SourceError
from wearjax.sources import archive


def zipped(path, members, *, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as made:
        for name, data in members.items():
            made.writestr(name, data)
    return path


def read_all(path, wanted):
    with archive.open_archive(path) as opened:
        members = [m for m in opened.members if wanted is None or m.name.endswith(wanted)]
        opened.check(members)
        return [opened.read(member) for member in members]


def refusal(path, wanted=None):
    with pytest.raises(SourceError) as caught:
        read_all(path, wanted)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_zip_and_its_folder_have_the_same_members(tmp_path):
    members = {"a/one.json": b"[]", "two.csv": b"x", "__MACOSX/a/._one.json": b"?", "a/._one.json": b"?"}
    (tmp_path / "folder" / "a").mkdir(parents=True)
    (tmp_path / "folder" / "__MACOSX" / "a").mkdir(parents=True)
    for name, data in members.items():
        (tmp_path / "folder" / name).write_bytes(data)
    (tmp_path / "folder" / "link.csv").symlink_to("/etc/hostname")
    for path in (zipped(tmp_path / "a.zip", members), tmp_path / "folder"):
        with archive.open_archive(path) as opened:
            assert [(m.name, opened.read(m)) for m in opened.members] == [
                ("a/one.json", b"[]"),
                ("two.csv", b"x"),
            ]


@pytest.mark.parametrize("name", ["../evil.json", "/etc/evil.json", "a\\..\\..\\evil.json", "C:\\evil.json"])
def test_names_that_lead_outside(tmp_path, name):
    assert "unsafe member name" in refusal(zipped(tmp_path / "a.zip", {"good.json": b"[]", name: b"[]"}))


def test_bombs(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "RATIO_CHECKED_FROM", 1 << 20)
    assert "unpacks to" in refusal(zipped(tmp_path / "a.zip", {"a.json": b" " * (3 << 20)}))


def test_many_small_bombs_together(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "RATIO_CHECKED_FROM", 1 << 20)
    members = {f"{i}.json": b" " * (1 << 19) for i in range(6)}
    assert "unpacks to" in refusal(zipped(tmp_path / "a.zip", members))


def test_a_member_too_large_for_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "FILE_BYTES_MAX", 1 << 20)
    data = bytes(range(256)) * (3 << 12)
    assert "MB" in refusal(zipped(tmp_path / "a.zip", {"a.json": data}))


def test_too_many_members(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "FILES_MAX", 3)
    assert "files" in refusal(zipped(tmp_path / "a.zip", {f"{i}.json": b"" for i in range(4)}))


def test_an_encrypted_member(tmp_path):
    path = zipped(tmp_path / "a.zip", {"a.json": b"[]"})
    data = bytearray(path.read_bytes())
    data[6] |= 1  # the local header, and the directory's entry
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    assert "encrypted" in refusal(path)


def test_an_archive_inside_is_not_opened(tmp_path):
    inner = zipped(tmp_path / "inner.zip", {"steps.json": b"[]"}).read_bytes()
    outer = zipped(tmp_path / "outer.zip", {"inner.zip": inner, "readme.txt": b"hello"})
    assert "holds another archive" in refusal(outer, wanted=".json")


@pytest.mark.parametrize("cut", [30, -30])
def test_cut_and_corrupt_zips(tmp_path, cut):
    path = zipped(tmp_path / "a.zip", {"a.json": bytes(range(256)) * 40}, compression=zipfile.ZIP_STORED)
    data = path.read_bytes()
    path.write_bytes(data[:cut] if cut < 0 else data[:60] + b"\xff" * 30 + data[90:])
    assert "corrupt" in refusal(path)


def test_no_archive(tmp_path):
    assert "no such file" in refusal(tmp_path / "nothing.zip")
    (tmp_path / "empty.zip").touch()
    assert "empty" in refusal(tmp_path / "empty.zip")
    (tmp_path / "text.zip").write_text("hello")
    assert "neither a zip nor a folder" in refusal(tmp_path / "text.zip")
    assert "no files" in refusal(zipped(tmp_path / "none.zip", {}))

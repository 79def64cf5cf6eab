"""Zips, folders, XML and gzips as people have them; refusals in one line."""

from __future__ import annotations

import gzip
import zipfile

import made_apple_health as made
import numpy as np
import pytest

from wearjax.channels import INDEX
from wearjax.errors import SourceError
from wearjax.sources import archive
from wearjax.sources.tally import Tally

XML = made.document(made.steps("2024-05-01 10:00", "2024-05-01 10:02", 30))


def steps_of(path, **options):
    days = made.days_of(path, **options)
    return sum(float(np.nansum(day.values[INDEX["watch_steps"]])) for day in days.values())


def refusal(path) -> str:
    with pytest.raises(SourceError) as caught:
        made.days_of(path)
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    return text


@pytest.mark.parametrize(
    "name", ["apple_health_export/eksport.xml", "a/b/c/导出.xml", "vienti", "Exportación.xml"]
)
def test_a_zip_by_content_whatever_its_names(tmp_path, name):
    folder = name.rpartition("/")[0] or "personal"
    path = made.zipped(
        tmp_path / "my copy (2).bin",
        {
            f"{folder}/export_cda.xml": b"<?xml version='1.0'?><ClinicalDocument/><ClinicalDocument/>",
            f"{folder}/workout-routes/route.gpx": b"<gpx>" + b"7" * 100_000 + b"</gpx>",
            name: XML,
            "__MACOSX/apple_health_export/._eksport.xml": b"\x00\x05\x16\x07"
            + XML.replace(b"30", b"99")
            + b" " * 9999,
        },
    )
    assert steps_of(path) == 30


def test_folder_xml_and_gzip(tmp_path):
    folder = tmp_path / "apple_health_export" / "deeper"
    folder.mkdir(parents=True)
    (folder / "exportar.xml").write_bytes(XML)
    (folder / "ekg.csv").write_text("Name," + made.OWNER)
    (tmp_path / "export.xml.gz").write_bytes(gzip.compress(XML))
    assert steps_of(tmp_path) == 30
    assert steps_of(folder / "exportar.xml") == 30
    assert steps_of(tmp_path / "export.xml.gz") == 30


def test_the_largest_of_several_documents_is_read(tmp_path):
    path = made.zipped(tmp_path / "export.zip", {"a.xml": made.document(), "b.xml": XML})
    tally = Tally()
    assert steps_of(path, tally=tally) == 30
    assert any("2 HealthData documents" in note for note in tally.notes)


@pytest.mark.parametrize("name", ["../../home/x.xml", "/etc/cron.d/x", "a/../../x", "..\\x.xml", "C:\\x.xml"])
def test_unsafe_member_names(tmp_path, name):
    path = made.zipped(tmp_path / "export.zip", {"export.xml": XML, name: b"x"})
    assert "unsafe member name" in refusal(path)


def test_nothing_there(tmp_path):
    assert "no such file" in refusal(tmp_path / "export.zip")


def test_empty_file(tmp_path):
    (tmp_path / "export.zip").touch()
    assert "empty" in refusal(tmp_path / "export.zip")


def test_empty_zip(tmp_path):
    assert "holds no files" in refusal(made.zipped(tmp_path / "export.zip", {}))


def test_zip_and_folder_without_health_data(tmp_path):
    assert "no HealthData document" in refusal(
        made.zipped(tmp_path / "photos.zip", {"a.xml": b"<gpx/>", "b": b""})
    )
    (tmp_path / "empty").mkdir()
    assert "no HealthData document" in refusal(tmp_path / "empty")


def test_other_files(tmp_path):
    (tmp_path / "export.xml").write_bytes(b"<?xml version='1.0'?><ClinicalDocument/>")
    assert "not an Apple Health export" in refusal(tmp_path / "export.xml")
    (tmp_path / "other.gz").write_bytes(gzip.compress(b"hello"))
    assert "no HealthData document" in refusal(tmp_path / "other.gz")


def test_encrypted_zip(tmp_path):
    path = made.zipped(tmp_path / "export.zip", {"export.xml": XML})
    data = bytearray(path.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    assert "encrypted" in refusal(path)


@pytest.mark.parametrize("keep", [0.3, 0.9])
def test_truncated_zip(tmp_path, keep):
    path = made.zipped(tmp_path / "export.zip", {"export.xml": XML})
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    assert "cut short or corrupt" in refusal(path)


def many(n=2000):
    day = [f"2024-05-{i % 28 + 1:02} {i % 24:02}:{i * 7 % 60:02}" for i in range(n)]
    return made.document(*[made.steps(at, at, i % 90 + 1) for i, at in enumerate(day)])


def cut_gzip(path):
    path.write_bytes(gzip.compress(many())[:-2000])


def zip_with_a_wrong_checksum(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("export.xml", many())
    path.write_bytes(path.read_bytes().replace(b'sourceVersion="10', b'sourceVersion="11', 1))


@pytest.mark.parametrize("make", [cut_gzip, zip_with_a_wrong_checksum])
def test_a_corrupt_container_keeps_what_came_before_if_asked(tmp_path, make):
    path = tmp_path / "export"
    make(path)
    text = refusal(path)
    assert "cut short or corrupt" in text
    assert "records came before, none was kept" in text
    tally = Tally()
    assert made.days_of(path, tally=tally, keep_partial=True)
    assert "were kept" in (tally.partial or "")


def test_a_zip_whose_document_does_not_unpack(tmp_path):
    path = made.zipped(tmp_path / "export.zip", {"export.xml": many()})
    data = bytearray(path.read_bytes())
    data[60:90] = b"\xff" * 30
    path.write_bytes(data)
    assert "corrupt" in refusal(path)


def test_a_zip_that_unpacks_beyond_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "RATIO_CHECKED_FROM", 1 << 20)
    bomb = XML.replace(b"</HealthData>", b" " * (3 << 20) + b"</HealthData>")
    assert "unpacks to" in refusal(made.zipped(tmp_path / "bomb.zip", {"export.xml": bomb}))
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bomb))
    assert "unpacks to" in refusal(tmp_path / "bomb.gz")


def test_members_without_sizes_in_their_local_headers(tmp_path):
    path = tmp_path / "export.zip"

    class Pipe:  # not seekable: sizes follow the data
        def __init__(self, file):
            self.file = file

        def write(self, data):
            return self.file.write(data)

        def flush(self):
            self.file.flush()

    with path.open("wb") as file, zipfile.ZipFile(Pipe(file), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("export.xml", XML)
    assert steps_of(path) == 30


def test_progress_reaches_its_total(tmp_path):
    path = made.zipped(tmp_path / "export.zip", {"export.xml": many()})
    seen = []
    made.days_of(path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == len(many())
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)

"""The catalogue: complete entries, archives unpacked once, data sets prepared."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from metapac.fewshot.datasets import catalogue, downloads
from metapac.fewshot.datasets.catalogue import CATALOGUE, get_data_set
from metapac.fewshot.datasets.downloads import Download


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_entry_is_complete(name: str, tmp_path: Path) -> None:
    entry = get_data_set(name)
    assert entry.name == name
    assert entry.title
    assert entry.licence
    assert all(item.url.startswith("https://") for item in entry.downloads)
    assert len({item.name for item in entry.downloads}) == len(entry.downloads)
    assert entry.source(tmp_path) == tmp_path / name / "source"
    (sentence, *_) = entry.missing(tmp_path)
    assert f"metapac data fetch {name}" in sentence


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="name must be 'miniimagenet' or .*, got 'imagenet'"):
        get_data_set("imagenet")


def test_instructions_name_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "miniimagenet" / "source"
    assert f"{folder}/images" in get_data_set("miniimagenet").manual_instructions(tmp_path)
    assert get_data_set("heart").manual_instructions(tmp_path) == ""


def test_a_table_is_prepared(tmp_path: Path) -> None:
    (tmp_path / "heart.csv").write_text("year,state,label,age\n2021,1,0,50\n2021,1,1,60\n")
    entry = get_data_set("heart")
    assert entry.missing(tmp_path) == []
    prepared = entry.prepare(tmp_path / "heart.csv", home=tmp_path, exclude=())
    assert prepared["y"].tolist() == [0, 1]


def fetch(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fetch from a publisher whose files are all there; return the stages of unpacking."""
    monkeypatch.setattr(catalogue, "download", lambda item, folder, progress: folder / item.name)
    items = (Download("https://host/a.zip", "a.zip"), Download("https://host/b.csv", "b.csv"))
    entry = replace(get_data_set("heart"), downloads=items)
    stages: list[str] = []
    entry.fetch(home=folder, progress=lambda stage, done, total: stages.append(stage))
    return stages


def test_an_archive_is_unpacked_once_unless_it_or_its_files_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "heart" / "source"
    source.mkdir(parents=True)
    (source / "b.csv").touch()
    with zipfile.ZipFile(source / "a.zip", "w") as archive:
        archive.writestr("inside/x", "content")
    assert fetch(tmp_path, monkeypatch) == ["unpacking a.zip"]
    assert (source / "inside" / "x").read_text() == "content"
    assert fetch(tmp_path, monkeypatch) == []
    (source / "inside" / "x").unlink()
    assert fetch(tmp_path, monkeypatch) == ["unpacking a.zip"]
    with zipfile.ZipFile(source / "a.zip", "w") as archive:
        archive.writestr("inside/x", "another content")
    assert fetch(tmp_path, monkeypatch) == ["unpacking a.zip"]
    assert (source / "inside" / "x").read_text() == "another content"
    (source / ".a.zip.unpacked").write_text("[]")  # a marker without content
    assert fetch(tmp_path, monkeypatch) == ["unpacking a.zip"]
    monkeypatch.setattr(downloads, "unpack", lambda *args, **options: 1 / 0)
    assert fetch(tmp_path, monkeypatch) == []

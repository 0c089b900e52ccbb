"""Files and folders that appear complete or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from metapac import InvalidInput, _files


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with _files.replacing(path) as file:
        file.write("one\n\N{SNOWMAN}\n")
        assert not path.exists()
    assert path.read_bytes() == "one\n\N{SNOWMAN}\n".encode()  # UTF-8, and no other line ends
    with _files.replacing(path, binary=True) as file:
        file.write(b"\r\n")
    assert path.read_bytes() == b"\r\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail() -> None:
        with _files.replacing(path) as file:
            file.write("half a f")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_nothing(tmp_path: Path) -> None:
    def interrupt() -> None:
        with _files.replacing(tmp_path / "a.txt") as file:
            file.write("half a f")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_was_not_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), _files.replacing_path(tmp_path / "a.txt"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_temporary_file_is_hidden_and_beside_the_target(tmp_path: Path) -> None:
    name = "a" * 250  # a temporary name must not be longer than the file system allows
    with _files.replacing_path(tmp_path / name) as temporary:
        temporary.write_text("new")
        assert temporary.parent == tmp_path.resolve()
        assert temporary.name.startswith(".")
    assert (tmp_path / name).read_text() == "new"


def test_links_are_followed_and_modes_preserved(tmp_path: Path) -> None:
    target, link = tmp_path / "real.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    with _files.replacing(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_link_to_a_missing_file_creates_it(tmp_path: Path) -> None:
    target, link = tmp_path / "real.txt", tmp_path / "link.txt"
    link.symlink_to(target)
    with _files.replacing(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_devices_and_pipes_are_written_directly() -> None:
    with _files.replacing(os.devnull) as file:
        file.write("anything")
    assert not Path(os.devnull).is_file()


def test_new_files_are_readable_by_others(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        with _files.replacing(tmp_path / "a.txt") as file:
            file.write("new")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o644


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    message = "folder does not exist; create it .*nowhere"
    with (
        pytest.raises(FileNotFoundError, match=message),
        _files.replacing(tmp_path / "nowhere" / "a.txt"),
    ):
        pass
    _files.check_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match="folder does not exist"):
        _files.check_folder(tmp_path / "nowhere")


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with _files.new_folder(path) as temporary:
        (temporary / "a.txt").write_text("one")
        assert not path.exists()
    assert (path / "a.txt").read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_the_caller_creates(tmp_path: Path) -> None:
    with _files.new_folder(tmp_path / "folder", create=False) as temporary:
        assert not temporary.exists()
        temporary.mkdir()
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_folder_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with _files.new_folder(tmp_path / "folder") as temporary:
            (temporary / "a.txt").write_text("one")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exist_ok", [False, True])
def test_the_folder_of_a_faster_process_stays(tmp_path: Path, exist_ok: bool) -> None:
    path = tmp_path / "folder"

    def write() -> None:
        with _files.new_folder(path, exist_ok=exist_ok) as temporary:
            (temporary / "a.txt").write_text("slow")
            path.mkdir()
            (path / "a.txt").write_text("fast")

    if exist_ok:
        write()
    else:
        with pytest.raises(OSError, match="folder"):
            write()
    assert (path / "a.txt").read_text() == "fast"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.write_text("a file")
    with pytest.raises(OSError, match="folder"), _files.new_folder(path):
        pass
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "a file"


def test_temporary_names_are_hidden_and_differ(tmp_path: Path) -> None:
    paths = {_files.temporary_name(tmp_path / "a.txt") for _ in range(10)}
    assert len(paths) == 10
    assert {path.parent for path in paths} == {tmp_path}
    assert all(path.match(".*.partial") for path in paths)


def test_an_input_is_not_overwritten(tmp_path: Path) -> None:
    path, link = tmp_path / "a.txt", tmp_path / "link.txt"
    path.write_text("input")
    link.symlink_to(path)
    _files.check_not_input(tmp_path / "b.txt", [path])
    _files.check_not_input(path, [tmp_path / "b.txt", "s3://bucket/a.txt"])
    for output in (path, link):
        with pytest.raises(InvalidInput, match="txt is also the input. Write to another file"):
            _files.check_not_input(output, [tmp_path / "b.txt", path])

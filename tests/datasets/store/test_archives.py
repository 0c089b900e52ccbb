"""Archives: valid ones are unpacked exactly, hostile and damaged ones leave nothing behind."""

from __future__ import annotations

import errno
import gzip
import io
import os
import random
import shutil
import stat
import struct
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metapac.errors import BadArchive
from metapac.fewshot.datasets.downloads import unpack

FILES = {"a.txt": b"first", "sub/b.bin": bytes(range(256)) * 700, "sub/deep/c": b"", "d": b"last"}
Files = dict[str, bytes]


def zipped(files: Files, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()


def tarred(files: Files, form: int = tarfile.PAX_FORMAT) -> bytes:
    return tar_of(*[(entry(name, size=len(data)), data) for name, data in files.items()], form=form)


def entry(name: str, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


def tar_of(*entries: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def zip_of(*entries: tuple[str, bytes], **fields: Any) -> bytes:
    """Return a zip of these members; ``fields`` replace those of the last one in the directory."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # zipfile knows that a duplicate is bad
        for name, content in entries:
            info = zipfile.ZipInfo("x" * len(name))
            info.filename = info.orig_filename = name  # as it is: ZipInfo would normalise it
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
        for field, value in fields.items():
            setattr(archive.filelist[-1], field, value)
    return buffer.getvalue()


PACKERS: dict[str, Callable[[Files], bytes]] = {
    "x.zip": zipped,
    "stored.ZIP": lambda files: zipped(files, zipfile.ZIP_STORED),
    "x.tar": tarred,
    "gnu.tar": lambda files: tarred(files, tarfile.GNU_FORMAT),
    "x.tar.gz": lambda files: gzip.compress(tarred(files)),
    "X.TAR.GZ": lambda files: gzip.compress(tarred(files)),
}


def put(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def tree(folder: Path) -> Files:
    paths = [path for path in folder.rglob("*") if not path.is_dir()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def assert_refused(folder: Path, name: str, content: bytes, message: str) -> None:
    """Check that an archive is refused with this message and leaves nothing behind."""
    archive = put(folder, name, content)
    for target in (folder / "new", folder / "old"):
        if target.name == "old":
            target.mkdir()
            (target / "a.txt").write_bytes(b"old")
        with pytest.raises(BadArchive, match=message) as caught:
            unpack(archive, target)
        assert str(archive) in str(caught.value)
        assert "elete it and download it again" in str(caught.value)
    assert tree(folder) == {name: content, "old/a.txt": b"old"}
    assert sorted(path.name for path in folder.rglob("*")) == sorted([name, "old", "a.txt"])


@pytest.mark.parametrize("name", PACKERS)
def test_packed_files_come_out(tmp_path: Path, name: str) -> None:
    archive = put(tmp_path, name, PACKERS[name](FILES))
    target = tmp_path / "new" / "folder"
    assert unpack(archive, target) == [target / name for name in FILES]
    assert tree(target) == FILES
    assert sorted(path.name for path in target.iterdir()) == ["a.txt", "d", "sub"]


@pytest.mark.parametrize("name", PACKERS)
def test_files_of_the_same_name_are_replaced_and_others_stay(tmp_path: Path, name: str) -> None:
    (tmp_path / "sub").mkdir()
    put(tmp_path, "a.txt", b"old")
    put(tmp_path / "sub", "other", b"unchanged")
    content = PACKERS[name](FILES)
    unpack(put(tmp_path, name, content), tmp_path)
    assert tree(tmp_path) == {**FILES, "sub/other": b"unchanged", name: content}


@settings(max_examples=60)
@given(
    name=st.sampled_from(sorted(PACKERS)),
    files=st.dictionaries(
        st.text("ab\N{SNOWMAN}-", min_size=1, max_size=120).map(lambda text: f"f/{text}/g"),
        st.binary(max_size=1100),
        max_size=4,
    ),
)
def test_any_files_come_out(name: str, files: Files) -> None:
    with tempfile.TemporaryDirectory() as folder:
        unpack(put(Path(folder), name, PACKERS[name](files)), Path(folder, "new"))
        assert tree(Path(folder, "new")) == files


def test_a_space_at_the_end_of_a_name_is_dropped(tmp_path: Path) -> None:
    for name, content in [
        ("a.zip", zipped({"LLCP2011.XPT ": b"data", "two words /x  ": b"x"})),
        ("a.tar", tarred({"LLCP2011.XPT ": b"data", "two words /x  ": b"x"})),
    ]:
        target = tmp_path / name[2:]
        files = unpack(put(tmp_path, name, content), target)
        assert files == [target / "LLCP2011.XPT", target / "two words" / "x"]
        assert tree(target) == {"LLCP2011.XPT": b"data", "two words/x": b"x"}


def test_dots_and_folders_in_names_are_accepted(tmp_path: Path) -> None:
    folder = entry("./sub", type=tarfile.DIRTYPE)
    root = entry(".", type=tarfile.DIRTYPE)
    file = entry("./sub//file..", size=1)
    content = tar_of((root, b""), (folder, b""), (file, b"x"), (folder, b""))
    unpack(put(tmp_path, "a.tar", content), tmp_path / "tar")
    assert tree(tmp_path / "tar") == {"sub/file..": b"x"}
    content = zip_of(("sub/", b""), ("sub/file", b"x"), ("empty/", b""), ("sub/", b""))
    assert unpack(put(tmp_path, "a.zip", content), tmp_path / "zip")
    assert sorted(path.name for path in (tmp_path / "zip").rglob("*")) == ["file", "sub"]


def test_an_archive_without_files_gives_none(tmp_path: Path) -> None:
    assert unpack(put(tmp_path, "a.zip", zipped({})), tmp_path) == []
    assert unpack(put(tmp_path, "a.tar", tarred({})), tmp_path) == []


def test_files_have_plain_permissions(tmp_path: Path) -> None:
    tar = tar_of((entry("s/tool", mode=0o6777), b""), (entry("secret", mode=0o000), b""))
    suid = zip_of(("s/tool", b""), external_attr=(stat.S_IFREG | 0o6777) << 16)
    mask = os.umask(0o022)
    try:
        for name, content in [("a.tar", tar), ("a.zip", suid)]:
            for path in unpack(put(tmp_path, name, content), tmp_path / name[2:]):
                assert stat.S_IMODE(path.stat().st_mode) == 0o644
            for parent in (tmp_path / name[2:], path.parent):
                assert stat.S_IMODE(parent.stat().st_mode) == 0o755
    finally:
        os.umask(mask)


def test_progress_counts_the_bytes_written(tmp_path: Path) -> None:
    size = sum(map(len, FILES.values()))
    for name, total in [("x.zip", size), ("x.tar", None), ("x.tar.gz", None)]:
        seen: list[tuple[str, int, int | None]] = []
        archive = put(tmp_path, name, PACKERS[name](FILES))
        unpack(archive, tmp_path / "new", progress=lambda *call: seen.append(call))  # noqa: B023
        stages, done, totals = zip(*seen, strict=True)
        assert set(stages) == {f"unpacking {name}"}
        assert list(done) == sorted(set(done))
        assert len(seen) > len(FILES)
        assert done[-1] == size
        assert set(totals) == {total}


@pytest.mark.parametrize("name", PACKERS)
def test_no_file_appears_before_all_are_read(tmp_path: Path, name: str) -> None:
    archive, target = put(tmp_path, name, PACKERS[name](FILES)), tmp_path / "new"

    def look(stage: str, done: int, total: int | None) -> None:
        assert set(tmp_path.iterdir()) == {archive, target}
        (hidden,) = target.iterdir()
        assert hidden.name.startswith(".unpacking-")

    unpack(archive, target, progress=look)
    assert set(tmp_path.iterdir()) == {archive, target}


def test_an_error_of_progress_is_not_reported_as_damage(tmp_path: Path) -> None:
    def stop(stage: str, done: int, total: int | None) -> None:
        raise ValueError("stopped by the user")

    for name in PACKERS:
        archive = put(tmp_path, name, PACKERS[name](FILES))
        with pytest.raises(ValueError, match="^stopped by the user$"):
            unpack(archive, tmp_path / "new", progress=stop)
        assert not (tmp_path / "new").exists()


OUTSIDE = "a name that may lead out of the folder. Nothing was unpacked. Delete it"
HOSTILE_NAMES = [
    "/etc/passwd",
    "//host/x",
    "../x",
    "a/../../x",
    "a/..",
    "..",
    ".. /x",
    "a/.. ",
    "...",
    ". /x",
    " ../x",
    "a/. ./x",
    "a/ /x",
    " ",
    "C:/x",
    "c:x",
    "a/c:/x",
    "..\\x",
    "a\\b",
    "\\\\host\\x",
    "a/../b",
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
@pytest.mark.parametrize("kind", ["a.zip", "a.tar"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str, kind: str) -> None:
    good = "fine.txt"
    content = (
        zip_of((good, b"1"), (name, b"2"))
        if kind == "a.zip"
        else tar_of((entry(good, size=1), b"1"), (entry(name, size=1), b"2"))
    )
    assert_refused(tmp_path, kind, content, rf"holds {_escaped(name)}: {OUTSIDE}")


def _escaped(name: str) -> str:
    return repr(name).replace("\\", "\\\\").replace(".", "\\.")


@pytest.mark.parametrize("name", ["../x/", "/x/", "a\\b/", ".. /"])
def test_folders_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    assert_refused(tmp_path, "a.zip", zip_of(("a.txt", b"1"), (name, b"")), OUTSIDE)


def test_a_name_with_a_null_byte_is_refused(tmp_path: Path) -> None:
    # zipfile ends the name at the null byte: x\0y would be written as x.
    content = zip_of(("a.txt", b"1"), ("xNy", b"2")).replace(b"xNy", b"x\0y")
    assert_refused(tmp_path, "a.zip", content, r"holds 'x\\x00y': a name that may lead out")


@pytest.mark.parametrize("name", ["", "."])
def test_a_file_without_a_name_is_refused(tmp_path: Path, name: str) -> None:
    assert_refused(
        tmp_path, "a.tar", tar_of((entry(name, size=1), b"1")), f"'{name}': a file without a"
    )


def test_a_name_of_too_many_folders_is_refused(tmp_path: Path) -> None:
    assert_refused(
        tmp_path, "a.zip", zip_of(("a/" * 64 + "x", b"")), "a name of more than 64 folders"
    )
    archive = put(tmp_path, "b.zip", zip_of(("a/" * 63 + "x", b"1")))
    assert unpack(archive, tmp_path / "deep")[0].read_bytes() == b"1"


@settings(max_examples=80)
@given(st.lists(st.sampled_from(["a", "..", ".", "/", "\\", " ", ":", "\N{SNOWMAN}"]), max_size=8))
@example(["a", "/", "..", " "])
def test_no_name_writes_outside(pieces: list[str]) -> None:
    name = "".join(pieces)
    with tempfile.TemporaryDirectory() as home:
        target = Path(home, "one", "two", "three")
        for kind, content in [
            ("a.zip", zip_of((name, b"evil"))),
            ("a.tar", tar_of((entry(name, size=4), b"evil"))),
        ]:
            archive = put(Path(home), kind, content)
            try:
                for path in unpack(archive, target):
                    assert ".." not in path.parts
                    assert path.read_bytes() == b"evil"
            except BadArchive:
                assert not target.exists()
            shutil.rmtree(target, ignore_errors=True)
            archive.unlink()
            assert tree(Path(home)) == {}


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a special file"),
        (tarfile.BLKTYPE, "a special file"),
        (tarfile.FIFOTYPE, "a special file"),
        (tarfile.GNUTYPE_SPARSE, "a special file"),
        (b"Z", "a special file"),
    ],
)
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, kind: bytes, what: str) -> None:
    evil = entry("evil", type=kind, linkname="a.txt")
    content = tar_of((entry("a.txt", size=1), b"1"), (evil, b""), (entry("evil/x"), b""))
    assert_refused(
        tmp_path, "a.tar.gz", gzip.compress(content), f"holds 'evil': {what}. Nothing was"
    )


@pytest.mark.parametrize(
    ("mode", "what"),
    [
        (stat.S_IFLNK, "a symbolic link"),
        (stat.S_IFCHR, "a special file"),
        (stat.S_IFIFO, "a special file"),
        (stat.S_IFDIR, "a special file"),
    ],
)
def test_links_and_devices_in_a_zip_are_refused(tmp_path: Path, mode: int, what: str) -> None:
    content = zip_of(("a.txt", b"1"), ("evil", b"/etc"), external_attr=(mode | 0o777) << 16)
    assert_refused(tmp_path, "a.zip", content, f"holds 'evil': {what}. Nothing was unpacked")


def test_a_folder_that_is_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    content = zip_of(("evil/", b""), external_attr=stat.S_IFLNK << 16)
    assert_refused(tmp_path, "a.zip", content, "holds 'evil/': a symbolic link")
    honest = zip_of(("fine/", b""), external_attr=stat.S_IFDIR << 16)
    assert unpack(put(tmp_path, "b.zip", honest), tmp_path) == []


TWICE = "the same name as another member"
BOTH = "both a file and a folder"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["x", "x"], TWICE),
        (["x", "x "], TWICE),
        (["s/x", "s//x"], TWICE),
        (["s/x", "./s /x"], TWICE),
        (["x", "x/y"], BOTH),
        (["x/y", "x"], BOTH),
        (["x/y/z", "x"], BOTH),
        (["x/y/z", "x/y"], BOTH),
        (["x", "x/"], BOTH),
        (["x/", "x"], BOTH),
        (["x ", "x/y/z"], BOTH),
    ],
)
def test_names_that_collide_are_refused(tmp_path: Path, names: list[str], message: str) -> None:
    zipped_twice = zip_of(*[(name, b"") for name in names])
    assert_refused(tmp_path, "a.zip", zipped_twice, f"holds '{names[1]}': {message}. Nothing")
    kinds = [tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE for name in names]
    entries = [entry(name, type=kind) for name, kind in zip(names, kinds, strict=True)]
    archive = put(tmp_path, "a.tar", tar_of(*[(info, b"") for info in entries]))
    with pytest.raises(BadArchive, match=message):
        unpack(archive, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside, target = tmp_path / "outside", tmp_path / "target"
    outside.mkdir()
    target.mkdir()
    (target / "sub").symlink_to(outside)
    (target / "a.txt").symlink_to(put(outside, "a.txt", b"theirs"))
    archive = put(tmp_path, "a.zip", zipped({"a.txt": b"1", "sub/x": b"2"}))
    message = f"is in the way of 'sub/x' from {archive}; move it away: '{target / 'sub'}'"
    with pytest.raises(FileExistsError, match=message):
        unpack(archive, target)
    assert tree(outside) == {"a.txt": b"theirs"}
    (target / "sub").unlink()
    unpack(archive, target)
    assert tree(target) == {"a.txt": b"1", "sub/x": b"2"}
    assert tree(outside) == {"a.txt": b"theirs"}


@pytest.mark.parametrize("there", ["file", "folder"])
def test_what_is_in_the_way_is_named_and_not_deleted(tmp_path: Path, there: str) -> None:
    target = tmp_path / "target"
    target.mkdir()
    if there == "file":
        put(target, "sub", b"old")
        archive = put(tmp_path, "a.zip", zipped({"a.txt": b"1", "sub/x": b"2"}))
    else:
        (target / "sub").mkdir()
        archive = put(tmp_path, "a.zip", zipped({"a.txt": b"1", "sub": b"2"}))
    before = sorted(target.rglob("*"))
    with pytest.raises(FileExistsError, match="is in the way of 'sub.* move it away"):
        unpack(archive, target)
    assert sorted(target.rglob("*")) == before


def test_an_archive_does_not_replace_itself(tmp_path: Path) -> None:
    content = zipped({"fine": b"1", "a.zip": b"another"})
    archive = put(tmp_path, "a.zip", content)
    with pytest.raises(FileExistsError, match="is in the way of 'a.zip' from"):
        unpack(archive, tmp_path)
    assert tree(tmp_path) == {"a.zip": content}


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
@pytest.mark.parametrize(
    "content", [b"\n", b"<!DOCTYPE html><html>not found</html>" * 50, bytes(100)]
)
def test_files_that_are_not_archives_are_refused(tmp_path: Path, name: str, content: bytes) -> None:
    message = r"is damaged, truncated, or not what its name says \(.+\)\. Delete it and download it"
    assert_refused(tmp_path, name, content, message)


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_an_empty_file_is_refused(tmp_path: Path, name: str) -> None:
    assert_refused(tmp_path, name, b"", r"is empty, 0 bytes\. Delete it and download it again")


@pytest.mark.parametrize("name", ["a.rar", "a.tar.bz2", "a.gz", "a", "zip"])
def test_archives_of_other_kinds_are_refused(tmp_path: Path, name: str) -> None:
    message = f"archive must end in one of .zip, .tar, .tar.gz, got {tmp_path / name}"
    with pytest.raises(ValueError, match=message):
        unpack(put(tmp_path, name, b"x"), tmp_path / "new")


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.zip"):
        unpack(tmp_path / "nothing.zip", tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


SMALL = {"a": b"text, text, text", "b/c": random.Random(0).randbytes(40)}
SEALED = {  # kinds with a checksum of their content
    "x.zip": zipped(SMALL),
    "x.tar.gz": gzip.compress(tarred(SMALL)),
}


@pytest.mark.parametrize("name", [*SEALED, "x.tar"])
def test_every_truncation_is_noticed(tmp_path: Path, name: str) -> None:
    content = SEALED.get(name, tarred(SMALL))
    lengths: Iterable[int] = range(1, len(content))
    if name == "x.tar":  # one block of the zeros at its end is enough
        used = -(-len(content.rstrip(b"\0")) // 512) * 512
        lengths = [n for n in range(1, used + 512) if n % 512 in (0, 1, 300, 511)]
    for length in lengths:
        archive = put(tmp_path, name, content[:length])
        with pytest.raises(BadArchive, match=r"is damaged, truncated, .* Delete it and download"):
            unpack(archive, tmp_path / "new")
    assert list(tmp_path.iterdir()) == [archive]


@pytest.mark.parametrize("name", SEALED)
def test_every_flipped_bit_is_noticed_or_harmless(tmp_path: Path, name: str) -> None:
    noticed = 0
    for position in range(len(SEALED[name])):
        damaged = bytearray(SEALED[name])
        damaged[position] ^= 1 << position % 8
        archive = put(tmp_path, name, bytes(damaged))
        try:
            unpack(archive, tmp_path / "new")
        except (BadArchive, OSError):
            noticed += 1
            assert list(tmp_path.iterdir()) == [archive]
        else:  # a date, a version, a comment
            assert tree(tmp_path / "new") == SMALL
            shutil.rmtree(tmp_path / "new")
    assert noticed > len(SEALED[name]) / 2


@pytest.mark.parametrize("comment", [b"", b"a comment on it all"])
def test_a_member_that_is_missing_from_the_list_is_noticed(tmp_path: Path, comment: bytes) -> None:
    # A damaged length makes zipfile take the second member for a comment on the first.
    buffer = io.BytesIO(zipped({"a.txt": b"1", "b": b"2"}))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = comment
    content = bytearray(buffer.getvalue())
    struct.pack_into("<H", content, content.index(b"PK\1\2") + 32, 46 + len("b"))
    assert_refused(tmp_path, "a.zip", bytes(content), r"is damaged.*\(1 members listed, 2 stated\)")


def test_the_number_of_members_need_not_be_stated(tmp_path: Path) -> None:
    # All ones mean that the number is stated elsewhere, or does not fit.
    content = bytearray(zipped({"a.txt": b"1"}))
    struct.pack_into("<HH", content, len(content) - 14, 0xFFFF, 0xFFFF)
    archive = put(tmp_path, "a.zip", bytes(content))
    assert unpack(archive, tmp_path / "new") == [tmp_path / "new" / "a.txt"]


def test_bytes_after_a_zip_are_accepted(tmp_path: Path) -> None:
    archive = put(tmp_path, "a.zip", zipped(FILES) + b"\n" * 30)
    assert unpack(archive, tmp_path / "new")
    assert tree(tmp_path / "new") == FILES


def test_a_damaged_header_in_a_tar_is_not_its_end(tmp_path: Path) -> None:
    content = bytearray(tarred({"a": b"1", "b": b"2"}))
    content[1024] ^= 1  # the name of the second member, against its checksum
    assert_refused(tmp_path, "a.tar", bytes(content), "is damaged.*no end marker")


def test_the_checksum_of_a_compressed_tar_is_verified(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(tarred(FILES)))
    content[-5] ^= 1
    assert_refused(tmp_path, "a.tar.gz", bytes(content), "is damaged.*CRC check failed")


def test_the_checksums_in_a_zip_are_verified(tmp_path: Path) -> None:
    content = zip_of(("a.txt", b"1"), ("b", b"data"), CRC=1)
    assert_refused(tmp_path, "a.zip", content, "is damaged.*Bad CRC-32 for file 'b'")


def test_a_member_that_ends_beyond_its_archive_is_refused(tmp_path: Path) -> None:
    sizes = {"compress_type": 0, "compress_size": 1 << 20, "file_size": 1 << 20}
    assert_refused(
        tmp_path, "a.zip", zip_of(("a", b"1"), **sizes), r"is damaged.*\(EOFError\)\. Delete"
    )


def test_encrypted_files_are_refused(tmp_path: Path) -> None:
    content = zip_of(("a.txt", b"1"), ("b", b"data"), flag_bits=1)
    assert_refused(tmp_path, "a.zip", content, "holds 'b': an encrypted file. Nothing was unpacked")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression_methods_are_refused(tmp_path: Path, method: int) -> None:
    message = f"holds 'a': a file compressed by method {method}, not by deflate"
    assert_refused(tmp_path, "a.zip", zipped({"a": b"data"}, method), message)


def assert_no_space(archive: Path, target: Path, message: str, progress: Any = None) -> None:
    with pytest.raises(OSError, match=message) as caught:
        unpack(archive, target, progress=progress)
    assert caught.value.errno == errno.ENOSPC
    assert not target.exists()


def test_a_zip_that_states_more_than_the_disk_has_is_refused(tmp_path: Path) -> None:
    archive = put(tmp_path, "a.zip", zip_of(("a", b"1"), ("bomb", b"2"), file_size=1 << 60))
    message = (
        f"{archive} unpacks to at least {(1 << 60) + 1} bytes, but only .* are free. Free some "
        "space; if it should be smaller, delete it and download it again"
    )
    assert_no_space(archive, tmp_path / "new", message)


def test_a_tar_that_states_more_than_the_disk_has_is_refused(tmp_path: Path) -> None:
    first, bomb = entry("a", size=1), entry("bomb", size=1 << 60)
    content = tar_of((first, b"1"))[:1024] + bomb.tobuf(tarfile.GNU_FORMAT) + bytes(10240)
    archive = put(tmp_path, "a.tar", content)
    assert_no_space(
        archive, tmp_path / "new", f"unpacks to at least {(1 << 60) + 1} bytes, but only"
    )


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz"])
@pytest.mark.parametrize("short", [0, 1])
def test_a_zip_bomb_stops_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, short: int
) -> None:
    files = {"x": bytes(300_000), "y": bytes(1)}
    archive = put(tmp_path, name, PACKERS[name](files))
    left = SimpleNamespace(free=300_001 - short)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: left)
    if short:
        written: list[int] = []
        message = "unpacks to at least 300001 bytes, but only 300000 are free"
        assert_no_space(
            archive, tmp_path / "new", message, lambda stage, done, total: written.append(done)
        )
        assert (not written) == (name == "x.zip")  # which states its size in advance
    else:
        unpack(archive, tmp_path / "new")
        assert tree(tmp_path / "new") == files


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_more_bytes_than_stated_are_refused(tmp_path: Path, method: int) -> None:
    # The checksum is that of the bytes stated, so that cutting off the rest would go unnoticed.
    stated = bytes(10)
    honest = zipped({"bomb": stated + bytes(1_000_000)}, method)
    content = bytearray(honest)
    at = honest.index(b"PK\1\2")
    struct.pack_into("<L", content, at + 16, zipfile.crc32(stated))  # type: ignore[attr-defined]
    struct.pack_into("<L", content, at + 24, len(stated))
    assert_refused(tmp_path, "a.zip", bytes(content), "'bomb': more bytes than the 10 it states")


def test_fewer_bytes_than_stated_are_refused(tmp_path: Path) -> None:
    content = zip_of(("a.txt", b"1"), ("b", b"data"), file_size=5)
    assert_refused(tmp_path, "a.zip", content, "holds 'b': fewer bytes than the 5 it states")


def test_a_huge_header_is_not_read_into_memory(tmp_path: Path) -> None:
    header = entry("././@LongLink", type=tarfile.GNUTYPE_LONGNAME, size=1 << 40)
    content = header.tobuf(tarfile.GNU_FORMAT) + bytes(4096)
    assert_refused(tmp_path, "a.tar", content, f"is damaged.*a header of {1 << 40} bytes")


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_negative_size_neither_hangs_nor_passes(tmp_path: Path, kind: bytes) -> None:
    # A step back in the file: tarfile would read the same header forever.
    header = entry("a", type=kind, size=-1024).tobuf(tarfile.GNU_FORMAT)
    content = tarred({"b": b"1"})[:1024] + header + bytes(2048)
    message = "a file of negative size" if kind == tarfile.REGTYPE else "a header of -1024 bytes"
    assert_refused(tmp_path, "a.tar", content, message)


def test_a_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    content = zip_of(("a.txt", b"1"), ("\N{SNOWMAN}", b"2")).replace(
        b"\xe2\x98\x83", b"\xff\xff\xff"
    )
    assert_refused(tmp_path, "a.zip", content, "is damaged, truncated")


def test_an_offset_far_beyond_the_end_is_refused(tmp_path: Path) -> None:
    content = zip_of(("a.txt", b"1"), ("b", b"2"), header_offset=1 << 63)
    assert_refused(tmp_path, "a.zip", content, "is damaged, truncated")


def test_a_header_truncated_in_its_sparse_map_is_refused(tmp_path: Path) -> None:
    header = bytearray(entry("holes", type=tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    header[482] = 1  # the map continues in the next block, which is missing
    assert_refused(
        tmp_path, "a.tar", tarred({"a": b""})[:512] + sealed(header), "is damaged, truncated"
    )


def test_endlessly_nested_headers_are_refused(tmp_path: Path) -> None:
    header = entry("x", type=tarfile.XHDTYPE).tobuf(tarfile.GNU_FORMAT)
    assert_refused(tmp_path, "a.tar", header * 5000, "is damaged, truncated")


def sealed(header: bytearray) -> bytes:
    """Return the header of a tar member with a corrected checksum."""
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def test_a_full_disk_is_not_reported_as_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    archive, open_path = put(tmp_path, "x.zip", zipped(FILES)), Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, mode="r": Full() if mode == "xb" else open_path(path, mode)
    )
    with pytest.raises(OSError, match=r"^\[Errno 28\] No space left on device$"):
        unpack(archive, tmp_path / "new")
    assert not (tmp_path / "new").exists()

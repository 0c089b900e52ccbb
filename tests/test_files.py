"""Files appear complete or not at all, locks end with their process; documents; bombs."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import math
import os
import signal
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import BadArtefact, InvalidInput, MetapacError, artefact
from metapac.artefact import Format
from metapac.errors import BadArchive
from metapac.fewshot import load_pools, read_samples
from metapac.fewshot.datasets.catalogue import unpack
from metapac.fewshot.study.rows import read_table
from metapac.fewshot.vectors import read_examples
from tests.helpers.tables import open_source

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs locks")


class Halted(Exception):
    """Ends a write in its middle."""


@posix
def test_a_file_appears_complete(tmp_path: Path, monkeypatch: Any) -> None:
    path, synced, sync = tmp_path / "a.txt", [], os.fsync

    def record(descriptor: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), path.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    with artefact.replacing(path) as file:
        file.write("one\n\N{SNOWMAN}\n")
        assert not path.exists()
    assert synced == [(False, False), (True, True)]  # the folder after the rename
    assert path.read_bytes() == "one\n\N{SNOWMAN}\n".encode()  # UTF-8, and no other line ends
    with artefact.replacing(path, binary=True) as file:
        file.write(b"\r\n")
    with suppress(Halted), artefact.replacing(path) as file:
        file.write("half a f")
        raise Halted
    assert path.read_bytes() == b"\r\n"
    with artefact.new_folder(tmp_path / "folder") as temporary:
        (temporary / "a.txt").write_text("one")
        assert not (tmp_path / "folder").exists()
    assert (tmp_path / "folder" / "a.txt").read_text() == "one"
    assert {*tmp_path.iterdir()} == {path, tmp_path / "folder"}


@posix
def test_links_are_followed_and_modes_preserved(tmp_path: Path) -> None:
    target, link = tmp_path / "real.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    with artefact.replacing(link) as file:
        file.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    artefact.check_not_input(tmp_path / "b.txt", [target])
    artefact.check_not_input(target, [tmp_path / "b.txt", "s3://bucket/a.txt"])
    for output in (target, link):
        with pytest.raises(InvalidInput, match="txt is also the input. Write to another file"):
            artefact.check_not_input(output, [tmp_path / "b.txt", target])


@posix
def test_unfinished_files_are_private_whatever_the_mask(tmp_path: Path) -> None:
    for mask in (0o000, 0o077):
        path, before = tmp_path / f"{mask}" / "a.txt", os.umask(mask)
        path.parent.mkdir()
        try:
            with artefact.replacing(path) as file:
                (temporary,) = path.parent.iterdir()
                assert stat.S_IMODE(temporary.stat().st_mode) == 0o700
                file.write("new")
            with artefact.private_folder("test", tmp_path) as folder:
                assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_errors_name_the_output(tmp_path: Path) -> None:
    path, nowhere = tmp_path / "a.txt", tmp_path / "nowhere"
    for code in (errno.ENOSPC, errno.EFBIG, errno.EROFS):
        with pytest.raises(OSError, match="a.txt") as caught, artefact.replacing(path):
            raise OSError(code, os.strerror(code))
        assert (caught.value.errno, caught.value.filename) == (code, str(path))
    with (
        pytest.raises(FileNotFoundError, match="folder does not exist.*nowhere"),
        artefact.replacing(nowhere / "a.txt"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exist_ok", [False, True])
def test_the_folder_of_a_faster_process_stays(tmp_path: Path, exist_ok: bool) -> None:
    path = tmp_path / "folder"

    def write() -> None:
        with artefact.new_folder(path, exist_ok=exist_ok) as temporary:
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


def kill_within(opened: str, *arguments: Any) -> None:
    """Run a process that opens something of ``artefact`` and is killed there."""
    code = f"import os, signal, sys\nfrom metapac.artefact import *\nwith {opened} as file:\n"
    code += "    getattr(file, 'write', len)('half')\n    getattr(file, 'flush', int)()\n"
    code += "    os.kill(os.getpid(), signal.SIGKILL)\n"
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)])
    assert done.returncode == -signal.SIGKILL


@posix
def test_what_killed_processes_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        kill_within("replacing(sys.argv[1])", tmp_path / "a.txt")
        (left,) = tmp_path.iterdir()
        assert [path.read_text() for path in left.iterdir()] == ["half"]
        with pytest.raises(Halted), artefact.replacing(tmp_path / name):
            raise Halted
        assert list(tmp_path.iterdir()) == []
    kill_within("private_folder('test', sys.argv[1])", tmp_path)
    (left,) = tmp_path.iterdir()
    with artefact.private_folder("other", tmp_path):
        assert left.exists()
    with artefact.private_folder("test", tmp_path):
        assert not left.exists()


WRITER = """
import sys
from metapac import artefact as _files
for i in range(40):
    with _files.replacing(sys.argv[1]) as file:
        file.write(sys.argv[2] * 50_000)
"""


@posix
def test_eight_processes_write_one_file_while_it_is_read(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("0" * 50_000)
    command = [sys.executable, "-c", WRITER, str(target)]
    writers = [subprocess.Popen([*command, str(digit)]) for digit in range(8)]
    while any(writer.poll() is None for writer in writers):
        content = target.read_text()
        assert content == content[0] * 50_000
    assert [writer.returncode for writer in writers] == [0] * 8
    assert list(tmp_path.iterdir()) == [target]


@posix
def test_what_is_not_ours_is_not_cleared(tmp_path: Path) -> None:
    target, precious = tmp_path / "a.txt", tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("all of it")
    link, file = (artefact.temporary_name(target) for _ in range(2))
    link.symlink_to(precious)
    file.write_text("not a folder")
    strange = [tmp_path / name for name in (".a.txt.partial", ".a.txt.0123.partial", ".a.txt")]
    for folder in strange:
        folder.mkdir()
    with artefact.replacing(target) as written:
        written.write("new")
    assert set(tmp_path.iterdir()) == {target, precious, link, file, *strange}
    assert (precious / "thesis.txt").exists()


def refuse_lock(descriptor: int, operation: int) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


@posix
@pytest.mark.parametrize("locks", ["none", "refused"])
def test_without_locks_old_leftovers_go(tmp_path: Path, monkeypatch: Any, locks: str) -> None:
    if locks == "none":
        monkeypatch.setattr(artefact, "fcntl", None)
    else:
        monkeypatch.setattr("fcntl.flock", refuse_lock)
    old, new, half_old = (artefact.temporary_name(tmp_path / "a.txt") for _ in range(3))
    for folder in (old, new, half_old):
        folder.mkdir()
    (half_old / "a.txt").write_text("written just now")
    for folder in (old, half_old):
        os.utime(folder, (1, 1))
    with artefact.replacing(tmp_path / "a.txt") as file:
        file.write("new")
    assert [folder.exists() for folder in (old, new, half_old)] == [False, True, True]


HOLDER = """
import sys
from metapac.artefact import lock_file, lock_folder
lock = lock_folder(sys.argv[1], "metapac train")
if len(sys.argv) > 2:
    lock = lock_file(sys.argv[1], "metapac monitor", wait=0)
with lock:
    print("locked", flush=True)
    sys.stdin.read()
"""


def lock(folder: Path) -> None:
    with artefact.lock_folder(folder, "metapac test"):
        pass


def update(path: Path) -> None:
    with artefact.lock_file(path, "metapac monitor", wait=0):
        pass


@posix
@pytest.mark.parametrize("take", [lock, update])
def test_one_process_holds_a_lock_and_is_named(tmp_path: Path, take: Any) -> None:
    path = tmp_path / "one"
    command = [sys.executable, "-c", HOLDER, str(path), *(["file"] if take is update else [])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    who = rf"one is in use by process {process.pid} on \S+ since .*\(metapac (train|monitor)\)"
    with pytest.raises(InvalidInput, match=who):
        take(path)
    take(tmp_path / "another")
    (file,) = (each for each in tmp_path.rglob(".*") if each.is_file())
    for note in (b"", b"\xff", b"process \x1b[2J", b"process " + 300 * b"1"):
        file.write_bytes(note)
        with pytest.raises(InvalidInput, match="in use by another process"):
            take(path)
    process.kill()  # and a killed holder holds nothing
    process.communicate()
    assert file.exists()
    take(path)
    assert not file.exists()


COUNT = """
import sys
from pathlib import Path
from metapac.artefact import lock_file
path = Path(sys.argv[1])
for _ in range(25):
    with lock_file(path, "a test", wait=60):
        path.write_text(str(int(path.read_text()) + 1))
"""


@posix
def test_no_update_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0")
    command = [sys.executable, "-c", COUNT, str(path)]
    counters = [subprocess.Popen(command) for _ in range(8)]
    assert [counter.wait() for counter in counters] == [0] * 8
    assert path.read_text() == "200"


@posix
def test_a_thread_may_lock_again_and_another_may_not(tmp_path: Path) -> None:
    with artefact.lock_folder(tmp_path, "metapac test"), ThreadPoolExecutor() as threads:
        lock(tmp_path)
        refused = threads.submit(lock, tmp_path).exception()
        assert (tmp_path / artefact.LOCK).exists()
    assert f"in use by process {os.getpid()} " in str(refused)
    assert not (tmp_path / artefact.LOCK).exists()


@posix
def test_leftovers_of_killed_runs_are_cleared(tmp_path: Path) -> None:
    left = [artefact.temporary_name(tmp_path / name) for name in ("a.json", "draws/1.csv")]
    for folder in left:
        folder.mkdir(parents=True)
    (tmp_path / ".thesis.partial").mkdir()
    with artefact.new_folder(tmp_path / "living") as living:
        lock(tmp_path)
        assert living.exists()
    assert not any(folder.exists() for folder in left)
    assert (tmp_path / ".thesis.partial").exists()


ROW = b"ohio,cat,resnet,1.0,1.0\n"  # repeated, it shrinks to 1/400


def pack(path: Path, content: bytes, member: str = "x") -> Path:
    """Write some content so that it unpacks to this; ``member`` is its name in a zip file."""
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content, mtime=0))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(member, content)
    return path


BOMBS: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "a.csv.gz": (b"site,score\n" + b"a,1\n" * (3 << 18), open_source),
    "a.jsonl.gz": (b'{"site": 1}\n' + b" " * (3 << 20), open_source),
    "samples_a.jsonl.gz": (b"\n" * (3 << 20), read_samples),
    "rows.csv.gz": (b"\n" * (3 << 20), read_table),
    "a.xlsx": (b"<sst>" + b"<si/>" * (1 << 20), open_source),
    "a.npz": (bytes(3 << 20), load_pools),
    "b.npz": (bytes(3 << 20), read_examples),
    "a.zip": (bytes(3 << 20), unpack),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_unpacks_to_far_more_is_refused(
    tmp_path: Path, monkeypatch: Any, name: str
) -> None:
    content, read = BOMBS[name]
    path = pack(tmp_path / name, content, "x.npy")
    monkeypatch.setattr(artefact, "_ANY_RATIO", 1 << 20)  # instead of 128 MiB
    packed = f"{path.stat().st_size:,}"
    with pytest.raises(
        MetapacError, match=rf"{name} unpacks to more than [\d,]+ times its {packed}"
    ):
        read(path)
    assert [*tmp_path.iterdir()] == [path]


def test_repeated_rows_are_no_bomb_but_false_sizes_are(tmp_path: Path, monkeypatch: Any) -> None:
    small = pack(tmp_path / "small.csv.gz", BOMBS["a.csv.gz"][0])
    with open_source(small) as opened:  # up to 128 MiB, any ratio will do
        assert opened.table.count().execute() == 3 << 18
    monkeypatch.setattr(artefact, "_ANY_RATIO", 1 << 20)
    path = pack(tmp_path / "a.csv.gz", b"site,label,model,version,score\n" + ROW * (1 << 16))
    assert path.stat().st_size * 300 < len(ROW) << 16
    with open_source(path) as opened:
        assert opened.table.count().execute() == 1 << 16
    bomb = pack(tmp_path / "a.xlsx", bytes(3 << 20))
    bomb.write_bytes(bomb.read_bytes().replace((3 << 20).to_bytes(4, "little"), b"\1\0\0\0"))
    with pytest.raises(BadArchive, match="at most 200 times are read. If you trust it, unpack it"):
        open_source(bomb)


# Documents: what was written comes back, and nothing else is accepted.


PLAIN = Format("metapac example", written_by="'metapac example'")
NEWER = Format("metapac example", written_by="'metapac example'", schema=3, oldest=2)
UNSIGNED = Format("metapac example", written_by="'metapac example'", unsigned=True)
BODY = {"names": ["a", "\N{SNOWMAN}"], "value": 0.1, "nested": {"n": [1, None, True]}}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(body=st.dictionaries(st.text(), json_values, max_size=4))
def test_json_comes_back(tmp_path_factory: Any, body: dict[str, Any]) -> None:
    body = {f"body {key}": value for key, value in body.items()}
    path = tmp_path_factory.mktemp("document") / "a.json"
    artefact.write(path, body, PLAIN)
    document = artefact.read(path, PLAIN)
    assert {key: document[key] for key in body} == body


def test_the_checksum_is_that_of_canonical_json() -> None:
    canonical = '{"a":[1,0.1],"b":"\\u2603"}'
    expected = "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
    assert artefact.checksum({"b": "\N{SNOWMAN}", "a": [1, 0.1]}) == expected
    with pytest.raises(ValueError, match="Out of range float values"):
        artefact.checksum({"a": math.nan})


def test_every_changed_character_and_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    artefact.write(path, BODY, PLAIN)
    text = path.read_text().rstrip()
    assert len(text.splitlines()) == len(json.loads(text)) + 2  # one key per line
    for i, character in enumerate(text):
        if not character.isspace():
            path.write_text(text[:i] + ("8" if character != "8" else "9") + text[i + 1 :])
            with pytest.raises(BadArtefact):
                artefact.read(path, PLAIN)
        if i:
            path.write_text(text[:i])
            with pytest.raises(BadArtefact, match="is not complete JSON .* truncated. Write"):
                artefact.read(path, PLAIN)
    # Readers differ in which of two keys they take, and the checksum covers only one.
    path.write_text(text.replace("{\n", '{\n"metapac": "another",\n', 1))
    with pytest.raises(BadArtefact, match="a.json is not a valid .* file: a key occurs twice"):
        artefact.read(path, PLAIN)


BAD_DOCUMENTS: dict[str, list[str]] = {
    "is not a metapac example file": ["", "site,p_cat\n", "[]", "null", '{"a": 1}', "[" * 100_000],
    "is not complete JSON": [
        "{\xff\xfe", '{"a": ' + "[" * 100_000, '{"a": ' + "9" * 5_000 + "}",
    ],
    "has schema None": ['{"format": "metapac example"}'],
    "has schema True": ['{"format": "metapac example", "schema": true}'],
    "was edited or damaged": [
        f'{{"format": "metapac example", "schema": 1{rest}}}'
        for rest in ("", ', "checksum": {}', ', "a": NaN', ', "a": 1e999', ', "a": "\\ud800"')
    ],
}  # fmt: skip


def test_a_bad_document_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for message, documents in BAD_DOCUMENTS.items():
        for document in documents:
            path.write_bytes(document.encode("latin-1"))
            with pytest.raises(BadArtefact, match=message):
                artefact.read(path, PLAIN)
    artefact.write(path, BODY, NEWER)
    with pytest.raises(BadArtefact, match=r"has schema 3, .* Upgrade metap"):
        artefact.read(path, PLAIN)
    assert artefact.read(path, NEWER)["schema"] == 3
    artefact.write(path, BODY, PLAIN)
    with pytest.raises(BadArtefact, match="has schema 1, .* Write it aga"):
        artefact.read(path, NEWER)


def test_files_without_a_checksum_are_read_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"format": "metapac example", "schema": 1, "metapac": "0.0"}')
    with pytest.raises(BadArtefact, match="was edited or damaged"):
        artefact.read(path, PLAIN)
    with pytest.warns(UserWarning, match="has no checksum, so damage would go unnoticed"):
        assert artefact.read(path, UNSIGNED)["metapac"] == "0.0"
    path.write_text(json.dumps(artefact.sign(BODY, PLAIN) | {"value": 0.2}))
    with pytest.raises(BadArtefact, match="was edited or damaged"):
        artefact.read(path, UNSIGNED)

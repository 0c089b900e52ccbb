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
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import metapac
from metapac import BadArtefact, InvalidInput, MetapacError, artefact
from metapac.artefact import Format
from metapac.errors import BadArchive
from metapac.fewshot import load_pools, read_samples
from metapac.fewshot.datasets.downloads import unpack
from metapac.fewshot.study.rows import read_table
from metapac.fewshot.vectors import read_examples
from tests.helpers.tables import open_source

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs locks")
MONITOR = partial(artefact.lock_file, purpose="metapac monitor", wait=0)


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with artefact.replacing(path) as file:
        file.write("one\n\N{SNOWMAN}\n")
        assert not path.exists()
    assert path.read_bytes() == "one\n\N{SNOWMAN}\n".encode()  # UTF-8, and no other line ends
    with artefact.replacing(path, binary=True) as file:
        file.write(b"\r\n")
    assert path.read_bytes() == b"\r\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail() -> None:
        with artefact.replacing(path) as file:
            file.write("half a f")
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_temporary_file_is_hidden_and_beside_the_target(tmp_path: Path) -> None:
    name = 60 * "\N{SNOWMAN}" + 70 * "a"  # 250 bytes; a temporary name must not be too long either
    with artefact.replacing_path(tmp_path / name) as temporary:
        temporary.write_text("new")
        assert temporary.parent.parent == tmp_path.resolve()
        assert temporary.parent.name.startswith(".")
    assert (tmp_path / name).read_text() == "new"


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


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    message = "folder does not exist.*nowhere"
    with (
        pytest.raises(FileNotFoundError, match=message),
        artefact.replacing(tmp_path / "nowhere" / "a.txt"),
    ):
        pass
    artefact.check_folder(tmp_path)
    with pytest.raises(FileNotFoundError, match="folder does not exist"):
        artefact.check_folder(tmp_path / "nowhere")


def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with artefact.new_folder(path) as temporary:
        (temporary / "a.txt").write_text("one")
        assert not path.exists()
    assert (path / "a.txt").read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


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


def test_an_input_is_not_overwritten(tmp_path: Path) -> None:
    path, link = tmp_path / "a.txt", tmp_path / "link.txt"
    path.write_text("input")
    link.symlink_to(path)
    artefact.check_not_input(tmp_path / "b.txt", [path])
    artefact.check_not_input(path, [tmp_path / "b.txt", "s3://bucket/a.txt"])
    for output in (path, link):
        with pytest.raises(InvalidInput, match="txt is also the input. Write to another file"):
            artefact.check_not_input(output, [tmp_path / "b.txt", path])


def killed_writer(target: Path) -> Path:
    """Return the temporary folder of a process that was killed while it wrote to ``target``."""
    code = (
        "import os, signal, sys\n"
        "from metapac import artefact as _files\n"
        "with _files.replacing(sys.argv[1]) as file:\n"
        "    file.write('half')\n"
        "    file.flush()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    before = set(target.parent.iterdir())
    done = subprocess.run([sys.executable, "-c", code, target], check=False)
    assert done.returncode == -signal.SIGKILL
    (left,) = set(target.parent.iterdir()) - before
    return left


@posix
@pytest.mark.parametrize("name", ["a.txt", "b.txt"])
def test_the_next_write_clears_what_a_killed_one_left(tmp_path: Path, name: str) -> None:
    left = killed_writer(tmp_path / "a.txt")
    assert [path.read_text() for path in left.iterdir()] == ["half"]
    with pytest.raises(RuntimeError), artefact.replacing(tmp_path / name):
        raise RuntimeError("an attempt is enough")
    assert list(tmp_path.iterdir()) == []


def test_living_writers_do_not_disturb_each_other(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    with artefact.replacing(target) as one:
        one.write("one")
        with artefact.replacing(target) as two:
            two.write("two")
        assert target.read_text() == "two"
    assert target.read_text() == "one"
    assert list(tmp_path.iterdir()) == [target]


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
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, target, str(digit)]) for digit in range(8)
    ]
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
def test_without_locks_only_old_leftovers_are_cleared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: str
) -> None:
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
    assert not old.exists()
    assert new.exists()
    assert half_old.exists()


@posix
@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_unfinished_files_are_private_whatever_the_mask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with artefact.replacing(tmp_path / "a.txt") as file:
            (temporary,) = tmp_path.iterdir()
            assert stat.S_IMODE(temporary.stat().st_mode) == 0o700
            file.write("new")
        with artefact.private_folder("test", tmp_path) as folder:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o666 & ~mask


@posix
def test_a_folder_that_was_taken_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may see a new folder before it is locked."""
    mkdir, made = Path.mkdir, []

    def vanish(path: Path, *values: Any, **options: Any) -> None:
        mkdir(path, *values, **options)
        made.append(path)
        if len(made) == 1:
            path.rmdir()

    monkeypatch.setattr(Path, "mkdir", vanish)
    with artefact.replacing(tmp_path / "a.txt") as file:
        file.write("new")
    assert len(made) == 2
    assert (tmp_path / "a.txt").read_text() == "new"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG, errno.EROFS])
def test_errors_without_a_name_get_that_of_the_output(tmp_path: Path, code: int) -> None:
    path = tmp_path / "a.txt"
    with pytest.raises(OSError, match="a.txt") as caught, artefact.replacing(path):
        raise OSError(code, os.strerror(code))
    assert (caught.value.errno, caught.value.filename) == (code, str(path))
    assert list(tmp_path.iterdir()) == []


@posix
def test_a_full_device_is_named() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):  # noqa: SIM117
        with artefact.replacing("/dev/full") as file:
            file.write("anything")


@posix
@pytest.mark.parametrize("write", [artefact.replacing, MONITOR])
def test_a_link_to_itself_is_refused_by_name(tmp_path: Path, write: Any) -> None:
    path = tmp_path / "loop.json"
    path.symlink_to(path)
    with pytest.raises(OSError, match="loop.json") as caught, write(path):
        pass
    assert caught.value.errno == errno.ELOOP
    assert [*tmp_path.iterdir()] == [path]


@posix
def test_the_folder_is_synced_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced, sync = [], os.fsync

    def record(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append((is_folder, (tmp_path / "a.txt").exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    with artefact.replacing(tmp_path / "a.txt") as file:
        file.write("new")
    assert synced == [(False, False), (True, True)]


def test_a_private_folder_vanishes(tmp_path: Path) -> None:
    with artefact.private_folder("test", tmp_path) as one:
        (one / "a.txt").write_text("secret")
        with artefact.private_folder("test", tmp_path) as two:
            assert one.exists()
            assert one != two
    assert list(tmp_path.iterdir()) == []
    with artefact.private_folder("metapac-test") as folder:
        assert folder.parent == Path(tempfile.gettempdir())


@posix
def test_private_folders_of_killed_processes_are_cleared(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from metapac import artefact as _files\n"
        "with _files.private_folder('test', sys.argv[1]):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    (left,) = tmp_path.iterdir()
    with artefact.private_folder("other", tmp_path):
        assert left.exists()
    with artefact.private_folder("test", tmp_path):
        assert not left.exists()


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


@contextmanager
def holding(path: Path, *kind: str) -> Iterator[subprocess.Popen[str]]:
    """Let another process hold the lock of a folder, or of a file."""
    command = [sys.executable, "-c", HOLDER, str(path), *kind]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    try:
        yield process
    finally:
        process.communicate()


def lock(folder: Path) -> None:
    with artefact.lock_folder(folder, "metapac test"):
        pass


@posix
def test_a_folder_is_used_by_one_process_which_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    with holding(folder) as process:
        who = rf"one is in use by process {process.pid} on \S+ since .*\(metapac train\)"
        with pytest.raises(InvalidInput, match=who):
            lock(folder)
        for note in (b"", b"\xff", b"process \x1b[2J", b"process " + 300 * b"1"):
            (folder / artefact.LOCK).write_bytes(note)
            with pytest.raises(InvalidInput, match="in use by another process"):
                lock(folder)
    lock(folder)
    assert list(folder.iterdir()) == []


@posix
@pytest.mark.parametrize("kind", [(), ("file",)])
def test_a_killed_holder_holds_nothing(tmp_path: Path, kind: tuple[str, ...]) -> None:
    path = tmp_path / "a.json" if kind else tmp_path
    with holding(path, *kind) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert len([*tmp_path.iterdir()]) == 1
        with MONITOR(path) if kind else artefact.lock_folder(path, "metapac test"):
            pass
    assert list(tmp_path.iterdir()) == []


@posix
def test_who_updates_a_file_waits_for_the_others(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with holding(path, "file") as process:
        message = f"a.json is in use by process {process.pid}"
        with pytest.raises(InvalidInput, match=message), MONITOR(path):
            pass
        with artefact.lock_file(tmp_path / "b.json", "metapac monitor", wait=0):
            pass
        assert process.stdin is not None
        threading.Timer(0.3, process.stdin.close).start()
        with artefact.lock_file(path, "metapac monitor", wait=60):
            pass
        process.stdin = None
    assert list(tmp_path.iterdir()) == []


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
    refused: list[str] = []

    def try_it() -> None:
        try:
            lock(tmp_path)
        except InvalidInput as error:
            refused.append(str(error))

    with artefact.lock_folder(tmp_path, "metapac test"):
        lock(tmp_path)
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
        assert (tmp_path / artefact.LOCK).exists()
    assert f"in use by process {os.getpid()} " in refused[0]
    assert not (tmp_path / artefact.LOCK).exists()


@posix
def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    precious, run = tmp_path / "precious", tmp_path / "run"
    precious.write_text("all of it")
    run.mkdir()
    (run / artefact.LOCK).symlink_to(precious)
    with pytest.raises(OSError, match=r"run'$"):
        lock(run)
    assert precious.read_text() == "all of it"


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


@posix
def test_without_locks_nothing_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with holding(tmp_path):
        monkeypatch.setattr("fcntl.flock", refuse_lock)
        lock(tmp_path)
        monkeypatch.setattr(artefact, "fcntl", None)
        lock(tmp_path)


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
    "a.zip": (bytes(3 << 20), lambda path: unpack(path, path.parent / "new")),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
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


def test_repeated_rows_are_no_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = pack(tmp_path / "small.csv.gz", BOMBS["a.csv.gz"][0])
    with open_source(small) as opened:  # up to 128 MiB, any ratio will do
        assert opened.table.count().execute() == 3 << 18
    path = pack(tmp_path / "a.csv.gz", b"site,label,model,version,score\n" + ROW * (1 << 16))
    monkeypatch.setattr(artefact, "_ANY_RATIO", 1 << 20)
    assert path.stat().st_size * 300 < len(ROW) << 16
    with open_source(path) as opened:
        assert opened.table.count().execute() == 1 << 16


def test_a_zip_file_that_understates_its_size_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pack(tmp_path / "a.xlsx", bytes(3 << 20))
    path.write_bytes(path.read_bytes().replace((3 << 20).to_bytes(4, "little"), b"\1\0\0\0"))
    monkeypatch.setattr(artefact, "_ANY_RATIO", 1 << 20)
    with pytest.raises(BadArchive, match="at most 200 times are read. If you trust it, unpack it"):
        open_source(path)


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
def test_any_json_comes_back(
    tmp_path_factory: pytest.TempPathFactory, body: dict[str, Any]
) -> None:
    body = {f"body {key}": value for key, value in body.items()}
    path = tmp_path_factory.mktemp("document") / "a.json"
    artefact.write(path, body, PLAIN)
    document = artefact.read(path, PLAIN)
    assert {key: document[key] for key in body} == body


def test_a_document_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    artefact.write(path, BODY, PLAIN)
    document = json.loads(path.read_text())
    assert list(document) == ["format", "schema", "metapac", *BODY, "checksum"]
    assert document["format"] == "metapac example"
    assert document["schema"] == 1
    assert document["metapac"] == metapac.__version__
    assert len(path.read_text().splitlines()) == len(document) + 2  # one key per line
    assert artefact.read(path, PLAIN).keys() == document.keys() - {"checksum"}


def test_the_checksum_is_that_of_canonical_json() -> None:
    canonical = '{"a":[1,0.1],"b":"\\u2603"}'
    expected = "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()
    assert artefact.checksum({"b": "\N{SNOWMAN}", "a": [1, 0.1]}) == expected
    with pytest.raises(ValueError, match="Out of range float values"):
        artefact.checksum({"a": math.nan})


def test_every_changed_character_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    artefact.write(path, BODY, PLAIN)
    text = path.read_text()
    for i, character in enumerate(text):
        if not character.isspace():
            path.write_text(text[:i] + ("8" if character != "8" else "9") + text[i + 1 :])
            with pytest.raises(BadArtefact):
                artefact.read(path, PLAIN)


def test_a_key_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    # Readers differ in which one they take, and the checksum covers only one.
    path = tmp_path / "a.json"
    artefact.write(path, BODY, PLAIN)
    path.write_text(path.read_text().replace("{\n", '{\n"metapac": "another",\n', 1))
    with pytest.raises(BadArtefact, match="a.json is not a valid .* file: a key occurs twice"):
        artefact.read(path, PLAIN)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    artefact.write(path, BODY, PLAIN)
    text = path.read_text().rstrip()
    for end in range(1, len(text)):
        path.write_text(text[:end])
        with pytest.raises(BadArtefact, match="is not complete JSON .* truncated. Write"):
            artefact.read(path, PLAIN)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a metapac example file. Pass one written by 'metapac example'"),
        (b"site,p_cat\n", "is not a metapac example file"),
        (b"[]", "is not a metapac example file"),
        (b"null", "is not a metapac example file"),
        (b'{"a": 1}', "is not a metapac example file"),
        (b"{\xff\xfe", "is not complete JSON"),
        (b'{"a": ' + b"[" * 100_000, "is not complete JSON"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "is not complete JSON"),
        (b"[" * 100_000, "is not a metapac example file"),
        (b'{"format": "metapac example"}', "has schema None"),
        (b'{"format": "metapac example", "schema": true}', "has schema True"),
        (b'{"format": "metapac example", "schema": 1}', "was edited or damaged"),
        (b'{"format": "metapac example", "schema": 1, "checksum": {}}', "was edited or damaged"),
        (b'{"format": "metapac example", "schema": 1, "a": NaN}', "was edited or damaged"),
        (b'{"format": "metapac example", "schema": 1, "a": 1e999}', "was edited or damaged"),
        (b'{"format": "metapac example", "schema": 1, "a": "\\ud800"}', "was edited or damaged"),
    ],
)
def test_a_bad_document_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(BadArtefact, match=message):
        artefact.read(tmp_path / "a.json", PLAIN)


def test_schemas_out_of_range_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    artefact.write(path, BODY, NEWER)
    with pytest.raises(BadArtefact, match=r"has schema 3, .* Upgrade metap"):
        artefact.read(path, PLAIN)
    assert artefact.read(path, NEWER)["schema"] == 3
    artefact.write(path, BODY, PLAIN)
    with pytest.raises(BadArtefact, match="has schema 1, .* Write it aga"):
        artefact.read(path, NEWER)


def test_a_missing_file_is_not_a_bad_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        artefact.read(tmp_path / "a.json", PLAIN)


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


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (np.float32(0.25), 0.25),
        (Fraction(1, 4), 0.25),
        (np.int64(3), 3),
        (np.bool_(True), True),
        (None, None),
        ({np.int64(1): Fraction(1, 2), "a": 0.1}, {"by_class": [[1, 0.5], ["a", 0.1]]}),
    ],
)
def test_parameters_are_encoded(value: Any, encoded: Any) -> None:
    result = artefact.encode_parameters({"epsilon": value})
    assert result["epsilon"] == encoded
    assert type(result["epsilon"]) is type(encoded)
    assert artefact.decode_parameters(json.loads(json.dumps(result))) == {"epsilon": value}
    assert artefact.encode_floats([[1.5, math.inf], [-math.inf, 0.0]]) == [
        [1.5, "inf"],
        ["-inf", 0.0],
    ]

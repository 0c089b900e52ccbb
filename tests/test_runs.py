"""The folder of a run is used by one process at a time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from metapac import InvalidInput, artefact

pytestmark = pytest.mark.skipif(not artefact.AVAILABLE, reason="needs locks")

HOLDER = """
import sys
from metapac.artefact import lock_folder
with lock_folder(sys.argv[1], "metapac train"):
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holding(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Let another process hold the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    try:
        yield process
    finally:
        process.communicate()


def lock(folder: Path) -> None:
    with artefact.lock_folder(folder, "metapac test"):
        pass


def refusal(folder: Path) -> str:
    with pytest.raises(InvalidInput) as caught:
        lock(folder)
    return str(caught.value)


def test_the_holder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    with holding(folder) as process:
        pattern = (
            rf"{re.escape(str(folder))} is in use by process {process.pid} on \S+ since \d\d:\d\d "
            r"\(metapac train\)\. Wait for it, or use another folder\."
        )
        assert re.fullmatch(pattern, refusal(folder))
    lock(folder)
    assert list(folder.iterdir()) == []


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    with holding(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert (tmp_path / artefact.FILE).exists()
        lock(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"\xff",
        b"[" * 9,
        b"5",
        b"{}",
        json.dumps({"process": "1", "host": "a", "since": 0, "command": "b"}).encode(),
        json.dumps({"process": 1, "host": "a", "since": 1e300, "command": "b"}).encode(),
        json.dumps({"process": 1, "host": "\x1b[2J", "since": 0, "command": "b"}).encode(),
    ],
)
def test_a_note_that_cannot_be_read_is_not_believed(tmp_path: Path, note: bytes) -> None:
    with holding(tmp_path):
        (tmp_path / artefact.FILE).write_bytes(note)
        assert refusal(tmp_path).startswith(f"{tmp_path} is in use by another process. Wait")


def test_the_date_is_given_unless_it_is_today(tmp_path: Path) -> None:
    note = {"process": 1, "host": "a", "since": time.time() - 10 * 86400, "command": "b"}
    with holding(tmp_path):
        (tmp_path / artefact.FILE).write_text(json.dumps(note))
        assert re.search(r" since \d{4}-\d\d-\d\d \d\d:\d\d \(b\)", refusal(tmp_path))


def test_a_thread_may_lock_again_and_another_may_not(tmp_path: Path) -> None:
    refused: list[Any] = []

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
        assert (tmp_path / artefact.FILE).exists()
    assert f"in use by process {os.getpid()} " in refused[0]
    assert not (tmp_path / artefact.FILE).exists()


def test_planted_links_are_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("all of it")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / artefact.FILE).symlink_to(precious)
    with pytest.raises(OSError, match=artefact.FILE):
        lock(tmp_path / "run")
    assert precious.read_text() == "all of it"


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


def test_without_locks_nothing_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with holding(tmp_path):
        monkeypatch.setattr(artefact, "AVAILABLE", False)
        lock(tmp_path)

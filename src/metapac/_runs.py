"""The folder of a run: used by one process at a time, and cleared of what killed ones left."""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metapac import _locks
from metapac._files import LEFTOVER, clear_leftovers
from metapac._types import PathLike
from metapac.exceptions import InvalidInput

FILE = ".metapac.lock"
_held: set[tuple[int, int, Path]] = set()  # process, thread and folder


@contextmanager
def lock_folder(path: PathLike, purpose: str) -> Iterator[None]:
    """Keep other processes out of the folder of a run, which is created if necessary.

    The same thread may lock a folder again. Where the file system has no locks, nothing is locked.

    Raises
    ------
    InvalidInput
        If the folder is in use; the message says by whom.
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    holder = (os.getpid(), threading.get_ident(), folder.resolve())
    if not _locks.AVAILABLE or holder in _held:
        yield
        return
    descriptor = _open_locked(folder, purpose)
    _held.add(holder)
    try:
        for place in (folder, *(path for path in folder.iterdir() if path.is_dir())):
            clear_leftovers(place, LEFTOVER)
        yield
    finally:
        _held.discard(holder)
        (folder / FILE).unlink(missing_ok=True)
        os.close(descriptor)


def _open_locked(folder: Path, purpose: str) -> int:
    """Return the open lock file of a folder, which says who holds it."""
    path = folder / FILE
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o644)
        try:
            if _locks.try_lock(descriptor) is False:
                raise _in_use(folder, os.read(descriptor, 4096))
            if _locks.is_same(descriptor, path):  # else its last holder has just deleted it
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(_describe_process(purpose)).encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _describe_process(purpose: str) -> dict[str, Any]:
    return {
        "process": os.getpid(),
        "host": platform.node(),
        "since": time.time(),
        "command": purpose,
    }


def _in_use(folder: Path, description: bytes) -> InvalidInput:
    remedy = "Wait for it, or use another folder."
    try:
        holder = json.loads(description)
        who = (
            f"process {holder['process']:d} on {holder['host']} since "
            f"{_format_time(holder['since'])} ({holder['command']})"
        )
    except (ValueError, TypeError, KeyError, OverflowError, OSError):  # not yet, or badly, written
        who = "another process"
    if not who.isprintable():
        who = "another process"
    return InvalidInput(f"{folder} is in use by {who}. {remedy}")


def _format_time(seconds: float) -> str:
    """Return the time of day, with the date if it is not today."""
    then, now = time.localtime(seconds), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)

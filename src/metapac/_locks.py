"""Locks that the operating system releases as soon as their process ends, however it ends."""

from __future__ import annotations

import errno
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no such locks: nothing is kept apart there
    fcntl = None  # type: ignore[assignment]

AVAILABLE = fcntl is not None


def try_lock(descriptor: int, *, wait: bool = False) -> bool | None:
    """Lock an open file or folder until it is closed.

    Return False if another process holds the lock, and None if there are no locks here.
    """
    if not AVAILABLE:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        return False if error.errno in (errno.EAGAIN, errno.EACCES) else None
    return True


def is_same(descriptor: int, path: Path) -> bool:
    """Whether a path still leads to an open file or folder."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False

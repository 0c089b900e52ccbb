"""Locks end with their process."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from metapac import _locks

fcntl = pytest.importorskip("fcntl")


def test_a_lock_is_held_until_it_is_closed(tmp_path: Path) -> None:
    one, two = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    assert _locks.try_lock(one) is True
    assert _locks.try_lock(two) is False
    os.close(one)
    assert _locks.try_lock(two, wait=True) is True
    os.close(two)


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    descriptor = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert _locks.try_lock(descriptor) is None
    monkeypatch.setattr(_locks, "AVAILABLE", False)
    assert _locks.try_lock(descriptor) is None
    os.close(descriptor)


def test_a_path_may_lead_elsewhere_in_the_meantime(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    descriptor = os.open(path, os.O_RDONLY)
    assert _locks.is_same(descriptor, path)
    path.unlink()
    assert not _locks.is_same(descriptor, path)
    path.write_text("two")
    assert not _locks.is_same(descriptor, path)
    os.close(descriptor)

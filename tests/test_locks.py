"""Locks end with their process."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from metapac import artefact

fcntl = pytest.importorskip("fcntl")


def test_a_lock_is_held_until_it_is_closed(tmp_path: Path) -> None:
    one, two = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    assert artefact.try_lock(one) is True
    assert artefact.try_lock(two) is False
    os.close(one)
    assert artefact.try_lock(two, wait=True) is True
    os.close(two)


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    descriptor = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.setattr(fcntl, "flock", refuse)
    assert artefact.try_lock(descriptor) is None
    monkeypatch.setattr(artefact, "AVAILABLE", False)
    assert artefact.try_lock(descriptor) is None
    os.close(descriptor)


def test_a_path_may_lead_elsewhere_in_the_meantime(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    descriptor = os.open(path, os.O_RDONLY)
    assert artefact.is_same(descriptor, path)
    path.unlink()
    assert not artefact.is_same(descriptor, path)
    path.write_text("two")
    assert not artefact.is_same(descriptor, path)
    os.close(descriptor)

"""Files and folders that appear complete or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from metapac._types import PathLike
from metapac.exceptions import InvalidInput


@contextmanager
def replacing(path: PathLike, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a file that takes the place of ``path`` once it is complete.

    A link is followed. Anything that is not a regular file, such as a pipe, is written directly.
    """
    text: dict[str, Any] = {} if binary else {"encoding": "utf-8", "newline": ""}
    mode = "wb" if binary else "w"
    with replacing_path(path) as temporary, temporary.open(mode, **text) as file:
        yield file


@contextmanager
def replacing_path(path: PathLike) -> Iterator[Path]:
    """Yield a free name beside ``path``; the file written there takes its place at the end."""
    if Path(path).exists() and not Path(path).is_file():
        yield Path(path)
        return
    target = Path(path).resolve()
    check_folder(target.parent)
    temporary = temporary_name(target)
    try:
        yield temporary
        with temporary.open("rb+") as written:  # Windows syncs only what is open for writing
            os.fsync(written.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def new_folder(path: PathLike, *, create: bool = True, exist_ok: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside ``path`` that is renamed to ``path`` at the end.

    With ``create=False`` the caller creates the temporary folder. With ``exist_ok`` a folder that
    another process has put there in the meantime stays, and no error is raised.
    """
    target = Path(path)
    temporary = temporary_name(target)
    if create:
        temporary.mkdir()
    try:
        yield temporary
        try:
            temporary.rename(target)
        except OSError:
            if not (exist_ok and target.is_dir()):
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_folder(folder: Path) -> None:
    """Raise FileNotFoundError if a folder to write into does not exist."""
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "folder does not exist; create it first", str(folder))


def check_not_input(path: PathLike, inputs: Iterable[PathLike]) -> None:
    """Raise InvalidInput if writing to ``path`` would overwrite an input."""
    target = Path(path)
    if not target.exists():
        return
    if any(Path(source).exists() and target.samefile(source) for source in inputs):
        raise InvalidInput(f"{path} is also the input. Write to another file.")


def temporary_name(target: Path) -> Path:
    """Return a new name beside ``target``, for what is not yet, or no longer, complete."""
    return target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.partial")

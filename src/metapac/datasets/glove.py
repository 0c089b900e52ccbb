"""Word vectors from a GloVe text file: of its many words, those that are wanted."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from metapac.datasets.cache import Progress

REMEDY = (
    "Unpack it if it is packed; if it is damaged, delete it and run 'metapac data fetch fewrel' "
    "again."
)

_HEADER = re.compile(rb"(\d{1,9}) ([1-9]\d{0,4})")  # "400000 50": words, width
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_LONGEST = 1 << 20  # bytes of a line: a file without line ends is not read into memory
_LINES = 1 << 14  # between two reports of progress
_LARGEST = float(np.finfo(np.float32).max)

Floats = NDArray[np.float32]


def read_vectors(
    path: str | os.PathLike[str], words: Collection[str], *, progress: Progress | None = None
) -> tuple[list[str], Floats]:
    """Return those of ``words`` that a GloVe text file has, in its order, and their vectors.

    A line is a word, which may have spaces in it, and its numbers; of a word that comes twice the
    first line counts. A first line such as "400000 50", as word2vec writes it, is checked and
    skipped. Every line must be UTF-8 of one width, but only the vectors that are wanted are read
    as numbers, and only they take memory. ``progress`` is told bytes.
    """
    path = Path(path)
    width, promised = _shape(path)
    # A lone surrogate, which JSON can hold, is in no file of UTF-8: it is not found.
    wanted = {word.encode(errors="surrogatepass") for word in words}
    beginnings = {word.partition(b" ")[0] for word in wanted}
    found: dict[bytes, Floats] = {}
    count = 0
    for number, line in _lines(path, 1 if promised is None else 2, progress):
        count += 1
        if line.count(b" ") != width:
            _check_width(path, number, line, width)
        if line.partition(b" ")[0] in beginnings:  # most lines are never split
            word, *numbers = line.rsplit(b" ", width)
            if word in wanted and word not in found:
                found[word] = _vector(path, number, numbers)
    if promised is not None and count != promised:
        raise ValueError(
            f"{path} must have {promised} words, as line 1 says, got {count}. {REMEDY}"
        )
    vectors = np.stack([*found.values()]) if found else np.empty((0, width), np.float32)
    return [word.decode() for word in found], vectors


def choose_vectors(folders: Iterable[Path]) -> Path | None:
    """Return the GloVe file of these folders, or of the folders in them, that FewRel is read with.

    Where there are several: 50 numbers a word, as in the paper, before any other width, then the
    vectors trained on 6 billion tokens, then the narrowest, then the first name.
    """
    found = [
        path
        for folder in folders
        for pattern in ("glove*.txt", "*/glove*.txt")
        for path in folder.glob(pattern)
        if path.is_file()
    ]
    return min(found, key=_preference, default=None)


def _preference(path: Path) -> tuple[bool, bool, int, str]:
    named = re.search(r"\.(\d+)d\.", path.name)
    width = int(named[1]) if named else 10**6
    return width != 50, ".6B." not in path.name, width, str(path)


def _shape(path: Path) -> tuple[int, int | None]:
    """Return the width of the vectors and, where line 1 says it, how many there are."""
    _, line = next(_lines(path, 1), (1, None))
    if line is None:
        raise ValueError(f"{path} is empty. {REMEDY}")
    header = _HEADER.fullmatch(line)
    if header:
        return int(header[2]), int(header[1])
    fields = line.split(b" ")
    last = max((i for i, field in enumerate(fields) if not _NUMBER.fullmatch(field)), default=0)
    if last == len(fields) - 1:
        raise ValueError(
            f"{path}, line 1 must be a word and its numbers, got {_shown(line)}. {REMEDY}"
        )
    return len(fields) - 1 - last, None


def _lines(path: Path, first: int, progress: Progress | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file from number ``first`` on, without their ends."""
    total, done = path.stat().st_size, 0
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, _LONGEST), b""), start=1):
            done += len(line)
            if not line.isascii():
                _check_text(path, number, line)
            if not line.endswith(b"\n"):
                raise ValueError(f"{path}, line {number} has no end: the file was cut. {REMEDY}")
            if number >= first:
                yield number, line.rstrip()
            if progress is not None and (number % _LINES == 0 or done == total):
                progress(done, total)


def _check_text(path: Path, number: int, line: bytes) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}, line {number} is not UTF-8 text ({error}). {REMEDY}") from error


def _check_width(path: Path, number: int, line: bytes, width: int) -> None:
    """Refuse a line with too few numbers or too many; a word with spaces is neither."""
    fields = line.split(b" ")
    if len(fields) <= width or any(map(_NUMBER.fullmatch, fields[1:-width])):
        raise ValueError(
            f"{path}, line {number} must be a word and {width} numbers, got {len(fields)} fields: "
            f"{_shown(line)}. {REMEDY}"
        )


def _vector(path: Path, number: int, numbers: Sequence[bytes]) -> Floats:
    try:
        vector = np.array(numbers, dtype=np.float64)  # (width,)
        sound = bool(np.all(np.abs(vector) <= _LARGEST))
    except ValueError:
        sound = False
    if not sound:
        raise ValueError(
            f"{path}, line {number} must be a word and {len(numbers)} finite numbers, got "
            f"{_shown(b' '.join(numbers))}. {REMEDY}"
        )
    return vector.astype(np.float32)


def _shown(line: bytes) -> str:
    text = line[:60].decode(errors="replace")
    return repr(text if len(line) <= 60 else text + " ...")

"""Word vectors of a vocabulary, read from a GloVe text file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from metapac import _checks
from metapac._types import Array, PathLike, Progress, ignore_progress
from metapac.exceptions import InvalidInput

_REMEDY = (
    "Unpack it if it is packed; if it is damaged, delete it and run 'metapac data fetch fewrel' "
    "again."
)

_HEADER = re.compile(rb"(\d{1,9}) ([1-9]\d{0,4})")  # "400000 50": words, width
_NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_LONGEST = 1 << 20  # bytes of a line, so that a file without line ends is not read into memory
_LINES = 1 << 14  # between two reports of progress
_LARGEST = float(np.finfo(np.float32).max)


def read_vectors(
    path: PathLike, words: Collection[str], *, progress: Progress | None = None
) -> tuple[list[str], Array]:
    """Read the vectors of some words from a GloVe text file.

    A line is a word, which may contain spaces, and its numbers. If a word is repeated, its first
    line is used. A first line such as "400000 50", as word2vec writes it, is checked and skipped.
    Every line must be UTF-8 of one width, but only the vectors of ``words`` are parsed.

    Parameters
    ----------
    path : path_like
        The file.
    words : collection of str
        The vocabulary.
    progress : callable, optional
        Called as ``progress("reading word vectors", bytes_done, bytes_total)``.

    Returns
    -------
    words : list of str
        Words of the vocabulary that the file has, in its order.
    vectors : ndarray of float32, shape (words, width)
        Their vectors.

    Raises
    ------
    InvalidInput
        If the file is damaged; the message names the line.
    """
    path = Path(path)
    width, stated = _read_shape(path)
    # A lone surrogate, which JSON can hold, occurs in no UTF-8 file.
    wanted = {word.encode(errors="surrogatepass") for word in words}
    first_words = {word.partition(b" ")[0] for word in wanted}
    vectors: dict[bytes, Array] = {}
    count = 0
    first = 1 if stated is None else 2
    for number, line in _read_lines(path, first, progress or ignore_progress):
        count += 1
        if line.count(b" ") != width:
            _check_width(path, number, line, width)
        if line.partition(b" ")[0] in first_words:  # most lines are never split
            word, *numbers = line.rsplit(b" ", width)
            if word in wanted and word not in vectors:
                vectors[word] = _parse_vector(path, number, numbers)
    if stated not in (None, count):
        raise InvalidInput(
            f"{path} must have {stated} words, as line 1 says, got {count}. {_REMEDY}"
        )
    matrix = np.array([*vectors.values()], np.float32).reshape(-1, width)
    return [word.decode() for word in vectors], matrix


def choose_vectors(folders: Iterable[Path]) -> Path | None:
    """Choose a GloVe file in some folders or their subfolders.

    Vectors of 50 numbers, as in the paper, are preferred; then those trained on 6 billion tokens,
    then the shortest, then the first by name.

    Parameters
    ----------
    folders : iterable of Path
        Where to look.

    Returns
    -------
    Path or None
        The file; None if there is none.
    """
    files = [
        path
        for folder in folders
        for pattern in ("glove*.txt", "*/glove*.txt")
        for path in folder.glob(pattern)
        if path.is_file()
    ]
    return min(files, key=_preference, default=None)


def _preference(path: Path) -> tuple[bool, bool, int, str]:
    match = re.search(r"\.(\d+)d\.", path.name)
    width = int(match[1]) if match else 10**6
    return width != 50, ".6B." not in path.name, width, str(path)


def _read_shape(path: Path) -> tuple[int, int | None]:
    """Return the width of the vectors, and their number if line 1 states it."""
    _, line = next(_read_lines(path, 1, ignore_progress), (1, None))
    if line is None:
        raise InvalidInput(f"{path} is empty. {_REMEDY}")
    header = _HEADER.fullmatch(line)
    if header:
        return int(header[2]), int(header[1])
    fields = line.split(b" ")
    last = max((i for i, field in enumerate(fields) if not _NUMBER.fullmatch(field)), default=0)
    if last == len(fields) - 1:
        raise InvalidInput(
            f"{path}, line 1 must be a word and its numbers, got {_checks.brief(line.decode())}. "
            f"{_REMEDY}"
        )
    return len(fields) - 1 - last, None


def _read_lines(path: Path, first: int, progress: Progress) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file from number ``first`` on, without line ends."""
    total, done = path.stat().st_size, 0
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, _LONGEST), b""), start=1):
            done += len(line)
            if not line.isascii():
                _check_text(path, number, line)
            if not line.endswith(b"\n"):
                raise InvalidInput(
                    f"{path}, line {number} has no line end: the file is truncated. {_REMEDY}"
                )
            if number >= first:
                yield number, line.rstrip()
            if number % _LINES == 0 or done == total:
                progress("reading word vectors", done, total)


def _check_text(path: Path, number: int, line: bytes) -> None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path}, line {number} is not UTF-8 text ({error}). {_REMEDY}"
        ) from error


def _check_width(path: Path, number: int, line: bytes, width: int) -> None:
    """Raise if a line has too few or too many numbers; a word may contain spaces."""
    fields = line.split(b" ")
    if len(fields) <= width or any(map(_NUMBER.fullmatch, fields[1:-width])):
        raise InvalidInput(
            f"{path}, line {number} must be a word and {width} numbers, got {len(fields)} fields: "
            f"{_checks.brief(line.decode())}. {_REMEDY}"
        )


def _parse_vector(path: Path, number: int, numbers: Sequence[bytes]) -> Array:
    try:
        vector = np.array(numbers, dtype=np.float64)  # (width,)
        is_finite = bool(np.all(np.abs(vector) <= _LARGEST))
    except ValueError:
        is_finite = False
    if not is_finite:
        raise InvalidInput(
            f"{path}, line {number} must be a word and {len(numbers)} finite numbers, got "
            f"{_checks.brief(b' '.join(numbers).decode())}. {_REMEDY}"
        )
    return vector.astype(np.float32)

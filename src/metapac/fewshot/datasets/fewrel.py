"""FewRel: relations between words in sentences."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metapac._common import (
    Array,
    Counts,
    PathLike,
    Progress,
    Seed,
    as_whole_number,
    brief,
    ignore_progress,
)
from metapac.errors import InvalidInput
from metapac.fewshot.datasets import cache
from metapac.fewshot.pools import ClassPool, Pools

_GLOVE_REMEDY = (
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
            f"{path} must have {stated} words, as line 1 says, got {count}. {_GLOVE_REMEDY}"
        )
    matrix = np.array([*vectors.values()], np.float32).reshape(-1, width)
    return [word.decode() for word in vectors], matrix


def choose_vectors(folders: Iterable[Path]) -> Path | None:
    """Choose a GloVe file in some folders or their subfolders.

    Vectors of 50 numbers, as in the paper, are preferred; then those trained on 6 billion tokens,
    then the shortest, then the first by name.
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
        raise InvalidInput(f"{path} is empty. {_GLOVE_REMEDY}")
    header = _HEADER.fullmatch(line)
    if header:
        return int(header[2]), int(header[1])
    fields = line.split(b" ")
    last = max((i for i, field in enumerate(fields) if not _NUMBER.fullmatch(field)), default=0)
    if last == len(fields) - 1:
        raise InvalidInput(
            f"{path}, line 1 must be a word and its numbers, got {brief(line.decode())}. "
            f"{_GLOVE_REMEDY}"
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
                    f"{path}, line {number} has no line end: the file is truncated. {_GLOVE_REMEDY}"
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
            f"{path}, line {number} is not UTF-8 text ({error}). {_GLOVE_REMEDY}"
        ) from error


def _check_width(path: Path, number: int, line: bytes, width: int) -> None:
    """Raise if a line has too few or too many numbers; a word may contain spaces."""
    fields = line.split(b" ")
    if len(fields) <= width or any(map(_NUMBER.fullmatch, fields[1:-width])):
        raise InvalidInput(
            f"{path}, line {number} must be a word and {width} numbers, got {len(fields)} fields: "
            f"{brief(line.decode())}. {_GLOVE_REMEDY}"
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
            f"{brief(b' '.join(numbers).decode())}. {_GLOVE_REMEDY}"
        )
    return vector.astype(np.float32)


SPLITS = {"train": "train_wiki.json", "val": "val_wiki.json"}
_REMEDY = "Delete it and run 'metapac data fetch fewrel' again."

_FEWREL = "https://github.com/thunlp/FewRel, folder data"
_GLOVE = "https://nlp.stanford.edu/data/glove.6B.zip, unpacked"
_SHAPE = '{"tokens": [...], "h": [name, id, [[position, ...], ...]], "t": [...]}'


@dataclass(frozen=True)
class Layout:
    """Paths of the files, whether they exist or not."""

    relations: dict[str, Path]
    names: Path
    vectors: Path

    def missing(self) -> list[str]:
        """Return which files are missing, and where to get them."""
        needed = [(path.name, path, _FEWREL) for path in self.relations.values()]
        needed += [("a GloVe text file such as glove.6B.50d.txt", self.vectors, _GLOVE)]
        return [
            f"{what} is missing: run 'metapac data fetch fewrel', or take it from {where}."
            for what, path, where in needed
            if not path.is_file()
        ]

    def files(self) -> list[Path]:
        """Return every file that is read."""
        files = (*self.relations.values(), self.names, self.vectors)
        return [path for path in files if path.is_file()]


def find_layout(folder: Path, vectors: Path | None = None) -> Layout:
    """Find the files of FewRel in a folder, or in the first of its subfolders with some of them."""
    places = [folder, *sorted(path for path in folder.glob("*") if path.is_dir())]
    matches = (p for p in places if any((p / name).is_file() for name in SPLITS.values()))
    place = next(matches, folder)
    return Layout(
        {split: place / name for split, name in SPLITS.items()},
        place / "pid2name.json",
        vectors or choose_vectors([place, folder]) or place / "glove.6B.50d.txt",
    )


class Sentence(NamedTuple):
    """A sentence that states a relation between two entities."""

    words: list[str]
    head: int
    tail: int


def read_relations(path: Path) -> dict[str, list[Sentence]]:
    """Read the sentences of each relation."""
    content = _read_json(path)
    if not isinstance(content, dict) or not content:
        raise InvalidInput(
            f"{path} must hold {{relation: [sentence, ...]}}, got {brief(content)}. {_REMEDY}"
        )
    return {name: _parse_sentences(path, name, items) for name, items in content.items()}


def read_names(path: Path) -> dict[str, str]:
    """Read the names of the relations."""
    content = _read_json(path)
    entries = content.values() if isinstance(content, dict) else [None]
    if not all(isinstance(pair, list) and pair and isinstance(pair[0], str) for pair in entries):
        raise InvalidInput(
            f"{path} must hold {{relation: [name, description]}}, got {brief(content)}. {_REMEDY}"
        )
    return {relation: pair[0] for relation, pair in content.items()}


def _read_json(path: Path) -> Any:
    raw = path.read_bytes()
    if not raw:
        raise InvalidInput(f"{path} is empty. {_REMEDY}")
    try:
        return json.loads(raw, object_pairs_hook=_build_object)
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"{path} is not complete JSON: {error.msg} at line {error.lineno}, column "
            f"{error.colno}. {_REMEDY}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} cannot be read as JSON ({error}). {_REMEDY}") from error


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise if a key is repeated, since its first value would be lost."""
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise InvalidInput(f"{key!r} occurs twice")
        content[key] = value
    return content


def _parse_sentences(path: Path, relation: str, items: Any) -> list[Sentence]:
    if not isinstance(items, list) or not items:
        raise InvalidInput(
            f"{path}, relation {relation!r} must hold a list of sentences, got "
            f"{brief(items)}. {_REMEDY}"
        )
    sentences = []
    for number, item in enumerate(items, start=1):
        try:
            sentences.append(_parse_sentence(item))
        except _Fault as fault:
            raise InvalidInput(
                f"{path}, relation {relation!r}, sentence {number} of {len(items)} {fault}. "
                f"{_REMEDY}"
            ) from None
    return sentences


class _Fault(Exception):
    """A sentence does not have the published form."""


def _parse_sentence(item: Any) -> Sentence:
    try:
        tokens, head, tail = item["tokens"], item["h"][2], item["t"][2]
    except (TypeError, LookupError):
        raise _Fault(f"must be {_SHAPE}, got {brief(item)}") from None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise _Fault(f"must have tokens that are a list of strings, got {brief(tokens)}")
    if not tokens:
        raise _Fault("has no tokens")
    words = [token.lower() for token in tokens]
    return Sentence(words, _first_token(head, "h", tokens), _first_token(tail, "t", tokens))


def _first_token(mentions: Any, entity: str, tokens: Sequence[str]) -> int:
    """Return the first token of an entity's first mention; all its mentions are checked."""
    try:
        positions = [position for mention in mentions for position in mention]
        first = mentions[0][0]
    except (TypeError, LookupError):
        positions, first = [None], None
    if not all(type(position) is int for position in positions):
        raise _Fault(
            f"must have {entity}[2] that is a list of mentions, each a list of positions, got "
            f"{brief(mentions)}"
        )
    outside = [position for position in positions if not 0 <= position < len(tokens)]
    if outside:
        raise _Fault(
            f"must have positions of {entity} from 0 to {len(tokens) - 1}, its tokens, got "
            f"{outside[0]}"
        )
    return int(first)


NAME = "fewrel"
TOKENS = 128  # longer sentences are truncated
PADDING, UNKNOWN = 0, 1  # the first two rows of the word vectors

_PUBLISHED, _SENTENCES = {"train": 64, "val": 16}, 700

Facts = dict[str, Any]


def fewrel(
    *, calibration: int = 16, validation: int = 0, rng: Seed = 0, home: cache.Home = None
) -> tuple[Pools[ClassPool], Array]:
    """Return the prepared FewRel as pools of relations, and the word vectors for SentenceCNN.

    The 16 relations of val_wiki are the test pool. The 64 relations of train_wiki are divided
    between calibration, validation and training. (The paper calibrates on the 64 relations that
    training has seen; here the pools are disjoint.)

    Parameters
    ----------
    calibration : int, optional
        Number of relations for calibration: those with the most sentences, since calibration as in
        the paper needs 500 of each.
    validation : int, optional
        Number of relations for validation: those with the next most sentences.
    rng : int or numpy.random.Generator or None, optional
        Source of randomness; breaks ties.
    home : path_like, optional
        Folder of the data; by default $METAPAC_DATA, or ``metapac`` in the user's cache folder.

    Returns
    -------
    pools : Pools
        Pools of sentences, int32 (128, 3): the row of the word in ``words``, and its position
        relative to the head and the tail entity. Classes are relation ids, such as P931.
    words : ndarray of float32, shape (words, width)
        Word vectors.

    Raises
    ------
    FileNotFoundError
        If the data are not prepared.

    Examples
    --------
    Prepare one sentence of each of two relations, then load them:

    >>> import json, pathlib, tempfile
    >>> from metapac.fewshot import fewrel
    >>> from metapac.fewshot.datasets.catalogue import get_data_set
    >>> head, tail = ["Ada", "Q1", [[0]]], ["Bo", "Q2", [[2]]]
    >>> sentence = {"tokens": ["Ada", "met", "Bo"], "h": head, "t": tail}
    >>> with tempfile.TemporaryDirectory() as home:
    ...     folder = pathlib.Path(home)
    ...     _ = (folder / "train_wiki.json").write_text(json.dumps({"P1": [sentence]}))
    ...     _ = (folder / "val_wiki.json").write_text(json.dumps({"P2": [sentence]}))
    ...     _ = (folder / "glove.6B.50d.txt").write_text("met" + " 0.5" * 50 + "\\n")
    ...     _ = get_data_set("fewrel").prepare(folder, home=home)
    ...     pools, words = fewrel(calibration=0, home=home)
    >>> pools.test.x[0, :3].tolist()
    [[1, 0, -2], [2, 1, -1], [1, 2, 0]]
    """
    data = cache.open_prepared(NAME, home)
    relations = [name for split in SPLITS for name in data.facts["classes"][split]]
    counts = data.facts["counts"]["train"]
    parts = {"calibration": calibration, "validation": validation}
    sizes = [as_whole_number(name, size, minimum=0) for name, size in parts.items()]
    if sum(sizes) > len(counts):
        raise InvalidInput(
            f"calibration + validation must be at most {len(counts)}, the relations of "
            f"train_wiki.json, got {calibration} + {validation}."
        )
    divided = np.split(_largest_first(counts, rng), np.cumsum(sizes))
    members = dict(zip([*parts, "train"], divided, strict=True))
    members["test"] = np.arange(len(counts), len(relations))
    pools = {
        pool: _load(data, relations, chosen, pool)
        for pool, chosen in members.items()
        if len(chosen)
    }
    return Pools(**pools), np.array(data["words"])  # a copy: torch needs writable memory


def _largest_first(counts: Sequence[int], rng: Seed) -> Counts:
    ties = np.random.default_rng(rng).permutation(len(counts))
    return np.lexsort((ties, -np.asarray(counts)))


def _load(data: cache.Prepared, relations: Sequence[str], members: Array, name: str) -> ClassPool:
    """Return the sentences of some relations; contiguous rows are not copied."""
    rows = np.flatnonzero(np.isin(data["y"], members))
    contiguous = rows[-1] - rows[0] == len(rows) - 1
    x = data["x"][rows[0] : rows[-1] + 1] if contiguous else data["x"][rows]
    return ClassPool(x, np.array(relations)[data["y"][rows]], name=name)


def missing(folder: PathLike) -> list[str]:
    """Return which files of FewRel are missing from a folder, and where to get them."""
    return find_layout(Path(folder)).missing()


def prepare(
    folder: PathLike,
    *,
    glove: PathLike | None = None,
    home: cache.Home = None,
    progress: Progress | None = None,
) -> cache.Prepared:
    """Convert train_wiki.json, val_wiki.json and GloVe vectors into arrays.

    Words are lower-cased. Words without a vector, and tokens of white space, share the mean of
    all vectors. Positions count from the first token of an entity's first mention; an entity
    beyond the first 128 tokens gets position 128.
    """
    if glove is not None and not Path(glove).is_file():
        raise FileNotFoundError(
            errno.ENOENT,
            "glove must be a GloVe text file, such as glove.6B.50d.txt. Correct the path, or omit "
            "it to use the file in the folder",
            str(glove),
        )
    layout = find_layout(Path(folder), None if glove is None else Path(glove))
    if absent := layout.missing():
        raise FileNotFoundError(errno.ENOENT, " ".join(absent), str(folder))
    fill = partial(_fill, layout=layout, progress=progress)
    return cache.prepare(NAME, layout.files(), fill, home=home)


def _fill(writer: cache.Writer, layout: Layout, progress: Progress | None) -> Facts:
    splits = {split: read_relations(path) for split, path in layout.relations.items()}
    _check_disjoint(splits["train"], splits["val"])
    relations = splits["train"] | splits["val"]
    vectors, rows = _read_vectors(relations.values(), layout.vectors, progress)
    writer.append("words", vectors)
    for number, sentences in enumerate(relations.values()):
        writer.append("x", encode(sentences, rows))
        writer.append("y", np.full(len(sentences), number, np.int16))
    for number, split in enumerate(splits.values()):
        writer.append("split", np.full(sum(map(len, split.values())), number, np.int8))
    names = read_names(layout.names) if layout.names.is_file() else {}
    facts = {split: _describe(content, rows) for split, content in splits.items()}
    return {
        "classes": {split: list(content) for split, content in splits.items()},
        "counts": {split: _count_sentences(content) for split, content in splits.items()},
        "names": {relation: names.get(relation, relation) for relation in relations},
        "splits": facts,
        "words": len(rows),
        "vectors": {"file": layout.vectors.name, "width": vectors.shape[1]},
        "notes": [*_differences(splits), *_poor_coverage(facts, layout.vectors)],
    }


def _check_disjoint(train: Iterable[str], test: Iterable[str]) -> None:
    shared = sorted(set(train) & set(test))
    if shared:
        raise InvalidInput(
            f"{SPLITS['train']} and {SPLITS['val']} must not share a relation, got {shared[0]!r} "
            "in both: relations to test on must be new. Take both files from one source."
        )


def _read_vectors(
    relations: Iterable[Sequence[Sentence]], path: Path, progress: Progress | None
) -> tuple[Array, dict[str, int]]:
    """Return the vectors, with padding and unknown words first, and the row of each word."""
    sentences = [sentence for members in relations for sentence in members]
    used = {word for sentence in sentences for word in sentence.words[:TOKENS]}
    words, vectors = read_vectors(path, {word for word in used if word.strip()}, progress=progress)
    if not words:
        raise InvalidInput(
            f"{path} has none of the {len(used)} words of FewRel. Use vectors of lower-cased "
            "English words, such as glove.6B.50d.txt."
        )
    shared = vectors.mean(0, dtype=np.float64).astype(np.float32)  # (width,)
    rows = {word: row for row, word in enumerate(words, start=UNKNOWN + 1)}
    return np.vstack([np.zeros_like(shared), shared, vectors]), rows


def encode(sentences: Sequence[Sentence], rows: Mapping[str, int]) -> Array:
    """Return the words of sentences and their positions relative to the entities."""
    x = np.full((len(sentences), TOKENS, 3), PADDING, np.int32)
    for row, (words, head, tail) in zip(x, sentences, strict=True):
        numbers = [rows.get(word, UNKNOWN) for word in words[:TOKENS]]
        positions = np.arange(len(numbers))
        row[: len(numbers), 0] = numbers
        row[: len(numbers), 1] = positions - min(head, TOKENS)
        row[: len(numbers), 2] = positions - min(tail, TOKENS)
    return x


def _describe(relations: Mapping[str, Sequence[Sentence]], rows: Mapping[str, int]) -> Facts:
    sentences = [sentence.words for members in relations.values() for sentence in members]
    covered = [word in rows for words in sentences for word in words[:TOKENS]]
    return {
        **cache.describe_counts(_count_sentences(relations)),
        "tokens": len(covered),
        "covered": sum(covered) / len(covered),
        "cut": sum(len(words) > TOKENS for words in sentences),
    }


def _count_sentences(relations: Mapping[str, Sequence[Any]]) -> list[int]:
    return [len(sentences) for sentences in relations.values()]


def _differences(splits: Mapping[str, Mapping[Any, Sequence[Any]]]) -> list[str]:
    return [
        f"{split} was published as {relations} relations of {_SENTENCES} sentences"
        for split, relations in _PUBLISHED.items()
        if _count_sentences(splits[split]) != [_SENTENCES] * relations
    ]


def _poor_coverage(splits: Mapping[str, Facts], vectors: Path) -> list[str]:
    return [
        f"{vectors.name} covers only {facts['covered']:.0%} of the tokens of {SPLITS[split]}; the "
        "others share one vector: use vectors of lower-cased English words, such as "
        "glove.6B.50d.txt"
        for split, facts in splits.items()
        if facts["covered"] < 0.5
    ]

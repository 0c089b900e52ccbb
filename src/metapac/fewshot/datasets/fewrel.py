"""FewRel: relations between words in sentences."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from metapac import artefact
from metapac._common import Array, PathLike, Progress, Seed, as_whole_number, brief, ignore_progress
from metapac.errors import InvalidInput
from metapac.fewshot.datasets import cache
from metapac.fewshot.pools import ClassPool, Pools

_NAME = "fewrel"
_SPLITS = {"train": "train_wiki.json", "val": "val_wiki.json"}
_PUBLISHED, _SENTENCES = {"train": 64, "val": 16}, 700
_SOURCES = dict.fromkeys(_SPLITS, "https://github.com/thunlp/FewRel, folder data")
_SOURCES["vectors"] = "https://nlp.stanford.edu/data/glove.6B.zip, unpacked"
_REMEDY = "Delete it and run 'metapac data fetch fewrel' again."
_TOKENS = 128  # longer sentences are truncated
_PADDING, _UNKNOWN = 0, 1  # the first two rows of the word vectors


_Sentence = tuple[list[str], int, int]  # words, and where the head and the tail entity are
_Relations = dict[str, list[_Sentence]]
_Rows = dict[str, int]  # of the vector of each word


def fewrel(
    *, calibration: int = 16, validation: int = 0, rng: Seed = 0, home: cache.Home = None
) -> tuple[Pools[ClassPool], Array]:
    """Return the prepared FewRel as pools of relations, and the word vectors for SentenceCNN.

    The 16 relations of val_wiki are the test pool; the 64 of train_wiki are divided between
    calibration, validation and training. (The paper calibrates on relations seen in training.)

    Parameters
    ----------
    calibration, validation : int, optional
        Number of relations for calibration, those with the most sentences, and for validation,
        those with the next most.
    rng : int or numpy.random.Generator or None, optional
        Source of randomness; breaks ties.
    home : path_like, optional
        Folder of the data; by default $METAPAC_DATA, or ``metapac`` in the user's cache folder.

    Returns
    -------
    pools : Pools
        Pools of sentences, int32 (128, 3): the row in ``words``, and the positions relative to the
        head and the tail entity. Classes are relation ids, such as P931.
    words : ndarray of float32, shape (words, width)
        Word vectors.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from metapac.fewshot import fewrel
    >>> from metapac.fewshot.datasets.catalogue import get_data_set
    >>> head, tail = ["Ada", "Q1", [[0]]], ["Bo", "Q2", [[2]]]
    >>> sentence = {"tokens": ["Ada", "met", "Bo"], "h": head, "t": tail}
    >>> with tempfile.TemporaryDirectory() as home:
    ...     for name, relation in (("train", "P1"), ("val", "P2")):
    ...         path = pathlib.Path(home, f"{name}_wiki.json")
    ...         _ = path.write_text(json.dumps({relation: [sentence]}))
    ...     _ = pathlib.Path(home, "glove.6B.50d.txt").write_text("met" + " 0.5" * 50 + "\\n")
    ...     _ = get_data_set("fewrel").prepare(home, home=home)
    ...     pools, words = fewrel(calibration=0, home=home)
    >>> pools.test.x[0, :3].tolist()
    [[1, 0, -2], [2, 1, -1], [1, 2, 0]]
    """
    data = cache.open_prepared(_NAME, home)
    relations = [name for split in _SPLITS for name in data.facts["classes"][split]]
    counts = data.facts["counts"]["train"]
    parts = {"calibration": calibration, "validation": validation}
    sizes = [as_whole_number(name, size, minimum=0) for name, size in parts.items()]
    if sum(sizes) > len(counts):
        rule = f"calibration + validation must be at most {len(counts)}"
        raise InvalidInput(f"{rule}, got {calibration} + {validation}.", parameter=[*parts])
    ties = np.random.default_rng(rng).permutation(len(counts))
    largest_first = np.lexsort((ties, -np.asarray(counts)))
    members = dict(zip([*parts, "train"], np.split(largest_first, np.cumsum(sizes)), strict=True))
    members["test"] = np.arange(len(counts), len(relations))
    pools = {p: _load(data, relations, some, p) for p, some in members.items() if len(some)}
    return Pools(**pools), np.array(data["words"])  # a copy: torch needs writable memory


def _load(data: cache.Prepared, relations: Sequence[str], members: Array, name: str) -> ClassPool:
    """Return the sentences of some relations; contiguous rows are not copied."""
    rows = np.flatnonzero(np.isin(data["y"], members))
    contiguous = rows[-1] - rows[0] == len(rows) - 1
    x = data["x"][rows[0] : rows[-1] + 1] if contiguous else data["x"][rows]
    return ClassPool(x, np.array(relations)[data["y"][rows]], name=name)


def missing(folder: PathLike) -> list[str]:
    return _missing(_find_files(Path(folder)))


def _missing(files: Mapping[str, Path]) -> list[str]:
    return [
        f"{files[kind].name} is missing: run 'metapac data fetch fewrel', or take it from {source}."
        for kind, source in _SOURCES.items()
        if not files[kind].is_file()
    ]


def prepare(
    folder: PathLike,
    *,
    glove: PathLike | None = None,
    home: cache.Home = None,
    progress: Progress | None = None,
) -> cache.Prepared:
    """Convert train_wiki.json, val_wiki.json and GloVe vectors into arrays."""
    # Words without a vector share the mean vector; an entity beyond 128 tokens gets position 128.
    files = _find_files(Path(folder)) | ({"vectors": Path(glove)} if glove is not None else {})
    if absent := _missing(files):
        raise FileNotFoundError(errno.ENOENT, " ".join(absent), str(glove or folder))
    sources = [path for path in files.values() if path.is_file()]  # the names are optional
    fill = partial(_fill, files=files, progress=progress or ignore_progress)
    return cache.prepare(_NAME, sources, fill, home=home)


def _find_files(folder: Path) -> dict[str, Path]:
    """Return the files in a folder, or in the first of its subfolders with some of them."""
    places = [folder, *sorted(path for path in folder.glob("*") if path.is_dir())]
    matches = (p for p in places if any((p / name).is_file() for name in _SPLITS.values()))
    place = next(matches, folder)
    globs = [(start, f"{sub}glove*.txt") for start in (place, folder) for sub in ("", "*/")]
    vectors = [path for start, name in globs for path in start.glob(name) if path.is_file()]
    return {
        **{split: place / name for split, name in _SPLITS.items()},
        "names": place / "pid2name.json",
        "vectors": min(vectors, key=_preference, default=place / "glove.6B.50d.txt"),
    }


def _preference(path: Path) -> tuple[bool, bool, int, str]:
    """Rank vectors of 50 numbers first, as in the paper, then those of 6 billion tokens."""
    match = re.search(r"\.(\d+)d\.", path.name)
    width = int(match[1]) if match else 10**6
    return width != 50, ".6B." not in path.name, width, str(path)


def _fill(writer: cache.Writer, files: Mapping[str, Path], progress: Progress) -> dict[str, Any]:
    splits = {split: _read_relations(files[split]) for split in _SPLITS}
    if shared := sorted(splits["train"].keys() & splits["val"].keys()):
        both = f"{files['train']} and {files['val'].name}"
        raise InvalidInput(f"{both} must not share a relation, got {shared[0]!r} in both.")
    relations = splits["train"] | splits["val"]
    vectors, rows = _embed_words(relations, files["vectors"], progress)
    writer.append("words", vectors)
    for number, sentences in enumerate(relations.values()):
        writer.append("x", _encode(sentences, rows))
        writer.append("y", np.full(len(sentences), number, np.int16))
    counts = {split: [*map(len, content.values())] for split, content in splits.items()}
    for number, sizes in enumerate(counts.values()):
        writer.append("split", np.full(sum(sizes), number, np.int8))
    pairs: dict[str, list[str]] = {}
    if files["names"].is_file():
        shape = dict[str, Annotated[list[str], bool]]
        pairs = _read_json(files["names"], shape, "{relation: [name, description]}")
    facts = {split: _describe(content, rows) for split, content in splits.items()}
    return {
        "classes": {split: list(content) for split, content in splits.items()},
        "counts": counts,
        "names": {name: pairs.get(name, [name])[0] for name in relations},
        "splits": facts,
        "words": len(rows),
        "vectors": {"file": files["vectors"].name, "width": vectors.shape[1]},
        "notes": _notes(counts, facts, files["vectors"].name),
    }


def _read_relations(path: Path) -> _Relations:
    shape = Annotated[dict[str, Annotated[list[Any], bool]], bool]
    content = _read_json(path, shape, "{relation: [sentence, ...]}")
    return {name: _parse_sentences(path, name, items) for name, items in content.items()}


def _read_json(path: Path, shape: Any, rule: str) -> Any:
    try:
        content = artefact.parse(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is not complete JSON ({error}). {_REMEDY}") from error
    if not artefact.fits(content, shape):
        raise InvalidInput(f"{path} must hold {rule}, got {brief(content)}. {_REMEDY}")
    return content


def _parse_sentences(path: Path, relation: str, items: list[Any]) -> list[_Sentence]:
    sentences = []
    for number, item in enumerate(items, start=1):
        try:
            sentences.append(_parse_sentence(item))
        except (AttributeError, LookupError, TypeError, ValueError):
            where = f"{path}, relation {relation!r}, sentence {number} of {len(items)}"
            rule = '{"tokens": [word, ...], "h": [name, id, [[position, ...], ...]], "t": [...]}'
            raise InvalidInput(f"{where} must be {rule}, got {brief(item)}. {_REMEDY}") from None
    return sentences


def _parse_sentence(item: Any) -> _Sentence:
    """Return a sentence, with the first token of each entity's first mention."""
    tokens, head, tail = item["tokens"], item["h"][2][0][0], item["t"][2][0][0]
    is_inside = all(type(at) is int and 0 <= at < len(tokens) for at in (head, tail))
    if not is_inside or not isinstance(tokens, list):
        raise ValueError
    return [token.lower() for token in tokens], head, tail


def _embed_words(relations: _Relations, path: Path, progress: Progress) -> tuple[Array, _Rows]:
    """Return the vectors, with padding and unknown words first, and the row of each word."""
    sentences = [words for members in relations.values() for words, _, _ in members]
    used = {word for words in sentences for word in words[:_TOKENS]}
    words, vectors = _read_vectors(path, {word for word in used if word.strip()}, progress)
    if not words:
        raise InvalidInput(f"{path} has none of the {len(used)} lower-cased words of FewRel.")
    shared = vectors.mean(0, dtype=np.float64).astype(np.float32)  # (width,)
    rows = {word: row for row, word in enumerate(words, start=_UNKNOWN + 1)}
    return np.vstack([np.zeros_like(shared), shared, vectors]), rows


_NUMBER = rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_LINES = 1 << 14  # between two reports of progress


def _read_vectors(path: Path, words: set[str], progress: Progress) -> tuple[list[str], Array]:
    """Return which words a GloVe or word2vec text file has, in its order, and their vectors."""
    # A lone surrogate, which JSON can hold, occurs in no UTF-8 file.
    wanted = {word.encode(errors="surrogatepass") for word in words}
    vectors: dict[bytes, Array] = {}
    with path.open("rb") as file:
        width, stated = _read_shape(path, file.readline())
        number = skipped = int(stated is not None)
        if not skipped:
            file.seek(0)
        total, done = path.stat().st_size, file.tell()
        for number, line in enumerate(file, start=skipped + 1):
            word, *numbers = line.rstrip().rsplit(b" ", width)
            _, space, last = word.rpartition(b" ")
            has_more = space and re.fullmatch(_NUMBER, last)
            if len(numbers) < width or has_more or not line.endswith(b"\n"):
                raise _bad_line(path, number, f"be a word, {width} numbers and a line end", line)
            if word in wanted and word not in vectors:
                vectors[word] = _parse_vector(path, number, numbers)
            done += len(line)
            if number % _LINES == 0 or done == total:
                progress("reading word vectors", done, total)
    if stated not in (None, number - 1):
        raise InvalidInput(f"{path} must have {stated} words, got {number - 1}. {_REMEDY}")
    matrix = np.array([*vectors.values()], np.float32).reshape(-1, width)
    return [word.decode() for word in vectors], matrix


def _bad_line(path: Path, number: int, rule: str, got: object) -> InvalidInput:
    return InvalidInput(f"{path}, line {number} must {rule}, got {brief(got)}. {_REMEDY}")


def _read_shape(path: Path, line: bytes) -> tuple[int, int | None]:
    """Return the width of the vectors, and their number if the first line states it."""
    if header := re.fullmatch(rb"(\d+) (\d+)", line.rstrip()):
        return int(header[2]), int(header[1])
    if numbers := re.search(rb"(?: %b)+$" % _NUMBER, line.rstrip()):
        return numbers[0].count(b" "), None
    raise _bad_line(path, 1, "be a word and its numbers (unpack a packed file)", line)


def _parse_vector(path: Path, number: int, numbers: Sequence[bytes]) -> Array:
    with suppress(ValueError), np.errstate(over="ignore"):
        vector = np.array(numbers, np.float64).astype(np.float32)  # (width,)
        if np.isfinite(vector).all():
            return vector
    raise _bad_line(path, number, "hold finite numbers", numbers)


def _encode(sentences: Sequence[_Sentence], rows: Mapping[str, int]) -> Array:
    """Return the words of sentences and their positions relative to the entities."""
    x = np.full((len(sentences), _TOKENS, 3), _PADDING, np.int32)
    for row, (words, head, tail) in zip(x, sentences, strict=True):
        numbers = [rows.get(word, _UNKNOWN) for word in words[:_TOKENS]]
        positions = np.arange(len(numbers))
        entities = positions - min(head, _TOKENS), positions - min(tail, _TOKENS)
        row[: len(numbers)] = np.stack([numbers, *entities], axis=1)
    return x


def _describe(relations: _Relations, rows: Mapping[str, int]) -> dict[str, Any]:
    sentences = [words for members in relations.values() for words, _, _ in members]
    covered = [word in rows for words in sentences for word in words[:_TOKENS]]
    return {
        **cache.describe_counts([*map(len, relations.values())]),
        "tokens": len(covered),
        "covered": sum(covered) / len(covered),
        "cut": sum(len(words) > _TOKENS for words in sentences),
    }


def _notes(counts: Mapping[str, Any], facts: Mapping[str, Any], vectors: str) -> list[str]:
    """Describe where the files differ from those published, and which words lack a vector."""
    other = {s: n for s, n in _PUBLISHED.items() if counts[s] != [_SENTENCES] * n}
    published = f"relations of {_SENTENCES} sentences"
    different = [f"{split} was published as {n} {published}" for split, n in other.items()]
    uncovered = [
        f"{vectors} covers only {facts[split]['covered']:.0%} of the tokens of {name}; the others "
        "share one vector: use vectors of lower-cased English words, such as glove.6B.50d.txt"
        for split, name in _SPLITS.items()
        if facts[split]["covered"] < 0.5
    ]
    return different + uncovered

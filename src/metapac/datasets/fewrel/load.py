"""FewRel 1.0: sentences that state a relation between two entities, 700 of each relation."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from metapac import _checks
from metapac._types import Array, Counts, PathLike, Progress, Seed
from metapac.datasets.fewrel.files import (
    SPLITS,
    Layout,
    Sentence,
    find_layout,
    read_names,
    read_relations,
)
from metapac.datasets.fewrel.glove import read_vectors
from metapac.datasets.store import cache
from metapac.exceptions import InvalidInput
from metapac.tasks.pools import ClassPool, Pools

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
    >>> from metapac.datasets import fewrel
    >>> from metapac.datasets.catalogue import get_data_set
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
    sizes = [_checks.as_whole_number(name, size, minimum=0) for name, size in parts.items()]
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
    """Return which files of FewRel are missing from a folder, and where to get them.

    Parameters
    ----------
    folder : path_like
        Folder with the published files.

    Returns
    -------
    list of str
        Sentences that say what is missing and what to do; empty if nothing is.
    """
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

    Parameters
    ----------
    folder : path_like
        Folder with the published files.
    glove : path_like, optional
        File of word vectors; by default one in the folder or one level below, preferably of 50
        numbers, as in the paper.
    home : path_like, optional
        See `metapac.datasets.store.cache.data_home`.
    progress : callable, optional
        Called as ``progress("reading word vectors", bytes_done, bytes_total)``.

    Returns
    -------
    Prepared
        ``x``, int32 (n, 128, 3); ``y``, the relation; ``split``; and ``words``, the vectors.

    Raises
    ------
    FileNotFoundError
        If files are missing.
    InvalidInput
        If a file is damaged, or both files share a relation.
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
    """Return the words of sentences and their positions relative to the entities.

    Parameters
    ----------
    sentences : sequence of Sentence
        Sentences.
    rows : mapping of str to int
        Row of each word in the word vectors.

    Returns
    -------
    ndarray of int32, shape (sentences, 128, 3)
        Row of the word, position relative to the head, position relative to the tail.
    """
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

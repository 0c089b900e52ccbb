"""FewRel 1.0: sentences that state a relation between two entities, 700 of each relation."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks
from metapac.datasets import cache
from metapac.datasets.fewrel_files import (
    SPLITS,
    Layout,
    Sentence,
    find_layout,
    read_names,
    read_relations,
)
from metapac.datasets.glove import read_vectors
from metapac.tasks._seeds import Seed
from metapac.tasks.pools import ClassPool, Pools

NAME = "fewrel"
TOKENS = 128  # of a sentence; what is beyond is cut off
PADDING, UNKNOWN = 0, 1  # the first two rows of the word vectors

_PUBLISHED, _SENTENCES = {"train": 64, "val": 16}, 700

Facts = dict[str, Any]
Floats = NDArray[np.float32]
Location = str | os.PathLike[str]


def fewrel(
    *, calibration: int = 16, validation: int = 0, rng: Seed = 0, home: cache.Home = None
) -> tuple[Pools[ClassPool], Floats]:
    """Return the prepared data as pools of relations, and the word vectors for SentenceCNN.

    The 16 relations of val_wiki are the test pool. Of the 64 of train_wiki, ``calibration`` many
    and then ``validation`` many are kept out of training: those with the most sentences first,
    since 500 of each are needed to calibrate as the paper does; of equals ``rng`` decides. (The
    paper calibrates on the 64 relations that training has seen; here the pools are disjoint.)

    An example is int32 (128, 3): the word's row in the vectors, and its position relative to the
    head and to the tail entity. Classes are named by relation id, such as P931.
    """
    data = cache.opened(NAME, home)
    relations = [name for split in SPLITS for name in data.facts["classes"][split]]
    counts = data.facts["counts"]["train"]
    parts = {"calibration": calibration, "validation": validation}
    sizes = [_checks.whole_number(name, size, least=0) for name, size in parts.items()]
    if sum(sizes) > len(counts):
        raise ValueError(
            f"calibration + validation must be at most {len(counts)}, the relations of "
            f"train_wiki.json, got {calibration} + {validation}."
        )
    dealt = np.split(_largest_first(counts, rng), np.cumsum(sizes))
    members = dict(zip([*parts, "train"], dealt, strict=True))
    members["test"] = np.arange(len(counts), len(relations))
    pools = {name: _pool(data, relations, own, name) for name, own in members.items() if len(own)}
    return Pools(**pools), np.array(data["words"])  # a copy: torch asks for memory it may write to


def _largest_first(counts: Sequence[int], rng: Seed) -> NDArray[np.int64]:
    ties = np.random.default_rng(rng).permutation(len(counts))
    return np.lexsort((ties, -np.asarray(counts)))


def _pool(data: cache.Prepared, relations: Sequence[str], own: ArrayLike, name: str) -> ClassPool:
    """Return the sentences of some relations; neighbours in the file are not copied from it."""
    rows = np.flatnonzero(np.isin(data["y"], own))
    together = rows[-1] - rows[0] == len(rows) - 1
    x = data["x"][rows[0] : rows[-1] + 1] if together else data["x"][rows]
    return ClassPool(x, np.array(relations)[data["y"][rows]], name=name)


def missing(folder: Location) -> list[str]:
    """Return what a folder lacks of FewRel, and where to get it; nothing if it can be prepared."""
    return find_layout(Path(folder)).missing()


def prepare(
    folder: Location,
    *,
    glove: Location | None = None,
    home: cache.Home = None,
    progress: cache.Progress | None = None,
) -> cache.Prepared:
    """Turn train_wiki.json, val_wiki.json and GloVe vectors into arrays in the cache.

    Words are lower-cased and looked up in the file ``glove``, by default one found in the folder
    or one level below: of several, one with 50 numbers a word, as in the paper. Words that it
    lacks, and tokens of white space, share the mean of the vectors found.

    Positions count from the first token of an entity's first mention. An entity beyond the 128
    tokens kept counts as the token right behind them: none of those kept stands in for it.
    ``progress`` is told bytes of the vector file.
    """
    if glove is not None and not Path(glove).is_file():
        raise FileNotFoundError(
            errno.ENOENT,
            "glove must be a GloVe text file, such as glove.6B.50d.txt. Correct the path, or leave "
            "it out to take the file found in the folder",
            str(glove),
        )
    layout = find_layout(Path(folder), None if glove is None else Path(glove))
    lacks = layout.missing()
    if lacks:
        raise FileNotFoundError(errno.ENOENT, " ".join(lacks), str(folder))
    return cache.prepare(
        NAME, layout.files(), lambda writer: _fill(writer, layout, progress), home=home
    )


def _fill(writer: cache.Writer, layout: Layout, progress: cache.Progress | None) -> Facts:
    splits = {split: read_relations(path) for split, path in layout.relations.items()}
    _refuse_shared(splits["train"], splits["val"])
    relations = {name: own for split in splits.values() for name, own in split.items()}
    vectors, rows = _look_up(relations.values(), layout.vectors, progress)
    writer.append("words", vectors)
    for number, sentences in enumerate(relations.values()):
        writer.append("x", encode(sentences, rows))
        writer.append("y", np.full(len(sentences), number, np.int16))
    for number, split in enumerate(splits.values()):
        writer.append("split", np.full(sum(map(len, split.values())), number, np.int8))
    names = read_names(layout.names) if layout.names.is_file() else {}
    described = {split: _described(own, rows) for split, own in splits.items()}
    return {
        "classes": {split: list(own) for split, own in splits.items()},
        "counts": {split: [len(some) for some in own.values()] for split, own in splits.items()},
        "names": {relation: names.get(relation, relation) for relation in relations},
        "splits": described,
        "words": len(rows),
        "vectors": {"file": layout.vectors.name, "width": vectors.shape[1]},
        "notes": [*_unlike_published(splits), *_poor_cover(described, layout.vectors)],
    }


def _refuse_shared(train: Iterable[str], test: Iterable[str]) -> None:
    shared = sorted(set(train) & set(test))
    if shared:
        raise ValueError(
            f"{SPLITS['train']} and {SPLITS['val']} must not share a relation, got {shared[0]!r} "
            "in both: relations to test on must be new. Take both files from one source."
        )


def _look_up(
    relations: Iterable[Sequence[Sentence]], path: Path, progress: cache.Progress | None
) -> tuple[Floats, dict[str, int]]:
    """Return the vectors, those for padding and missing words first, and each word's row."""
    kept = {word for own in relations for sentence in own for word in sentence.words[:TOKENS]}
    found, vectors = read_vectors(path, {word for word in kept if word.strip()}, progress=progress)
    if not found:
        raise ValueError(
            f"{path} has none of the {len(kept)} words of FewRel. Use vectors of lower-cased "
            "English words, such as glove.6B.50d.txt."
        )
    shared = vectors.mean(0, dtype=np.float64).astype(np.float32)  # (width,)
    rows = {word: row for row, word in enumerate(found, start=UNKNOWN + 1)}
    return np.vstack([np.zeros_like(shared), shared, vectors]), rows


def encode(sentences: Sequence[Sentence], rows: Mapping[str, int]) -> NDArray[np.int32]:
    """Return word rows and positions relative to head and tail, (sentences, 128, 3)."""
    x = np.full((len(sentences), TOKENS, 3), PADDING, np.int32)
    for row, (words, head, tail) in zip(x, sentences, strict=True):
        kept = words[:TOKENS]
        row[: len(kept), 0] = [rows.get(word, UNKNOWN) for word in kept]
        row[: len(kept), 1] = np.arange(len(kept)) - min(head, TOKENS)
        row[: len(kept), 2] = np.arange(len(kept)) - min(tail, TOKENS)
    return x


def _described(relations: Mapping[str, Sequence[Sentence]], rows: Mapping[str, int]) -> Facts:
    sizes = [len(own) for own in relations.values()]
    sentences = [sentence.words for own in relations.values() for sentence in own]
    known = [word in rows for words in sentences for word in words[:TOKENS]]
    return {
        "classes": len(sizes),
        "examples": len(sentences),
        "smallest": min(sizes),
        "largest": max(sizes),
        "tokens": len(known),
        "covered": sum(known) / len(known),
        "cut": sum(len(words) > TOKENS for words in sentences),
    }


def _unlike_published(splits: Mapping[str, Mapping[Any, Sequence[Any]]]) -> list[str]:
    return [
        f"{split} was published as {relations} relations of {_SENTENCES} sentences"
        for split, relations in _PUBLISHED.items()
        if [len(own) for own in splits[split].values()] != [_SENTENCES] * relations
    ]


def _poor_cover(splits: Mapping[str, Facts], vectors: Path) -> list[str]:
    return [
        f"{vectors.name} covers only {facts['covered']:.0%} of the tokens of {SPLITS[split]}; the "
        "others share one vector: use vectors of lower-cased English words, such as "
        "glove.6B.50d.txt"
        for split, facts in splits.items()
        if facts["covered"] < 0.5
    ]

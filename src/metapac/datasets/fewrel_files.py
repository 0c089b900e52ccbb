"""The published files of FewRel: where they lie, and sentences read from them with every check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from metapac.datasets.glove import choose_vectors

SPLITS = {"train": "train_wiki.json", "val": "val_wiki.json"}
REMEDY = "Delete it and run 'metapac data fetch fewrel' again."

_FEWREL = "https://github.com/thunlp/FewRel, folder data"
_GLOVE = "https://nlp.stanford.edu/data/glove.6B.zip, unpacked"
_SHAPE = '{"tokens": [...], "h": [name, id, [[position, ...], ...]], "t": [...]}'


@dataclass(frozen=True)
class Layout:
    """Where the files are, or would be."""

    relations: dict[str, Path]  # by split
    names: Path  # need not be there
    vectors: Path

    def missing(self) -> list[str]:
        """Return what is not there, and where to get it."""
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
    """Return what of FewRel is in a folder, or in the first folder in it that has some of it."""
    places = [folder, *sorted(path for path in folder.glob("*") if path.is_dir())]
    found = [place for place in places if any((place / name).is_file() for name in SPLITS.values())]
    place = found[0] if found else folder
    return Layout(
        {split: place / name for split, name in SPLITS.items()},
        place / "pid2name.json",
        vectors or choose_vectors([place, folder]) or place / "glove.6B.50d.txt",
    )


class Sentence(NamedTuple):
    """Lower-cased words, and the first token of each entity's first mention."""

    words: list[str]
    head: int
    tail: int


def read_relations(path: Path) -> dict[str, list[Sentence]]:
    """Return the sentences of each relation in a file, or say which one is not as it must be."""
    content = _read(path)
    if not isinstance(content, dict) or not content:
        raise ValueError(
            f"{path} must hold {{relation: [sentence, ...]}}, got {_shown(content)}. {REMEDY}"
        )
    return {relation: _sentences(path, relation, items) for relation, items in content.items()}


def read_names(path: Path) -> dict[str, str]:
    """Return the name of each relation, from a file of {relation: [name, description]}."""
    content = _read(path)
    entries = content.values() if isinstance(content, dict) else [None]
    if not all(isinstance(own, list) and own and isinstance(own[0], str) for own in entries):
        raise ValueError(
            f"{path} must hold {{relation: [name, description]}}, got {_shown(content)}. {REMEDY}"
        )
    return {relation: own[0] for relation, own in content.items()}


def _read(path: Path) -> Any:
    raw = path.read_bytes()
    if not raw:
        raise ValueError(f"{path} is empty. {REMEDY}")
    try:
        return json.loads(raw, object_pairs_hook=_distinct)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path} is not complete JSON: {error.msg} at line {error.lineno}, column "
            f"{error.colno}. {REMEDY}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON ({error}). {REMEDY}") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; a key that is there twice would lose what the first one holds."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} is there twice")
        found[key] = value
    return found


def _sentences(path: Path, relation: str, items: Any) -> list[Sentence]:
    if not isinstance(items, list) or not items:
        raise ValueError(
            f"{path}, relation {relation!r} must hold a list of sentences, got {_shown(items)}. "
            f"{REMEDY}"
        )
    sentences = []
    for number, item in enumerate(items, start=1):
        try:
            sentences.append(_sentence(item))
        except _Fault as fault:
            raise ValueError(
                f"{path}, relation {relation!r}, sentence {number} of {len(items)} {fault}. "
                f"{REMEDY}"
            ) from None
    return sentences


class _Fault(Exception):
    """What is wrong with one sentence."""


def _sentence(item: Any) -> Sentence:
    try:
        tokens, head, tail = item["tokens"], item["h"][2], item["t"][2]
    except (TypeError, LookupError):
        raise _Fault(f"must be {_SHAPE}, got {_shown(item)}") from None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise _Fault(f"must have tokens that are a list of strings, got {_shown(tokens)}")
    if not tokens:
        raise _Fault("has no tokens")
    words = [token.lower() for token in tokens]
    return Sentence(words, _first(head, "h", tokens), _first(tail, "t", tokens))


def _first(mentions: Any, entity: str, tokens: Sequence[str]) -> int:
    """Return the first token of an entity's first mention; all its mentions are checked."""
    try:
        positions = [position for mention in mentions for position in mention]
        first = mentions[0][0]
    except (TypeError, LookupError):
        positions, first = [None], None
    if not all(type(position) is int for position in positions):
        raise _Fault(
            f"must have {entity}[2] that is a list of mentions, each a list of positions, got "
            f"{_shown(mentions)}"
        )
    outside = [position for position in positions if not 0 <= position < len(tokens)]
    if outside:
        raise _Fault(
            f"must have positions of {entity} from 0 to {len(tokens) - 1}, its tokens, got "
            f"{outside[0]}"
        )
    return int(first)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:60] + " ..."

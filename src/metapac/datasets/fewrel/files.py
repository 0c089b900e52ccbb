"""The published files of FewRel: where they are, and the sentences in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from metapac import _checks
from metapac.datasets.fewrel.glove import choose_vectors
from metapac.exceptions import InvalidInput

SPLITS = {"train": "train_wiki.json", "val": "val_wiki.json"}
_REMEDY = "Delete it and run 'metapac data fetch fewrel' again."

_FEWREL = "https://github.com/thunlp/FewRel, folder data"
_GLOVE = "https://nlp.stanford.edu/data/glove.6B.zip, unpacked"
_SHAPE = '{"tokens": [...], "h": [name, id, [[position, ...], ...]], "t": [...]}'


@dataclass(frozen=True)
class Layout:
    """Paths of the files, whether they exist or not.

    Attributes
    ----------
    relations : dict of str to Path
        File of each split.
    names : Path
        Names of the relations; optional.
    vectors : Path
        Word vectors.
    """

    relations: dict[str, Path]
    names: Path
    vectors: Path

    def missing(self) -> list[str]:
        """Return which files are missing, and where to get them.

        Returns
        -------
        list of str
            One sentence for each missing file.
        """
        needed = [(path.name, path, _FEWREL) for path in self.relations.values()]
        needed += [("a GloVe text file such as glove.6B.50d.txt", self.vectors, _GLOVE)]
        return [
            f"{what} is missing: run 'metapac data fetch fewrel', or take it from {where}."
            for what, path, where in needed
            if not path.is_file()
        ]

    def files(self) -> list[Path]:
        """Return every file that is read.

        Returns
        -------
        list of Path
            The files that exist.
        """
        files = (*self.relations.values(), self.names, self.vectors)
        return [path for path in files if path.is_file()]


def find_layout(folder: Path, vectors: Path | None = None) -> Layout:
    """Find the files of FewRel in a folder, or in the first of its subfolders with some of them.

    Parameters
    ----------
    folder : Path
        The folder.
    vectors : Path, optional
        File of word vectors; by default see `choose_vectors`.

    Returns
    -------
    Layout
        Paths of the files.
    """
    places = [folder, *sorted(path for path in folder.glob("*") if path.is_dir())]
    matches = (p for p in places if any((p / name).is_file() for name in SPLITS.values()))
    place = next(matches, folder)
    return Layout(
        {split: place / name for split, name in SPLITS.items()},
        place / "pid2name.json",
        vectors or choose_vectors([place, folder]) or place / "glove.6B.50d.txt",
    )


class Sentence(NamedTuple):
    """A sentence that states a relation between two entities.

    Parameters
    ----------
    words : list of str
        Lower-cased words.
    head, tail : int
        First token of the first mention of each entity.
    """

    words: list[str]
    head: int
    tail: int


def read_relations(path: Path) -> dict[str, list[Sentence]]:
    """Read the sentences of each relation.

    Parameters
    ----------
    path : Path
        train_wiki.json or val_wiki.json.

    Returns
    -------
    dict of str to list of Sentence
        Sentences by relation.

    Raises
    ------
    InvalidInput
        If the file is damaged; the message names the sentence.
    """
    content = _read_json(path)
    if not isinstance(content, dict) or not content:
        raise InvalidInput(
            f"{path} must hold {{relation: [sentence, ...]}}, got {_checks.brief(content)}. "
            f"{_REMEDY}"
        )
    return {name: _parse_sentences(path, name, items) for name, items in content.items()}


def read_names(path: Path) -> dict[str, str]:
    """Read the names of the relations.

    Parameters
    ----------
    path : Path
        A file of {relation: [name, description]}.

    Returns
    -------
    dict of str to str
        Name of each relation.
    """
    content = _read_json(path)
    entries = content.values() if isinstance(content, dict) else [None]
    if not all(isinstance(pair, list) and pair and isinstance(pair[0], str) for pair in entries):
        raise InvalidInput(
            f"{path} must hold {{relation: [name, description]}}, got {_checks.brief(content)}. "
            f"{_REMEDY}"
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
            f"{_checks.brief(items)}. {_REMEDY}"
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
        raise _Fault(f"must be {_SHAPE}, got {_checks.brief(item)}") from None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise _Fault(f"must have tokens that are a list of strings, got {_checks.brief(tokens)}")
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
            f"{_checks.brief(mentions)}"
        )
    outside = [position for position in positions if not 0 <= position < len(tokens)]
    if outside:
        raise _Fault(
            f"must have positions of {entity} from 0 to {len(tokens) - 1}, its tokens, got "
            f"{outside[0]}"
        )
    return int(first)

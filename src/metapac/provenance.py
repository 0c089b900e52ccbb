"""Where scores come from: what a scored table says about its model and tasks.

A Parquet file stores it in its metadata, so that prediction can refuse scores of another model and
rows that were not scored.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import numpy as np

from metapac import artefact
from metapac._common import PathLike, require
from metapac._text import name_score
from metapac.errors import BadArtefact, InvalidInput


class _Content(TypedDict):
    rows: Annotated[int, lambda rows: rows >= 0]
    checksums: dict[str, artefact.Sha256]


class _Document(TypedDict):
    model: Annotated[str, len]
    score: Annotated[str, len]
    columns: dict[str, str | list[str | int]]
    details: dict[str, Any]
    content: NotRequired[_Content]


FORMAT = artefact.Format(
    "metapac provenance",
    written_by="'metapac score'",
    remedy="Score the tasks again. If you changed the table on purpose, write it with "
    "metapac.write_scores, or without its metadata.",
    shape=_Document,
)
_KEY = b"metapac"


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What a table of scores was computed from, and what its columns hold.

    Attributes
    ----------
    model : str
        Name of what gave the scores, such as "ProtoNet 3f2a9c1b04de, 5 ways, 5 shots". A guarantee
        holds for one model.
    score : str, default "probability"
        Score function.
    columns : mapping, optional
        Columns by what they hold: ``task``, ``label``, ``score`` (of the true label), ``columns``
        (scores of all labels), ``classes_column``, ``classes`` and ``id``.
    details : mapping, optional
        Further facts that JSON can hold, such as the seed and checksums.
    """

    model: str
    score: str = "probability"
    columns: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


def write_scores(path: PathLike, table: Mapping[str, Any], provenance: Provenance) -> None:
    """Write a table of scores and its provenance to a Parquet file.

    Parameters
    ----------
    path : str or path-like
        File to write; it is replaced atomically.
    table : mapping of str to array_like, or pyarrow.Table
        The columns.
    provenance : Provenance
        Where they come from.

    Examples
    --------
    >>> from metapac import write_scores
    >>> from metapac.provenance import Provenance
    >>> provenance = Provenance(model="ProtoNet", columns={"task": "task", "score": "score"})
    >>> table = {"task": ["ohio", "utah"], "score": [0.9, 0.1]}
    >>> write_scores("example.parquet", table, provenance)
    """
    arrow = require("pyarrow", extra="tables", purpose="writing Parquet")
    from pyarrow import parquet

    written = table if isinstance(table, arrow.Table) else arrow.table(dict(table))
    content = {"rows": len(written), "checksums": _digest_columns(written.to_batches())}
    body = artefact.as_json("provenance", {**vars(provenance), "content": content})
    metadata = {**(written.schema.metadata or {}), _KEY: json.dumps(artefact.sign(body, FORMAT))}
    with artefact.replacing(path, binary=True) as file:
        parquet.write_table(written.replace_schema_metadata(metadata), file, compression="zstd")


def read_provenance(path: PathLike) -> Provenance | None:
    """Return the provenance of the scores in a file.

    Parameters
    ----------
    path : str or path-like
        A file.

    Returns
    -------
    Provenance or None
        What `write_scores` wrote; None if the file is not Parquet or has no provenance.

    Raises
    ------
    BadArtefact
        If the provenance was edited or damaged.

    Examples
    --------
    >>> from metapac import read_provenance, write_scores
    >>> from metapac.provenance import Provenance
    >>> write_scores("example.parquet", {"score": [0.9, 0.1]}, Provenance(model="ProtoNet"))
    >>> read_provenance("example.parquet").model
    'ProtoNet'
    """
    document = _read_document(path)
    names = Provenance.__dataclass_fields__
    return None if document is None else Provenance(**{name: document[name] for name in names})


def _read_document(path: PathLike) -> dict[str, Any] | None:
    from pyarrow import ArrowException, parquet

    if Path(path).suffix.lower() not in (".parquet", ".pq") or not Path(path).is_file():
        return None
    try:
        metadata = parquet.read_schema(path).metadata or {}
    except (ArrowException, OSError):  # not Parquet: whoever reads the rows says so
        return None
    if _KEY not in metadata:
        return None
    try:
        document = artefact.parse(metadata[_KEY])
    except (ValueError, RecursionError) as error:
        raise artefact.inconsistent(path, FORMAT, "its metadata is not JSON") from error
    return artefact.verify(path, document, FORMAT)


def read_common_provenance(paths: Iterable[PathLike]) -> Provenance | None:
    """Return the common provenance of the scores in several files."""
    found = {str(path): read_provenance(path) for path in paths}
    if not any(found.values()):
        return None
    (first, origin), *_ = found.items()
    for path, other in found.items():
        if other is not None:
            _check_rows(path, artefact.file_version(path))
        if _identity(other) != _identity(origin):
            text = f"{first} was scored by {_describe(origin)}, and {path} by {_describe(other)}"
            raise InvalidInput(f"{text}. A guarantee holds for one model: pass files of one.")
    return origin


@functools.lru_cache(maxsize=1024)  # once for every state of a file
def _check_rows(path: str, _version: tuple[int, ...]) -> None:
    """Raise BadArtefact if the rows of a file are not those that its provenance is about."""
    from pyarrow import parquet

    document = _read_document(path) or {}
    content = document.get("content", {"rows": 0, "checksums": {}})  # 0.2.0 wrote none
    try:
        with parquet.ParquetFile(path) as file:
            batches = _check_scores(path, document["columns"], file.iter_batches(1 << 16))
            found = _digest_columns(batches)
    except BadArtefact:
        raise
    except Exception as error:  # of Arrow or NumPy, if the rows are damaged
        raise artefact.inconsistent(path, FORMAT, f"its rows cannot be read ({error})") from error
    for name, checksum in content["checksums"].items():
        if found.get(name, checksum) != checksum:
            reason = f"its {name.rstrip('[]')!r} is not that of the {content['rows']:,} rows scored"
            raise artefact.inconsistent(path, FORMAT, reason)


def _check_scores(path: str, columns: Mapping[str, Any], batches: Iterable[Any]) -> Iterator[Any]:
    """Yield batches, but raise BadArtefact if a true label's score is above that in the list.

    It may be below, because `metapac.fewshot.score_tasks` lowers it by a bound on rounding errors.
    """
    names = [columns.get(key) for key in ("score", "label", "columns")]
    names += [columns[key] for key in ("classes", "classes_column") if key in columns]
    for batch in batches:
        if all(name in batch.schema.names for name in names):
            score, label, lists, *named = (batch.column(name) for name in names)
            sizes = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
            rows = np.repeat(np.arange(len(sizes)), sizes)
            places = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            classes = np.array(named[0].flatten()) if named else places
            is_true = classes == np.array(label)[rows]
            if np.any(np.array(score)[rows[is_true]] > np.array(lists.flatten())[is_true]):
                reason = f"its {names[0]!r} is above the score of the label in {names[2]!r}"
                raise artefact.inconsistent(path, FORMAT, reason)
        yield batch


def _digest_columns(batches: Iterable[Any]) -> dict[str, str]:
    """Return the SHA-256 of every column; of lists, that of their lengths and of their values."""
    digests: dict[str, Any] = defaultdict(hashlib.sha256)
    for batch in batches:
        parts = [*zip(batch.schema.names, batch.columns, strict=True)]
        while parts:
            name, values = parts.pop()
            if hasattr(values, "value_lengths"):
                parts.append((f"{name}[]", values.flatten()))
                values = values.value_lengths()
            if str(values.type).startswith(("int", "uint", "float", "double")):
                raw = values.fill_null(0).to_numpy(zero_copy_only=False).tobytes()
            else:
                raw = "".join(f"{value!r}\n" for value in values.to_pylist()).encode()
            digests[name].update(raw)
    return {name: f"sha256:{digest.hexdigest()}" for name, digest in digests.items()}


def _identity(provenance: Provenance | None) -> Any:
    return provenance and (provenance.model, name_score(provenance.score), dict(provenance.columns))


def _describe(provenance: Provenance | None) -> str:
    if provenance is None:
        return "an unknown model"
    return f"{provenance.model!r} ({name_score(provenance.score)})"

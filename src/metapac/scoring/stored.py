"""Files of scores or embeddings with their provenance, in the safetensors format."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metapac import _checks, _document, _ids
from metapac._types import Array, PathLike

FORMAT = _document.Format(
    "metapac scores",
    written_by="metapac.scoring.store",
    remedy="Score the tasks again.",
    schema=2,
    oldest=2,
    shape="scores",
)

_ARRAYS = ("embeddings", "labels", "scores", "tasks")


@dataclass(frozen=True, eq=False)
class Stored:
    """Embeddings of a pool, or scores with their tasks, or both, and their provenance.

    Parameters
    ----------
    embeddings : ndarray, shape (n, d), optional
        Embeddings of the examples of a pool.
    labels : ndarray, shape (n,), optional
        Their labels.
    scores : ndarray, shape (m,), optional
        Scores of the true labels.
    tasks : ndarray, shape (m,), optional
        Task of each score.
    provenance : dict, optional
        What the arrays were computed from, as JSON can hold it.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.scoring import Stored
    >>> stored = Stored(scores=np.array([0.9, 0.1]), tasks=np.array(["ohio", "utah"]))
    >>> stored.scores.tolist(), stored.embeddings
    ([0.9, 0.1], None)
    """

    embeddings: Array | None = None
    labels: Array | None = None
    scores: Array | None = None
    tasks: Array | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, other in (("labels", "embeddings"), ("tasks", "scores")):
            array, reference = getattr(self, name), getattr(self, other)
            if array is not None and reference is not None:
                _checks.check_same_length(name, array, other, reference)

    def save(self, path: PathLike) -> None:
        """Write all arrays and their provenance to one file with a checksum.

        Parameters
        ----------
        path : str or path
            File to write, in the safetensors format. It is replaced atomically.
        """
        tensors: dict[str, Array] = {}
        names: dict[str, list[Any]] = {}
        for key in _ARRAYS:
            array = getattr(self, key)
            if array is not None and array.dtype.kind in "OUS":  # stored as indices of names
                distinct, array = np.unique(array, return_inverse=True)
                names[key] = _ids.as_json_names(distinct)
            if array is not None:
                tensors[key] = np.ascontiguousarray(array)
        provenance = _document.as_json("provenance", self.provenance)
        body = {"provenance": provenance, "names": names}
        _document.write_tensors(path, tensors, body, FORMAT)


def read_stored(path: PathLike) -> Stored:
    """Return what `store` or `Stored.save` wrote.

    Parameters
    ----------
    path : str or path
        File to read.

    Returns
    -------
    Stored
        The arrays and their provenance.

    Raises
    ------
    BadArtefact
        If the file was not written by `store`, was edited or damaged, or has another schema.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from metapac.scoring import Stored, read_stored
    >>> stored = Stored(scores=np.array([0.9, 0.1]), tasks=np.array(["ohio", "utah"]))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     stored.save(f"{folder}/scores.safetensors")
    ...     read_stored(f"{folder}/scores.safetensors").tasks.tolist()
    ['ohio', 'utah']
    """
    document, tensors = _document.read_tensors(path, FORMAT)
    try:
        for key, names in document["names"].items():
            tensors[key] = np.array(names)[tensors[key]]
        return Stored(**tensors, provenance=document["provenance"])
    except (LookupError, TypeError, ValueError) as error:
        reason = f"its arrays do not fit together ({type(error).__name__}: {error})"
        raise _document.inconsistent(path, FORMAT, reason) from error

"""Embeddings and scores of a run, computed once; a restart reads them from the run's folder."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from metapac import _document
from metapac.exceptions import BadArtefact
from metapac.learners.protonet import ProtoNet
from metapac.scoring.stored import Stored, read_stored


@dataclass(frozen=True)
class RunScores:
    """The stored arrays of a run.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    provenance : dict
        What all arrays depend on: the checksums of data and weights. Files with another provenance
        are replaced.
    """

    folder: Path
    provenance: dict[str, Any]

    def read_or_compute(self, name: str, compute: Callable[[], Stored], **settings: Any) -> Stored:
        """Return stored arrays; if they are missing, damaged or of another run, compute them.

        Parameters
        ----------
        name : str
            Name of the file, without its ending.
        compute : callable
            Computes the arrays.
        **settings
            What else these arrays depend on, as JSON can hold it.

        Returns
        -------
        Stored
            The arrays, which are then in the folder.
        """
        path = self.folder / f"{name}.safetensors"
        facts = self.provenance | {"arrays": name, **settings}
        wanted = _document.as_json("provenance", facts)
        try:
            found = read_stored(path)
        except (FileNotFoundError, BadArtefact):
            found = None
        if found is None or found.provenance != wanted:
            found = replace(compute(), provenance=wanted)
            found.save(path)
        return found

    def bank(self, name: str, learner: ProtoNet, x: Any) -> Any:
        """Return the bank of a pool, embedding its examples only if they are not stored.

        Parameters
        ----------
        name : str
            Name of the pool.
        learner : ProtoNet
            The learner.
        x : array_like
            Data of the pool.

        Returns
        -------
        PrototypeBank
            What ``learner.bank(x)`` returns.
        """
        stored = self.read_or_compute(
            f"{name}-embeddings", lambda: Stored(embeddings=learner.embed(x).cpu().numpy())
        )
        device = next(learner.module.parameters()).device
        embedded = copy.copy(learner)
        vars(embedded)["embed"] = lambda _x: torch.as_tensor(stored.embeddings).to(device)
        return embedded.bank(x)

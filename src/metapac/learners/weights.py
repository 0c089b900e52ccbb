"""The weights of a learner as one safetensors file that knows which learner they fit."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from metapac._version import __version__
from metapac.learners._backbone import describe
from metapac.learners.contract import Trainable
from metapac.persistence import BadArtefact

SCHEMA = 1
FORMAT = "metapac weights"
_NOTES = "metapac"

Where = str | os.PathLike[str]


def save_weights(learner: Trainable, path: Where) -> None:
    """Write the learner's weights as one safetensors file that knows their architecture."""
    notes = {
        "format": FORMAT,
        "schema": SCHEMA,
        "metapac": __version__,
        "architecture": architecture(learner),
    }
    state = {name: plain(tensor) for name, tensor in learner.module.state_dict().items()}
    # One key, since safetensors keeps no order of several: the same weights, the same bytes.
    replace(Path(path), safetensors.torch.save(state, metadata={_NOTES: json.dumps(notes)}))


def load_weights(learner: Trainable, path: Where) -> None:
    """Give the learner the weights that ``save_weights`` wrote for one of its architecture."""
    made, state = read_weights(path)
    refuse_other_architecture(path, made, learner)
    learner.module.load_state_dict(state)


def read_weights(path: Where) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the architecture and the weights in a file that ``save_weights`` wrote."""
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            notes = json.loads((file.metadata() or {}).get(_NOTES, "{}"))
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except safetensors.SafetensorError as error:
        raise BadArtefact(
            f"{path} is not a complete safetensors file ({error}); it may be truncated. "
            "Restore it from a backup, or train again."
        ) from error
    if notes.get("format") != FORMAT:
        raise BadArtefact(f"{path} holds no metapac weights. Pass a file that save_weights wrote.")
    refuse_newer(path, notes["schema"], notes["metapac"])
    return notes["architecture"], state


def architecture(learner: Trainable) -> dict[str, Any]:
    """Return what must be alike for weights to fit: classes, their arguments, number of weights."""
    own = getattr(learner, "describe", None)
    described = own() if callable(own) else {"backbone": describe(learner.module)}
    weights = sum(tensor.numel() for tensor in learner.module.state_dict().values())
    return {"class": type(learner).__name__, **described, "weights": weights}


def refuse_other_architecture(where: Where, stored: Mapping[str, Any], learner: Trainable) -> None:
    ours = json.loads(json.dumps(architecture(learner)))  # tuples become lists, as in the file
    if stored != ours:
        raise ValueError(
            f"{where} was made with {_words(stored)}, and this learner is {_words(ours)}. "
            "Build the learner that it was made with, or choose another place."
        )


def _words(description: Mapping[str, Any]) -> str:
    arguments = ", ".join(
        f"{name}={_words(value) if isinstance(value, Mapping) else repr(value)}"
        for name, value in description.items()
        if name != "class"
    )
    return f"{description.get('class')}({arguments})"


def plain(tensor: Tensor) -> Tensor:
    """Return a copy as a file can hold it: on the host, in order, sharing nothing."""
    return tensor.detach().cpu().contiguous().clone()


def refuse_newer(path: Where, schema: object, version: object) -> None:
    if not isinstance(schema, int) or schema > SCHEMA:
        raise BadArtefact(
            f"{path} has schema {schema!r}, written by metapac {version}; this is metapac "
            f"{__version__}, which reads schemas up to {SCHEMA}. Upgrade metapac."
        )


def replace(path: Path, content: bytes) -> None:
    # One fixed temporary name: what a killed process left is overwritten, and nothing piles up.
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)

"""A training run on disk: safetensors and JSON, the newest complete state always readable."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor
from torch.optim import Optimizer

from metapac._version import __version__
from metapac.learners.contract import Trainable
from metapac.learners.weights import (
    SCHEMA,
    Where,
    plain,
    refuse_newer,
    refuse_other_architecture,
    replace,
)
from metapac.persistence import BadArtefact, checksum

FORMAT = "metapac checkpoint"
INDEX = "checkpoint.json"


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the rest of a training run depends on."""

    architecture: Mapping[str, Any]
    settings: Mapping[str, Any]
    history: list[dict[str, Any]]
    weights: Mapping[str, Tensor]
    best: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]


def write(folder: Where, checkpoint: Checkpoint) -> None:
    """Make ``checkpoint`` the newest in ``folder``; until that is done the one before it stays.

    The tensors go first, under a name of their own, then the index that points to them is
    replaced in one move: killed at any moment, the process leaves an index with its tensors.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    tensors = safetensors.torch.save(
        {
            f"{part}/{name}": plain(tensor)
            for part in ("weights", "best", "optimiser")
            for name, tensor in getattr(checkpoint, part).items()
        }
    )
    name = f"epoch-{len(checkpoint.history):05d}.safetensors"
    replace(target / name, tensors)
    index = {
        "format": FORMAT,
        "schema": SCHEMA,
        "metapac": __version__,
        "architecture": checkpoint.architecture,
        "settings": checkpoint.settings,
        "history": checkpoint.history,
        "tensors": name,
        "tensors_sha256": hashlib.sha256(tensors).hexdigest(),
    }
    replace(target / INDEX, json.dumps(index | {"checksum": checksum(index)}, indent=1).encode())
    for old in target.glob("epoch-*.safetensors"):
        if old.name != name:
            old.unlink(missing_ok=True)


def read(folder: Where) -> Checkpoint | None:
    """Return the newest checkpoint in ``folder``, or None where no run has begun."""
    path = Path(folder) / INDEX
    if not path.exists():
        return None
    index = _read_index(path)
    parts: dict[str, dict[str, Tensor]] = {"weights": {}, "best": {}, "optimiser": {}}
    for key, tensor in _read_tensors(path.parent / index["tensors"], index).items():
        part, _, name = key.partition("/")
        parts[part][name] = tensor
    return Checkpoint(index["architecture"], index["settings"], index["history"], **parts)


def refuse_other(
    folder: Where,
    stored: Checkpoint,
    learner: Trainable,
    settings: Mapping[str, Any],
    epochs: int,
) -> None:
    """Refuse to go on with another learner, other arguments, or fewer epochs than there are."""
    refuse_other_architecture(folder, stored.architecture, learner)
    names = [name for name in settings if stored.settings.get(name) != settings[name]]
    if names:
        then, now = (
            ", ".join(f"{name}={side.get(name)!r}" for name in names)
            for side in (stored.settings, settings)
        )
        raise ValueError(
            f"{folder} was made with {then}, and this call has {now}. A run goes on only with the "
            "arguments it began with: pass those, or choose another folder."
        )
    if len(stored.history) > epochs:
        raise ValueError(
            f"{folder} holds {len(stored.history)} epochs and epochs={epochs} asks for fewer. Pass "
            "at least as many, or choose another folder."
        )


def optimiser_tensors(optimiser: Optimizer) -> dict[str, Tensor]:
    """Return the optimiser's state as named tensors: ``"0/exp_avg"`` and so on."""
    state = optimiser.state_dict()["state"]
    return {f"{i}/{name}": value for i in state for name, value in state[i].items()}


def set_optimiser(optimiser: Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give the optimiser the state that ``optimiser_tensors`` returned."""
    state: dict[int, dict[str, Tensor]] = defaultdict(dict)
    for key, value in tensors.items():
        i, _, name = key.partition("/")
        state[int(i)][name] = value.clone()
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": dict(state), "param_groups": groups})
    for parameter, own in optimiser.state.items():  # laid out like it, such as channels last
        for name, value in own.items():
            if value.shape == parameter.shape:
                own[name] = torch.empty_like(parameter).copy_(value)


def _read_index(path: Path) -> dict[str, Any]:
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # covers bad JSON and bad UTF-8
        raise _damaged(path, f"it is not complete JSON ({error})") from error
    if not isinstance(index, dict) or index.get("format") != FORMAT:
        raise BadArtefact(f"{path} is not a metapac checkpoint. Choose another folder.")
    refuse_newer(path, index.get("schema"), index.get("metapac"))
    if index.pop("checksum", None) != checksum(index):
        raise _damaged(path, "its checksum does not match its content")
    return index


def _read_tensors(path: Path, index: Mapping[str, Any]) -> dict[str, Tensor]:
    if not path.exists():
        raise _damaged(path, "the file is missing")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != index["tensors_sha256"]:
        raise _damaged(path, "its checksum is not the one in the index")
    tensors: dict[str, Tensor] = safetensors.torch.load(content)
    return tensors


def _damaged(path: Path, why: str) -> BadArtefact:
    return BadArtefact(
        f"{path} was edited or damaged: {why}. Restore the folder {path.parent} from a backup, or "
        "choose another one to train from the start."
    )

"""Tensor files: safetensors with a document in their metadata, whose checksum covers both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metapac import artefact
from metapac._common import PathLike, require
from metapac.artefact import Format
from metapac.errors import BadArtefact, InvalidInput

_METADATA = "__metadata__"  # the key that safetensors reserves in its header
_KEY = "metapac"
_CHECKSUM = "tensors_sha256"


def write_tensors(
    path: PathLike, tensors: Any, body: Mapping[str, Any], kind: Format, framework: str = "numpy"
) -> None:
    """Write NumPy or torch arrays with a document in their metadata, atomically."""
    header, data = _split(_safetensors(framework, kind).save(dict(tensors)))
    document = artefact.sign({**body, _CHECKSUM: _checksum(header, data)}, kind)
    # A single metadata key: safetensors does not preserve the order of several, and the same
    # content should give the same bytes.
    packed = json.dumps({_METADATA: {_KEY: json.dumps(document)}, **header}).encode()
    packed += b" " * (-len(packed) % 8)  # tensor data start at a multiple of 8 bytes
    with artefact.replacing(path, binary=True) as file:
        file.write(len(packed).to_bytes(8, "little") + packed)
        file.write(data)


def read_tensors(
    path: PathLike, kind: Format, framework: str = "numpy"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the document of a tensor file and its tensors, or raise ``BadArtefact``."""
    module = _safetensors(framework, kind)
    content = _read_content(path)
    try:
        header, data = _split(content)
        document = artefact.parse(header.pop(_METADATA)[_KEY])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        text = f"{path} is not a {kind.name} file, or is truncated. Pass one written by"
        raise BadArtefact(f"{text} {kind.written_by}. {kind.remedy}") from error
    # Only the oldest files have neither checksum; a file that has lost just one is damaged.
    old = isinstance(document, dict) and not {"checksum", _CHECKSUM} & document.keys()
    document = artefact.verify(path, document, kind)
    if not old and document.pop(_CHECKSUM, None) != _checksum(header, data):
        raise artefact.damaged(path, kind)
    try:
        return document, module.load(content)
    except Exception as error:  # safetensors raises errors of many types
        reason = f"no valid tensors ({type(error).__name__}: {artefact.first_line(error)})"
        raise artefact.inconsistent(path, kind, reason) from error


def data_checksum(*arrays: ArrayLike) -> str:
    """Return the SHA-256 of arrays: of their types, shapes and bytes."""
    digest = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        if array.dtype.hasobject:  # their bytes are addresses, different in every process
            text = f"arrays must hold numbers or text, got {array.dtype}"
            raise InvalidInput(f"{text}. Convert it, for example with .astype(str).")
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.data)
    return "sha256:" + digest.hexdigest()


def _safetensors(framework: str, kind: Format) -> Any:
    return require(f"safetensors.{framework}", extra="torch", purpose=f"a {kind.name} file")


def _read_content(path: PathLike) -> bytes:
    with Path(path).open("rb") as file:
        start = file.read(8)
        size = int.from_bytes(start, "little")
        return start if not 0 < size <= artefact.LARGEST else start + file.read()


def _split(content: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header and the data of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    header = artefact.parse(content[8 : 8 + size])
    return header, memoryview(content)[8 + size :]


def _checksum(header: Mapping[str, Any], data: memoryview) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    digest.update(data)
    return digest.hexdigest()

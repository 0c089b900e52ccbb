"""One envelope for all files that metapac writes: format, schema, version and checksum.

A document is JSON with one key per line. A tensor file is a safetensors file with a document in
its metadata; the document's checksum covers the tensors too.
"""

from __future__ import annotations

import hashlib
import json
import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metapac import _files, _optional
from metapac._types import PathLike
from metapac._version import __version__
from metapac._warnings import warn
from metapac.exceptions import BadArtefact, InvalidInput

_METADATA = "__metadata__"  # the key that safetensors reserves in its header
_KEY = "metapac"
_TENSORS = "tensors_sha256"


@dataclass(frozen=True)
class Format:
    """A kind of file: its name, what writes it, and what to do if a file is bad.

    Schemas from ``oldest`` to ``schema`` are read, and ``schema`` is written. ``unsigned`` accepts
    files without a checksum, with a warning.
    """

    name: str
    written_by: str
    remedy: str = "Write it again, or restore it from a backup."
    schema: int = 1
    oldest: int = 1
    unsigned: bool = False


def write(path: PathLike, body: Mapping[str, Any], kind: Format) -> None:
    """Write a document, replacing ``path`` atomically."""
    document = sign(body, kind)
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items()]
    with _files.replacing(path) as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: PathLike, kind: Format) -> dict[str, Any]:
    """Return the document in ``path`` without its checksum, or raise ``BadArtefact``."""
    text = Path(path).read_bytes()
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:  # bad JSON, bad UTF-8, or nested too deeply
        if not text.startswith(b"{"):
            raise _other_kind(path, kind) from error
        raise BadArtefact(
            f"{path} is not complete JSON ({error}); it may be truncated. {kind.remedy}"
        ) from error
    return verify(path, document, kind)


def write_tensors(
    path: PathLike,
    tensors: Mapping[str, Any],
    body: Mapping[str, Any],
    kind: Format,
    *,
    framework: str = "numpy",
) -> None:
    """Write tensors with a document in their metadata, replacing ``path`` atomically.

    ``tensors`` are dense arrays of ``framework``, "numpy" or "torch".
    """
    header, data = _split(_safetensors(framework, kind).save(dict(tensors)))
    document = sign({**body, _TENSORS: _tensor_checksum(header, data)}, kind)
    # A single metadata key: safetensors does not preserve the order of several, and the same
    # content should give the same bytes.
    packed = json.dumps({_METADATA: {_KEY: json.dumps(document)}, **header}).encode()
    packed += b" " * (-len(packed) % 8)  # tensor data start at a multiple of 8 bytes
    with _files.replacing(path, binary=True) as file:
        file.write(len(packed).to_bytes(8, "little"))
        file.write(packed)
        file.write(data)


def read_tensors(
    path: PathLike, kind: Format, *, framework: str = "numpy"
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the document of a tensor file and its tensors, or raise ``BadArtefact``."""
    module = _safetensors(framework, kind)
    content = Path(path).read_bytes()
    try:
        header, data = _split(content)
        document = json.loads(header.pop(_METADATA)[_KEY])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadArtefact(
            f"{path} is not a {kind.name} file, or is truncated. Pass a file written by "
            f"{kind.written_by}. {kind.remedy}"
        ) from error
    # Only the oldest files have neither checksum; a file that has lost just one is damaged.
    old = isinstance(document, dict) and not {"checksum", _TENSORS} & document.keys()
    document = verify(path, document, kind)
    if not old and document.pop(_TENSORS, None) != _tensor_checksum(header, data):
        raise _damaged(path, kind)
    try:
        return document, module.load(content)
    except Exception as error:  # safetensors raises errors of many types
        raise BadArtefact(
            f"{path} does not hold valid tensors ({type(error).__name__}: {error}). {kind.remedy}"
        ) from error


def sign(body: Mapping[str, Any], kind: Format) -> dict[str, Any]:
    """Return ``body`` in its envelope: format, schema and version before it, the checksum after."""
    document = {"format": kind.name, "schema": kind.schema, "metapac": __version__, **body}
    document["checksum"] = checksum(document)
    return document


def verify(path: PathLike, document: Any, kind: Format) -> dict[str, Any]:
    """Return a document without its checksum; raise ``BadArtefact`` if it cannot be trusted."""
    if not isinstance(document, dict) or document.get("format") != kind.name:
        raise _other_kind(path, kind)
    schema = document.get("schema")
    if type(schema) is not int or not kind.oldest <= schema <= kind.schema:
        raise _other_schema(path, document, kind)
    if kind.unsigned and "checksum" not in document:
        warn(
            f"{path} has no checksum, so damage would go unnoticed: it was written by an early "
            "version of metapac. Write it again to add one."
        )
        return document
    stated = document.pop("checksum", None)
    try:
        intact = stated == checksum(document)
    except ValueError:  # NaN or an infinity, which metapac never writes
        intact = False
    if not intact:
        raise _damaged(path, kind)
    return document


def checksum(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document as JSON, independent of the order of its keys."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def data_checksum(*arrays: ArrayLike) -> str:
    """Return the SHA-256 of arrays: of their types, shapes and bytes.

    Parameters
    ----------
    *arrays : array_like
        The arrays.

    Returns
    -------
    str
        The checksum.

    Examples
    --------
    >>> from metapac.evaluation import data_checksum
    >>> data_checksum([1, 2], [0.5])[:15]
    'sha256:cd532553'
    """
    digest = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        if array.dtype.hasobject:  # their bytes are addresses, different in every process
            raise InvalidInput(
                f"arrays must hold numbers or text, got {array.dtype}. Convert it, for example "
                "with .astype(str)."
            )
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.data)
    return "sha256:" + digest.hexdigest()


def as_json(name: str, value: Any) -> Any:
    """Return ``value`` as JSON reads it back: tuples become lists, keys become strings."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{name} must hold only values that JSON can store ({error}). Use numbers, strings, "
            "lists and dicts, and checksums of arrays."
        ) from error


def encode_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON can hold them: a mapping, whose keys may be numbers, as pairs."""
    return {name: _encode_parameter(value) for name, value in parameters.items()}


def _encode_parameter(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {"by_class": [[_python_scalar(k), float(x)] for k, x in value.items()]}
    value = _python_scalar(value)
    if isinstance(value, bool | int) or not isinstance(value, numbers.Real):
        return value
    return float(value)


def decode_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that ``encode_parameters`` prepared for JSON."""
    return {
        name: dict(value["by_class"]) if isinstance(value, dict) else value
        for name, value in parameters.items()
    }


def encode_floats(values: Any) -> Any:
    """Return a float, or nested lists of floats, as JSON can hold them: infinities as strings."""
    if isinstance(values, list):
        return [encode_floats(value) for value in values]
    return values if values not in (float("inf"), float("-inf")) else str(values)


def _python_scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value  # NumPy scalars


def _safetensors(framework: str, kind: Format) -> Any:
    return _optional.require(
        f"safetensors.{framework}", extra="torch", purpose=f"a {kind.name} file"
    )


def _split(content: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header and the data of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    return header, memoryview(content)[8 + size :]


def _tensor_checksum(header: Mapping[str, Any], data: memoryview) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    digest.update(data)
    return digest.hexdigest()


def _other_kind(path: PathLike, kind: Format) -> BadArtefact:
    return BadArtefact(
        f"{path} is not a {kind.name} file. Pass a file written by {kind.written_by}."
    )


def _other_schema(path: PathLike, document: Mapping[str, Any], kind: Format) -> BadArtefact:
    schema, version = document.get("schema"), document.get("metapac")
    is_older = type(schema) is int and schema < kind.oldest
    bound = f"from {kind.oldest} on" if is_older else f"up to {kind.schema}"
    return BadArtefact(
        f"{path} has schema {schema!r}, written by metapac {version}; this is metapac "
        f"{__version__}, which reads schemas {bound}. "
        f"{kind.remedy if is_older else 'Upgrade metapac.'}"
    )


def _damaged(path: PathLike, kind: Format) -> BadArtefact:
    return BadArtefact(
        f"{path} was edited or damaged: its checksum does not match its content. {kind.remedy}"
    )

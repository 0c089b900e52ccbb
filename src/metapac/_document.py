"""One envelope for all files that metapac writes: format, schema, version and checksum.

A document is JSON with one key per line. A tensor file is a safetensors file with a document in
its metadata; the document's checksum covers the tensors too.
"""

from __future__ import annotations

import hashlib
import json
import numbers
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metapac import _files, _optional, _schema
from metapac._checks import brief
from metapac._types import PathLike
from metapac._version import __version__
from metapac._warnings import warn
from metapac.exceptions import BadArtefact, InvalidInput, Parameter

_METADATA = "__metadata__"  # the key that safetensors reserves in its header
_KEY = "metapac"
_TENSORS = "tensors_sha256"
_LARGEST = 2**31  # bytes of JSON; a promise of a million tasks at 13 levels has a quarter of it
_DEEPEST = 64  # lists and objects inside each other


@dataclass(frozen=True)
class Format:
    """A kind of file: its name, what writes it, and what to do if a file is bad.

    Schemas from ``oldest`` to ``schema`` are read, and ``schema`` is written. ``unsigned`` accepts
    files without a checksum, with a warning. ``shape`` names the JSON Schema in
    ``metapac/schemas`` that a document has to satisfy, once ``upgrade`` has given a document of an
    older version its present form.
    """

    name: str
    written_by: str
    remedy: str = "Write it again, or restore it from a backup."
    schema: int = 1
    oldest: int = 1
    unsigned: bool = False
    shape: str | None = None
    upgrade: Callable[[dict[str, Any]], dict[str, Any]] = lambda document: document


def write(path: PathLike, body: Mapping[str, Any], kind: Format) -> None:
    """Write a document, replacing ``path`` atomically."""
    document = sign(body, kind)
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items()]
    with _files.replacing(path) as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: PathLike, kind: Format) -> dict[str, Any]:
    """Return the document in ``path`` without its checksum, or raise ``BadArtefact``."""
    with Path(path).open("rb") as file:
        text = file.read(1)
        if text != b"{":
            swapped = "Were the promise and the table swapped?"
            raise _other_kind(path, kind, swapped if kind.name == "metapac promise" else "")
        text += file.read(_LARGEST)
    if len(text) > _LARGEST:
        raise BadArtefact(f"{path} has more than {_LARGEST} bytes, which no {kind.name} file has.")
    try:
        document = _parse(text)
    except InvalidInput as error:
        raise inconsistent(path, kind, error) from error
    except (ValueError, RecursionError) as error:  # bad JSON, bad UTF-8, or nested too deeply
        raise BadArtefact(
            f"{path} is not complete JSON ({_first_line(error)}); it may be truncated. "
            f"{kind.remedy}"
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
    content = _read_tensor_file(path)
    try:
        header, data = _split(content)
        document = _parse(header.pop(_METADATA)[_KEY])
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
            f"{path} does not hold valid tensors ({type(error).__name__}: {_first_line(error)}). "
            f"{kind.remedy}"
        ) from error


def sign(body: Mapping[str, Any], kind: Format) -> dict[str, Any]:
    """Return ``body`` in its envelope: format, schema and version before it, the checksum after."""
    document = {"format": kind.name, "schema": kind.schema, "metapac": __version__, **body}
    document["checksum"] = checksum(document)
    return document


def verify(path: PathLike, document: Any, kind: Format) -> dict[str, Any]:
    """Return a document without its checksum; raise ``BadArtefact`` if it cannot be trusted."""
    if not isinstance(document, dict) or document.get("format") != kind.name:
        found = str(document.get("format")) if isinstance(document, dict) else ""
        is_ours = found.startswith("metapac ") and found.isprintable() and len(found) < 40
        raise _other_kind(path, kind, f"This is a {found} file." if is_ours else "")
    if _is_deep(document):
        raise BadArtefact(
            f"{path} has more than {_DEEPEST} lists inside each other, which no {kind.name} file "
            f"has. {kind.remedy}"
        )
    schema = document.get("schema")
    if type(schema) is not int or not kind.oldest <= schema <= kind.schema:
        raise _other_schema(path, document, kind)
    if kind.unsigned and "checksum" not in document:
        warn(
            f"{path} has no checksum, so damage would go unnoticed: it was written by an early "
            "version of metapac. Write it again to add one."
        )
        return _check_shape(path, document, kind)
    stated = document.pop("checksum", None)
    try:
        intact = stated == checksum(document)
    except ValueError:  # NaN or an infinity, which metapac never writes
        intact = False
    if not intact:
        raise _damaged(path, kind)
    return _check_shape(path, document, kind)


def _check_shape(path: PathLike, document: dict[str, Any], kind: Format) -> dict[str, Any]:
    """Return a document in its present form, once it satisfies the JSON Schema of its format."""
    document = kind.upgrade(document)
    if kind.shape is not None:
        try:
            _schema.check(document, _schema.load_schema(kind.shape))
        except _schema.Fault as fault:
            raise inconsistent(path, kind, fault) from fault
    return document


def inconsistent(path: PathLike, kind: Format, reason: object) -> BadArtefact:
    """Return the error for a document that is intact, but cannot have been written by metapac."""
    text = str(reason)
    return BadArtefact(
        f"{path} is not a valid {kind.name} file: {text}{'' if text.endswith('.') else '.'} "
        f"{kind.remedy}"
    )


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
        name: _decode_by_class(name, value["by_class"]) if isinstance(value, dict) else value
        for name, value in parameters.items()
    }


def _decode_by_class(name: str, pairs: list[Any]) -> dict[Any, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise InvalidInput("{} gives a class two values: {}.", Parameter(name), brief(pairs))
    return values


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


def _parse(text: str | bytes) -> Any:
    return json.loads(text, object_pairs_hook=_build_object)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; a key that occurs twice would mean one thing here and another elsewhere."""
    result = dict(pairs)
    if len(result) < len(pairs):
        [(key, _count)] = Counter(key for key, _value in pairs).most_common(1)
        raise InvalidInput(f"key {key!r} occurs twice.")
    return result


def _is_deep(document: dict[str, Any]) -> bool:
    layer: list[Any] = [document]
    for _ in range(_DEEPEST):
        children = [node.values() if isinstance(node, dict) else node for node in layer]
        if not {dict, list} & set(map(type, chain.from_iterable(children))):
            return False
        layer = [each for each in chain.from_iterable(children) if isinstance(each, dict | list)]
    return True


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")


def _read_tensor_file(path: PathLike) -> bytes:
    """Return the bytes of a safetensors file; only the size of the header if it cannot be one."""
    with Path(path).open("rb") as file:
        start = file.read(8)
        size = int.from_bytes(start, "little")
        return start if not 0 < size <= _LARGEST else start + file.read()


def _split(content: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the header and the data of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    header = _parse(content[8 : 8 + size])
    return header, memoryview(content)[8 + size :]


def _tensor_checksum(header: Mapping[str, Any], data: memoryview) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    digest.update(data)
    return digest.hexdigest()


def _other_kind(path: PathLike, kind: Format, hint: str = "") -> BadArtefact:
    return BadArtefact(
        f"{path} is not a {kind.name} file. Pass a file written by {kind.written_by}."
        f"{hint and f' {hint}'}"
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

"""A calibrated object as a JSON file: versioned, checksummed, written all at once or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import numbers
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from metapac._version import __version__

SCHEMA = 1
FORMAT = "metapac promise"
SITE = "metapac site"
_WRITTEN_BY = {FORMAT: ".save() or by 'metapac calibrate -o'", SITE: "'metapac site -o'"}


class BadArtefact(ValueError):
    """A file that is not, or no longer, what metapac wrote."""


def write(path: str | os.PathLike[str], body: dict[str, Any], kind: str = FORMAT) -> None:
    """Write ``body`` with its format, versions and checksum, a line a key, replacing ``path``."""
    document = {"format": kind, "schema": SCHEMA, "metapac": __version__, **body}
    document["checksum"] = checksum(document)
    with replacing(path) as file:
        lines = [f"{json.dumps(key)}: {json.dumps(document[key])}" for key in document]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: str | os.PathLike[str], kind: str = FORMAT) -> dict[str, Any]:
    """Return what ``write`` wrote, or say why the file cannot be trusted."""
    text = Path(path).read_bytes()
    try:
        document = json.loads(text)
    except ValueError as error:  # covers bad JSON and bad UTF-8
        if not text.startswith(b"{"):
            raise _of_another_kind(path, kind) from error
        raise BadArtefact(
            f"{path} is not complete JSON ({error}); it may be truncated. "
            "Write it again, or restore the file from a backup."
        ) from error
    if not isinstance(document, dict) or document.get("format") != kind:
        raise _of_another_kind(path, kind)
    if not isinstance(document.get("schema"), int) or document["schema"] > SCHEMA:
        raise BadArtefact(
            f"{path} has schema {document.get('schema')!r}, written by metapac "
            f"{document.get('metapac')}; this is metapac {__version__}, which reads schemas up "
            f"to {SCHEMA}. Upgrade metapac."
        )
    if document.pop("checksum", None) != checksum(document):
        raise BadArtefact(
            f"{path} was edited or damaged: its checksum does not match its content. "
            "Write it again, or restore it from a backup."
        )
    return document


def _of_another_kind(path: str | os.PathLike[str], kind: str) -> BadArtefact:
    return BadArtefact(f"{path} is not a {kind}. Pass a file written by {_WRITTEN_BY[kind]}.")


def checksum(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a document as JSON, whatever the order of its keys."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def refuse_input(path: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse to write over what is read."""
    own = Path(path)
    if own.exists() and any(Path(each).exists() and own.samefile(each) for each in inputs):
        raise ValueError(f"{path} is also the input. Write to another file.")


@contextmanager
def replacing(path: str | os.PathLike[str], *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a file that takes the place of ``path`` only when it was written to the end.

    A link is followed, and what is no plain file, such as a pipe, is written to as it is.
    """
    with replacing_path(path) as temporary, _open(temporary, binary) as file:
        yield file


@contextmanager
def replacing_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Lend a free name beside ``path``; the file written there takes its place at the end."""
    if Path(path).exists() and not Path(path).is_file():
        yield Path(path)
        return
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "folder does not exist; create it first", str(target.parent)
        )
    temporary = target.with_name(f".{secrets.token_hex(8)}.partial")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _open(path: Path, binary: bool) -> IO[Any]:
    if binary:
        return path.open("wb")
    return path.open("w", encoding="utf-8", newline="")


def plain(parameter: Any) -> Any:
    """Return a parameter as JSON can hold it: a mapping, whose keys may be numbers, as pairs."""
    if isinstance(parameter, Mapping):
        return {"by_class": [[_plain_scalar(k), float(x)] for k, x in parameter.items()]}
    parameter = _plain_scalar(parameter)
    if isinstance(parameter, bool | int) or not isinstance(parameter, numbers.Real):
        return parameter
    return float(parameter)


def _plain_scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value  # NumPy's own kinds


def restored(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that ``plain`` made ready for JSON."""
    return {
        name: dict(value["by_class"]) if isinstance(value, dict) else value
        for name, value in parameters.items()
    }


def encode_all(values: Any) -> Any:
    """Return nested lists of floats as JSON can hold them."""
    return [encode_all(each) for each in values] if isinstance(values, list) else encode(values)


def encode(value: float) -> float | str:
    """Return a float as JSON can hold it: infinities as the strings ``float`` reads back."""
    return value if value not in (float("inf"), float("-inf")) else str(value)

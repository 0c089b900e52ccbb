"""Files: JSON with checksums, atomic replacement, one lock, limits on what files unpack to.

A document is JSON with one key per line. What reads a document decodes it within `decoding`, and
either encodes the result again and compares (`check_written`), or names the type of each key in a
TypedDict (`Format.shape`).

Work in progress lives in a hidden folder ``.NAME.HEX.partial`` beside its target. Only its owner
can read that folder, and the process that writes there holds a lock on it. A lock ends with its
process, so the next one that writes to the same folder can tell what killed ones left behind.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import numbers
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import tempfile
import threading
import time
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Literal, NotRequired

from metapac._common import LARGEST_COUNT, PathLike, brief, warn
from metapac._version import __version__
from metapac.errors import BadArchive, BadArtefact, EngineError, InvalidInput

try:
    import fcntl
except ImportError:  # Windows has no such locks: nothing is kept apart there
    fcntl = None  # type: ignore[assignment]

LOCK = ".metapac.lock"
_LEFTOVER = r"\..+\.[0-9a-f]{16}\.partial"  # any name that temporary_name returns
_DAY = 24 * 3600  # seconds; where there are no locks, nobody works on what is older
_NAMELESS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


@contextmanager
def replacing(path: PathLike, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a file that takes the place of ``path`` once it is complete.

    A link is followed. Anything that is not a regular file, such as a pipe, is written directly.
    """
    text: dict[str, Any] = {} if binary else {"encoding": "utf-8", "newline": ""}
    mode = "wb" if binary else "w"
    with replacing_path(path) as temporary, temporary.open(mode, **text) as file:
        yield file


@contextmanager
def replacing_path(path: PathLike) -> Iterator[Path]:
    """Yield the name of a new file; what is written there takes the place of ``path``."""
    if Path(path).exists() and not Path(path).is_file():
        with _naming(path, Path(path)):
            yield Path(path)
        return
    target = _follow(path)
    check_folder(target.parent)
    with _naming(path, target.with_name(_hidden(target))), _staging(target) as temporary:
        yield temporary
        with temporary.open("rb+") as written:  # Windows syncs only what is open for writing
            os.fsync(written.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
        _sync_folder(target.parent)


@contextmanager
def new_folder(path: PathLike, *, create: bool = True, exist_ok: bool = False) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to ``path`` at the end.

    With ``create=False`` the caller creates the temporary folder. With ``exist_ok`` a folder that
    another process has put there in the meantime stays, and no error is raised.
    """
    target = Path(path)
    with _naming(path, target.with_name(_hidden(target))), _staging(target) as temporary:
        if create:
            temporary.mkdir()
        yield temporary
        _sync_folder(temporary)
        try:
            temporary.rename(target)
        except OSError:
            if not (exist_ok and target.is_dir()):
                raise
        _sync_folder(target.parent)


@contextmanager
def private_folder(prefix: str, parent: PathLike | None = None) -> Iterator[Path]:
    """Yield a new folder that only this user can read; it is deleted at the end.

    By default it is in the system's temporary folder. Folders of the same prefix whose processes
    were killed are deleted first.
    """
    place = Path(parent or tempfile.gettempdir())
    clear_leftovers(place, rf"{re.escape(prefix)}-[0-9a-f]{{16}}")
    with _locked_folder(place, f"{prefix}-") as folder:
        yield folder


def clear_leftovers(folder: Path, pattern: str = _LEFTOVER) -> None:
    """Delete folders of this user that match a pattern and whose processes were killed."""
    with suppress(OSError):  # a folder that cannot be listed
        for path in folder.iterdir():
            if re.fullmatch(pattern, path.name):
                with suppress(OSError):  # another process was faster
                    _delete_if_abandoned(path)


def check_folder(folder: Path) -> None:
    """Raise FileNotFoundError if a folder to write into does not exist."""
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "folder does not exist; create it first", str(folder))


def check_replaceable(path: PathLike, kind: Format) -> None:
    """Raise InvalidInput if there is another file, which would be lost."""
    if not Path(path).is_file():
        return
    with Path(path).open("rb") as file:
        start = file.read(100)
    if start and f'"{kind.name}"'.encode() not in start:
        text = f"output must not replace {os.fspath(path)}, which is no {kind.name} file"
        raise InvalidInput(f"{text}. Choose another name, or remove it.")


def check_not_input(path: PathLike, inputs: Iterable[PathLike]) -> None:
    """Raise InvalidInput if writing to ``path`` would overwrite an input."""
    target = Path(path)
    if not target.exists():
        return
    if any(Path(source).exists() and target.samefile(source) for source in inputs):
        raise InvalidInput(f"{path} is also the input. Write to another file.")


def temporary_name(target: Path) -> Path:
    """Return a new name beside ``target``, for what is not yet, or no longer, complete."""
    return target.with_name(f"{_hidden(target)}{secrets.token_hex(8)}.partial")


def file_version(path: PathLike) -> tuple[int, int, int]:
    """Return a key for what was read from a file, never the same for one that was just written."""
    status, now = Path(path).stat(), time.time_ns()
    is_new = now - status.st_mtime_ns < 2 * 10**9  # the next write may have the same time
    return status.st_size, status.st_mtime_ns, now if is_new else 0


def _follow(path: PathLike) -> Path:
    """Return what a path leads to, if it leads anywhere."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    return target


def _hidden(target: Path) -> str:
    return f".{target.name[:50]}."  # 50 characters of 4 bytes, and the rest, fit into 255 bytes


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """Yield a name in a private folder beside ``target``, so that moving it there is a rename."""
    clear_leftovers(target.parent)
    with _locked_folder(target.parent, _hidden(target), ".partial") as folder:
        yield folder / target.name


@contextmanager
def _locked_folder(parent: Path, start: str, end: str = "") -> Iterator[Path]:
    """Yield a new private folder ``startHEXend``, which is deleted at the end."""
    while True:
        folder = parent / f"{start}{secrets.token_hex(8)}{end}"
        folder.mkdir(mode=0o700)
        with _locked(folder) as locked:
            if locked is False:  # another process has taken it for a leftover
                continue
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            return


def _delete_if_abandoned(path: Path) -> None:
    """Delete a folder of this user that no process has locked."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or (fcntl and status.st_uid != os.geteuid()):
        return
    with _locked(path) as locked:
        if locked or (locked is None and _is_old(path)):
            shutil.rmtree(path, ignore_errors=True)


def _is_old(path: Path) -> bool:
    """Whether nothing was written for a day."""
    times = [p.lstat().st_mtime for p in (path, *path.rglob("*"))]
    return time.time() - max(times) > _DAY


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the operating system allows that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _naming(path: PathLike, hidden: Path) -> Iterator[None]:
    """Let errors of writing name ``path``, instead of nothing or what starts with ``hidden``."""
    try:
        yield
    except OSError as error:
        named = str(error.filename or "")
        if named.startswith(str(hidden)) or (not named and error.errno in _NAMELESS):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


@contextmanager
def lock_file(path: PathLike, purpose: str, *, wait: float) -> Iterator[None]:
    """Keep other processes from updating a file; wait some seconds for one that does."""
    target = _follow(path)
    check_folder(target.parent)
    with _locking(path, target.with_name(f"{_hidden(target)}lock"), purpose, wait):
        yield


@contextmanager
def lock_folder(path: PathLike, purpose: str) -> Iterator[None]:
    """Keep other processes out of the folder of a run; the same thread may lock it again."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with _locking(path, folder.resolve() / LOCK, purpose):
        for place in (folder, *(path for path in folder.iterdir() if path.is_dir())):
            clear_leftovers(place)
        yield


_held: set[tuple[int, int, Path]] = set()  # process, thread and lock file


@contextmanager
def _locking(path: PathLike, file: Path, purpose: str, wait: float = 0.2) -> Iterator[None]:
    """Hold a lock file, which says who holds it; where there are no locks, nothing is locked."""
    holder = (os.getpid(), threading.get_ident(), file)
    if fcntl is None or holder in _held:
        yield
        return
    with _naming(path, file):
        lock = _wait_for_lock(path, file, purpose, wait)
    with lock:
        _held.add(holder)
        lock.callback(_held.discard, holder)
        yield


def _wait_for_lock(path: PathLike, file: Path, purpose: str, wait: float) -> ExitStack:
    """Return the lock, which is released when it is closed."""
    since, end = time.strftime("%Y-%m-%d %H:%M"), time.monotonic() + wait
    while True:
        with ExitStack() as stack:
            if stack.enter_context(_locked(file, os.O_RDWR | os.O_CREAT)) is not False:
                stack.callback(file.unlink, missing_ok=True)
                who = f"process {os.getpid()} on {platform.node()} since {since} ({purpose})"
                file.write_text(who, "utf-8")
                return stack.pop_all()
        if time.monotonic() > end:
            raise InvalidInput(f"{path} is in use by {_read_holder(file)}. Wait for it to end.")
        time.sleep(0.02)


def _read_holder(file: Path) -> str:
    with suppress(OSError, ValueError):
        text = file.read_text("utf-8")
        if text.startswith("process ") and text.isprintable() and len(text) < 200:
            return text
    return "another process"


@contextmanager
def _locked(path: Path, flags: int = os.O_RDONLY) -> Iterator[bool | None]:
    """Lock a file or folder until the block, or the process, ends.

    Yield False if another process has locked or deleted it, and None if there are no locks here.
    """
    if fcntl is None:
        yield None
        return
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except FileNotFoundError:
        yield False
        return
    try:
        yield _try_lock(descriptor, path)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, path: Path) -> bool | None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(descriptor), path.lstat())  # not one made since then
    except FileNotFoundError:
        return False
    except OSError as error:
        return False if error.errno in (errno.EAGAIN, errno.EACCES) else None


Count = Annotated[int, lambda count: 0 <= count <= LARGEST_COUNT]
Size = Annotated[int, lambda size: 0 <= size <= 2**53]
Name = Annotated[str, len]
Sha256 = Annotated[str, re.compile(r"sha256:[0-9a-f]{64}").fullmatch]
_INFINITIES = (float("inf"), float("-inf"))
LARGEST = 2**31  # bytes of JSON; a promise of a million tasks at 13 levels has a quarter of it


@dataclass(frozen=True)
class Format:
    """A kind of file: its name, what writes it, and what to do if a file is bad.

    Schemas from ``oldest`` to ``schema`` are read, and ``schema`` is written. ``unsigned`` accepts
    files without a checksum, with a warning. ``upgrade`` gives a document of an older version its
    present form. ``shape`` is a TypedDict that documents have to fit; they may have other keys.
    """

    name: str
    written_by: str
    remedy: str = "Write it again, or restore it from a backup."
    schema: int = 1
    oldest: int = 1
    unsigned: bool = False
    shape: Any = None
    upgrade: Callable[[dict[str, Any]], dict[str, Any]] = lambda document: document


def write(path: PathLike, body: Mapping[str, Any], kind: Format) -> None:
    """Write a document, replacing ``path`` atomically."""
    document = sign(body, kind)
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items()]
    with replacing(path) as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: PathLike, kind: Format) -> dict[str, Any]:
    """Return the document in ``path`` without its checksum, or raise ``BadArtefact``."""
    with Path(path).open("rb") as file:
        text = file.read(1)
        if text != b"{":
            swapped = "Were the promise and the table swapped?"
            raise _other_kind(path, kind, swapped if kind.name == "metapac promise" else "")
        text += file.read(LARGEST)
    if len(text) > LARGEST:
        raise inconsistent(path, kind, f"it has more than {LARGEST} bytes")
    try:
        document = parse(text)
    except InvalidInput as error:
        raise inconsistent(path, kind, error) from error
    except (ValueError, RecursionError) as error:  # bad JSON, bad UTF-8, or nested too deeply
        reason = f"it is not complete JSON ({first_line(error)}) and may be truncated"
        raise inconsistent(path, kind, reason) from error
    return verify(path, document, kind)


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
    schema, version = document.get("schema"), document.get("metapac")
    if type(schema) is not int or not kind.oldest <= schema <= kind.schema:
        is_newer = type(schema) is int and schema > kind.schema
        seen = f"{path} has schema {brief(schema)}, written by metapac {brief(version)}"
        read = f"metapac {__version__} reads {kind.oldest} to {kind.schema}"
        raise BadArtefact(f"{seen}; {read}. {'Upgrade metapac.' if is_newer else kind.remedy}")
    if kind.unsigned and "checksum" not in document:
        warn(f"{path} has no checksum, so damage would go unnoticed. Write it again to add one.")
    elif not _is_intact(document):
        raise damaged(path, kind)
    with decoding(path, kind):
        if not isinstance(version, str):
            raise InvalidInput(f"metapac must be the version that wrote it, got {brief(version)}.")
        present = kind.upgrade(document)
        if kind.shape is not None:
            check_shape(present, kind.shape)
    return present


def _is_intact(document: dict[str, Any]) -> bool:
    """Take the checksum out of a document, and return whether it is right."""
    stated = document.pop("checksum", None)
    try:
        return bool(stated == checksum(document))
    except (ValueError, RecursionError):  # NaN, an infinity or depths that metapac never writes
        return False


@contextmanager
def decoding(path: PathLike, kind: Format) -> Iterator[None]:
    """Raise ``BadArtefact`` for whatever goes wrong when a document is decoded."""
    try:
        yield
    except BadArtefact:
        raise
    except ValueError as error:  # InvalidInput among them
        raise inconsistent(path, kind, first_line(error)) from error
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError) as error:
        reason = f"{type(error).__name__}: {first_line(error)}"
        raise inconsistent(path, kind, reason) from error


def check_written(document: Mapping[str, Any], written: Mapping[str, Any]) -> None:
    """Raise InvalidInput if what was decoded would be written as another document.

    Keys may be missing, which are optional then, and there may be other ones, but not further in.
    """
    for key, value in written.items():
        if key in document and not _is_same(document[key], value):
            raise InvalidInput(f"{key} is {brief(document[key])}, which means {brief(value)}.")


def _is_same(found: Any, written: Any) -> bool:
    """Whether two JSON values are the same; 1 and 1.0 are, 1 and true are not."""
    if isinstance(found, dict) and isinstance(written, dict):
        return found.keys() <= written.keys() and all(
            _is_same(value, written[key]) for key, value in found.items()
        )
    if isinstance(found, list) and isinstance(written, list) and len(found) == len(written):
        if {*map(type, found), *map(type, written)} <= {int, float, str}:  # often millions
            return found == written
        return all(map(_is_same, found, written))
    return bool(found == written) and isinstance(found, bool) == isinstance(written, bool)


def check_shape(document: Mapping[str, Any], shape: Any) -> None:
    """Raise InvalidInput unless a document fits a TypedDict; other keys are allowed at the top."""
    hints, required = _hints(shape)
    for key in sorted(required - document.keys()):
        raise InvalidInput(f"{key} is missing.")
    for key, value in document.items():
        if not fits(value, hints.get(key, Any)):
            raise InvalidInput(f"{key} cannot be {brief(value)}.")


@functools.cache
def _hints(shape: Any) -> tuple[dict[str, Any], set[str]]:
    """Return the types of the keys of a TypedDict, and the keys that must be there."""
    hints = typing.get_type_hints(shape, include_extras=True)
    optional = {key for key, hint in hints.items() if typing.get_origin(hint) is NotRequired}
    return hints, (hints.keys() - optional if shape.__total__ else set())


def fits(value: Any, hint: Any) -> bool:
    """Whether a JSON value is of a type; the other arguments of Annotated are conditions."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if typing.is_typeddict(hint):
        hints, required = _hints(hint)
        return (
            isinstance(value, dict)
            and required <= value.keys() <= hints.keys()
            and all(fits(item, hints[key]) for key, item in value.items())
        )
    if origin in (Annotated, NotRequired):
        return fits(value, arguments[0]) and all(holds(value) for holds in arguments[1:])
    if origin in (types.UnionType, typing.Union):
        return any(fits(value, argument) for argument in arguments)
    if origin is Literal:
        return type(value) is str and value in arguments
    if origin is list:
        return isinstance(value, list) and all(fits(item, arguments[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            fits(key, arguments[0]) and fits(item, arguments[1]) for key, item in value.items()
        )
    if hint is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    return hint is Any or type(value) is hint


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


def as_json(name: str, value: Any) -> Any:
    """Return ``value`` as JSON reads it back: tuples become lists, keys become strings."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        rule = f"{name} must hold only numbers, strings, lists and dicts, which JSON can store"
        raise InvalidInput(f"{rule} ({error}).") from error


def encode_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON can hold them: a mapping, whose keys may be numbers, as pairs."""
    return {
        name: {"by_class": [[_plain(label), float(rate)] for label, rate in value.items()]}
        if isinstance(value, Mapping)
        else _plain(value)
        for name, value in parameters.items()
    }


def decode_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that ``encode_parameters`` prepared for JSON."""
    decoded = dict(parameters)
    for name, value in parameters.items():
        if isinstance(value, dict):
            decoded[name] = dict(value["by_class"])
            if len(decoded[name]) < len(value["by_class"]):
                raise InvalidInput(f"{name} gives a class two values: {brief(value)}.")
    return decoded


def encode_floats(values: Any) -> Any:
    """Return a float, or nested lists of floats, as JSON can hold them: infinities as strings."""
    if isinstance(values, list):
        is_plain = values and not isinstance(values[0], list)
        if is_plain and not any(infinity in values for infinity in _INFINITIES):
            return values
        return [encode_floats(value) for value in values]
    return values if values not in _INFINITIES else str(values)


def _plain(value: Any) -> Any:
    """Return a number of any type as Python's."""
    value = value.item() if hasattr(value, "item") else value
    is_other = isinstance(value, numbers.Real) and not isinstance(value, int | float)
    return float(value) if is_other else value


def parse(text: str | bytes) -> Any:
    return json.loads(text, object_pairs_hook=_build_object)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; a key that occurs twice would mean one thing here and another elsewhere."""
    result = dict(pairs)
    if len(result) < len(pairs):
        raise InvalidInput(f"a key occurs twice among {brief([key for key, _ in pairs])}.")
    return result


def first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")


def _other_kind(path: PathLike, kind: Format, hint: str = "") -> BadArtefact:
    return BadArtefact(
        f"{path} is not a {kind.name} file. Pass one written by {kind.written_by}. {hint}".rstrip()
    )


def damaged(path: PathLike, kind: Format) -> BadArtefact:
    return BadArtefact(
        f"{path} was edited or damaged: its checksum does not match its content. {kind.remedy}"
    )


# Deflate shrinks one row of text, repeated, to 1/400, a sheet of constants to 1/13, and a bomb to
# 1/1032, its limit. Up to 128 MiB, anything goes.
_GZIP_RATIO, _ZIP_RATIO, _DEFLATE_RATIO, _ANY_RATIO = 500, 200, 1032, 1 << 27


def check_unpacked(path: Path) -> None:
    """Raise BadArchive if a .gz file unpacks to far more than its size; other files are ignored."""
    if path.suffix.lower() == ".gz" and path.stat().st_size * _DEFLATE_RATIO > _ANY_RATIO:
        all(read_unpacked(path))  # every part is true: all are read


def read_unpacked(path: PathLike) -> Iterator[tuple[str, bytes]]:
    """Yield what is in a .gz or zip file, with the names of members; raise as `check_ratio`."""
    done = 0
    try:
        for name, member in _open_members(Path(path)):
            while chunk := member.read(1 << 20):
                done += len(chunk)
                check_ratio(path, done)
                yield name, chunk
    except BadArchive:
        raise
    except Exception as error:  # gzip and zipfile raise errors of many types
        raise EngineError(f"{path} cannot be read ({error}). Copy or save it again.") from error


def _open_members(path: Path) -> Iterator[tuple[str, Any]]:
    import gzip  # rarely needed, as is zipfile
    import zipfile

    if path.suffix.lower() == ".gz":
        with gzip.open(path) as unzipped:
            yield "", unzipped
        return
    with zipfile.ZipFile(path) as zipped:
        for info in zipped.infolist():
            info.file_size = 1 << 62  # otherwise zipfile hides bytes beyond the stated size
            with zipped.open(info) as member:
                yield info.filename, member


def check_ratio(path: PathLike, unpacked: int) -> None:
    """Raise BadArchive if so many bytes are far more than the size of the file that held them."""
    packed = Path(path).stat().st_size
    ratio = _GZIP_RATIO if Path(path).suffix.lower() == ".gz" else _ZIP_RATIO
    if unpacked > max(_ANY_RATIO, ratio * packed):
        text = f"{path} unpacks to more than {unpacked // packed:,} times its {packed:,} bytes;"
        text += f" above {_ANY_RATIO >> 20} MiB, at most {ratio} times are read. If you trust it,"
        raise BadArchive(f"{text} unpack it yourself, or save a workbook as CSV.")

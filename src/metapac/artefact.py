"""Files that the library writes: JSON and tensors with checksums, atomic replacement, locks.

Work in progress lives in a hidden folder ``.NAME.HEX.partial`` beside its target. Only its owner
can read that folder, and the process that writes there holds a lock on it. The lock ends with the
process, so the next one that writes to the same folder can tell what killed ones left behind.

A document is JSON with one key per line. A tensor file is a safetensors file with a document in
its metadata; the document's checksum covers the tensors too.
"""

from __future__ import annotations

import errno
import functools
import gzip
import hashlib
import json
import math
import numbers
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import IO, Any

from metapac._common import PathLike, brief, require, warn
from metapac._version import __version__
from metapac.errors import BadArchive, BadArtefact, EngineError, InvalidInput

try:
    import fcntl
except ImportError:  # Windows has no such locks: nothing is kept apart there
    fcntl = None  # type: ignore[assignment]

AVAILABLE = fcntl is not None


def try_lock(descriptor: int, *, wait: bool = False) -> bool | None:
    """Lock an open file or folder until it is closed.

    Return False if another process holds the lock, and None if there are no locks here.
    """
    if not AVAILABLE:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        return False if error.errno in (errno.EAGAIN, errno.EACCES) else None
    return True


def is_same(descriptor: int, path: Path) -> bool:
    """Whether a path still leads to an open file or folder."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


_DAY = 24 * 3600  # seconds; where there are no locks, nobody works on what is older
LEFTOVER = r"\..+\.[0-9a-f]{16}\.partial"  # any name that temporary_name returns
# How much larger the content of a file may be. Deflate shrinks one row of text, repeated, to 1/400,
# a sheet of constants to 1/13, and a bomb to 1/1032, its limit. Up to 128 MiB, anything goes.
_GZIP_RATIO, _ZIP_RATIO, _DEFLATE_RATIO, _ANY_RATIO = 500, 200, 1032, 1 << 27
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
        with _naming(path):
            yield Path(path)
        return
    target = Path(path).resolve()
    check_folder(target.parent)
    with _naming(path), _staging(target) as temporary:
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
    with _naming(path), _staging(target) as temporary:
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


def clear_leftovers(folder: Path, pattern: str) -> None:
    """Delete folders whose names match a pattern, and whose processes were killed.

    Files, links, and folders of other users or of living processes stay.
    """
    with suppress(OSError):  # a folder that cannot be listed
        for path in folder.iterdir():
            if re.fullmatch(pattern, path.name):
                with suppress(OSError):  # another process was faster
                    _delete_if_abandoned(path)


def check_folder(folder: Path) -> None:
    """Raise FileNotFoundError if a folder to write into does not exist."""
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "folder does not exist; create it first", str(folder))


def check_not_input(path: PathLike, inputs: Iterable[PathLike]) -> None:
    """Raise InvalidInput if writing to ``path`` would overwrite an input."""
    target = Path(path)
    if not target.exists():
        return
    if any(Path(source).exists() and target.samefile(source) for source in inputs):
        raise InvalidInput(f"{path} is also the input. Write to another file.")


def temporary_name(target: Path) -> Path:
    """Return a new name beside ``target``, for what is not yet, or no longer, complete."""
    return target.with_name(f"{_start(target)}{secrets.token_hex(8)}.partial")


def _start(target: Path) -> str:
    return f".{target.name[:50]}."  # 50 characters of 4 bytes, and the rest, fit into 255 bytes


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """Yield a name in a private folder beside ``target``, so that moving it there is a rename."""
    clear_leftovers(target.parent, LEFTOVER)
    with _locked_folder(target.parent, _start(target), ".partial") as folder:
        yield folder / target.name


@contextmanager
def _locked_folder(parent: Path, start: str, end: str = "") -> Iterator[Path]:
    """Yield a new private folder ``startHEXend``, which is deleted at the end."""
    folder, lock = _create_locked(parent, start, end)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _close(lock)


def _create_locked(parent: Path, start: str, end: str) -> tuple[Path, int | None]:
    """Create a private folder and lock it; where there are no locks, return None for the lock."""
    while True:
        path = parent / f"{start}{secrets.token_hex(8)}{end}"
        path.mkdir(mode=0o700)
        if not AVAILABLE:
            return path, None
        # Until it is locked, another process may take it for a leftover: then make a new one.
        with suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try_lock(lock, wait=True)
            if is_same(lock, path):
                return path, lock
            os.close(lock)


def _close(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def _delete_if_abandoned(path: Path) -> None:
    """Delete a folder of this user that no process has locked."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return
    if not AVAILABLE:
        if _is_old(path):
            shutil.rmtree(path, ignore_errors=True)
        return
    if status.st_uid != os.geteuid():
        return
    lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        locked = try_lock(lock)
        if locked or (locked is None and _is_old(path)):
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


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
def _naming(path: PathLike) -> Iterator[None]:
    """Let errors of writing name ``path``, instead of a hidden temporary or nothing."""
    hidden = str(Path(path).resolve().parent / _start(Path(path).resolve()))
    try:
        yield
    except OSError as error:
        named = str(error.filename or "")
        if named.startswith(hidden) or (not named and error.errno in _NAMELESS):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise


def file_version(path: PathLike) -> tuple[int, int, int]:
    """Return a key for what was read from a file, never the same for one that was just written."""
    status, now = Path(path).stat(), time.time_ns()
    is_new = now - status.st_mtime_ns < 2 * 10**9  # the next write may have the same time
    return status.st_size, status.st_mtime_ns, now if is_new else 0


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
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as unzipped:
            yield "", unzipped
        return
    with zipfile.ZipFile(path) as zipped:
        for info in zipped.infolist():
            info.file_size = 1 << 62  # otherwise zipfile hides bytes beyond the stated size
            with zipped.open(info) as member:
                yield info.filename, member


def check_stated_size(path: PathLike) -> None:
    """Raise BadArchive if a zip file states far more bytes than its size; zipfile reads no more."""
    size = 0
    with suppress(Exception), zipfile.ZipFile(path) as zipped:  # whoever reads it explains
        size = sum(info.file_size for info in zipped.infolist())
    check_ratio(path, size)


def check_ratio(path: PathLike, unpacked: int) -> None:
    """Raise BadArchive if so many bytes are far more than the size of the file that held them."""
    packed = Path(path).stat().st_size
    ratio = _GZIP_RATIO if Path(path).suffix.lower() == ".gz" else _ZIP_RATIO
    if unpacked > max(_ANY_RATIO, ratio * packed):
        raise BadArchive(
            f"{path} unpacks to more than {unpacked // packed:,} times its {packed:,} bytes; above "
            f"{_ANY_RATIO >> 20} MiB, at most {ratio} times are read. If you trust it, unpack it "
            "yourself, or save a workbook as CSV."
        )


FILE = ".metapac.lock"
_held: set[tuple[int, int, Path]] = set()  # process, thread and folder


@contextmanager
def lock_folder(path: PathLike, purpose: str) -> Iterator[None]:
    """Keep other processes out of the folder of a run, which is created if necessary.

    The same thread may lock a folder again. Where the file system has no locks, nothing is locked.
    """
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    holder = (os.getpid(), threading.get_ident(), folder.resolve())
    if not AVAILABLE or holder in _held:
        yield
        return
    descriptor = _open_locked(folder, purpose)
    _held.add(holder)
    try:
        for place in (folder, *(path for path in folder.iterdir() if path.is_dir())):
            clear_leftovers(place, LEFTOVER)
        yield
    finally:
        _held.discard(holder)
        (folder / FILE).unlink(missing_ok=True)
        os.close(descriptor)


def _open_locked(folder: Path, purpose: str) -> int:
    """Return the open lock file of a folder, which says who holds it."""
    path = folder / FILE
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o644)
        try:
            if try_lock(descriptor) is False:
                raise _in_use(folder, os.read(descriptor, 4096))
            if is_same(descriptor, path):  # else its last holder has just deleted it
                os.ftruncate(descriptor, 0)
                os.write(descriptor, json.dumps(_describe_process(purpose)).encode())
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _describe_process(purpose: str) -> dict[str, Any]:
    return {
        "process": os.getpid(),
        "host": platform.node(),
        "since": time.time(),
        "command": purpose,
    }


def _in_use(folder: Path, description: bytes) -> InvalidInput:
    remedy = "Wait for it, or use another folder."
    try:
        holder = json.loads(description)
        who = (
            f"process {holder['process']:d} on {holder['host']} since "
            f"{_format_time(holder['since'])} ({holder['command']})"
        )
    except (ValueError, TypeError, KeyError, OverflowError, OSError):  # not yet, or badly, written
        who = "another process"
    if not who.isprintable():
        who = "another process"
    return InvalidInput(f"{folder} is in use by {who}. {remedy}")


def _format_time(seconds: float) -> str:
    """Return the time of day, with the date if it is not today."""
    then, now = time.localtime(seconds), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)


_TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "null": ("null", lambda value: value is None),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "string": ("a string", lambda value: isinstance(value, str)),
    "integer": ("a whole number", lambda value: _is_number(value) and value % 1 == 0),
    "number": ("a number", lambda value: _is_number(value)),
    "array": ("a list", lambda value: isinstance(value, list)),
    "object": ("an object", lambda value: isinstance(value, dict)),
}
_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("at least", lambda value, bound: value >= bound),
    "maximum": ("at most", lambda value, bound: value <= bound),
    "exclusiveMinimum": ("above", lambda value, bound: value > bound),
    "exclusiveMaximum": ("below", lambda value, bound: value < bound),
}


class Node(dict[str, Any]):
    """A part of a schema, with its rules in the order in which they are checked."""

    @functools.cached_property
    def rules(self) -> list[tuple[Callable[[Any, Any, Node], None], Any]]:
        """The rules, and what each demands."""
        return [(rule, self[keyword]) for keyword, rule in _RULES.items() if keyword in self]

    @functools.cached_property
    def words(self) -> set[str]:
        """Strings that are allowed beside numbers, such as "inf"."""
        return {word for branch in self.get("anyOf", ()) for word in branch.get("enum", ())}

    @functools.cached_property
    def plain(self) -> dict[str, dict[str, Any]]:
        """For each type that is allowed, what else is demanded of its values."""
        demands: dict[str, dict[str, Any]] = {}
        for branch in self.get("anyOf", [self]):
            allowed = branch.get("type", [])
            rest = {k: v for k, v in branch.items() if k in _RULES and k != "type"}
            demands |= dict.fromkeys([allowed] if isinstance(allowed, str) else allowed, rest)
        return demands


class Fault(ValueError):
    """A value breaks its schema: where it is, and which rule it breaks."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule
        self.path = ""

    def inside(self, key: str | int) -> Fault:
        """Return the fault as the value that holds it under ``key`` sees it."""
        joint = "" if self.path.startswith("[") or not self.path else "."
        self.path = f"{f'[{key}]' if isinstance(key, int) else key}{joint}{self.path}"
        return self

    def __str__(self) -> str:
        return f"{self.path or 'the document'} {self.rule}"


@functools.cache
def load_schema(name: str) -> Node:
    """Return a schema by the name of its file."""
    text = resources.files("metapac").joinpath("schemas", f"{name}.json").read_text("utf-8")
    return parse(json.loads(text))


def parse(schema: Mapping[str, Any]) -> Node:
    """Return a schema with every reference replaced by its definition."""
    resolved: Node = _resolve(schema, schema.get("$defs", {}))
    return resolved


def check(value: Any, node: Node) -> None:
    """Raise the first `Fault` of a value that JSON can hold."""
    for rule, demand in node.rules:
        rule(value, demand, node)


def _resolve(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_resolve(child, definitions) for child in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _resolve(definitions[node["$ref"].removeprefix("#/$defs/")], definitions)
    return Node({k: _resolve(child, definitions) for k, child in node.items() if k != "$defs"})


def _check_type(value: Any, allowed: str | list[str], node: Node) -> None:
    names = [allowed] if isinstance(allowed, str) else allowed
    if not any(_TYPES[name][1](value) for name in names):
        raise _must_be(describe(node), value)


def _check_const(value: Any, constant: Any, node: Node) -> None:
    _check_enum(value, [constant], node)


def _check_enum(value: Any, allowed: list[Any], node: Node) -> None:
    if not any(_is_same(value, each) for each in allowed):
        raise _must_be(describe(node), value)


def _check_bounds(value: Any, _bound: Any, node: Node) -> None:
    if _is_number(value):
        for keyword, (_words, holds) in _BOUNDS.items():
            if keyword in node and not holds(value, node[keyword]):
                raise _must_be(describe(node), value)


def _check_text(value: Any, _rule: Any, node: Node) -> None:
    if isinstance(value, str):
        short = len(value) < node.get("minLength", 0)
        if short or not _compile(node.get("pattern", "")).search(value):
            raise _must_be(describe(node), value)


@functools.cache
def _compile(pattern: str) -> re.Pattern[str]:
    r"""Return a pattern of ECMAScript, whose ``$`` excludes a newline and whose ``\w`` is ASCII."""
    end = r"\Z" if pattern.endswith("$") else ""
    return re.compile(pattern.removesuffix("$") + end, re.ASCII)


def _check_required(value: Any, keys: list[str], _node: Node) -> None:
    missing = [key for key in keys if key not in value] if isinstance(value, dict) else []
    if missing:
        raise Fault("is missing").inside(missing[0])


def _check_properties(value: Any, properties: dict[str, Node], _node: Node) -> None:
    for key in properties if isinstance(value, dict) else ():
        if key in value:
            _check_inside(value[key], properties[key], key)


def _check_others(value: Any, others: Any, node: Node) -> None:
    for key in value if isinstance(value, dict) else ():
        if key not in node.get("properties", {}):
            if others is False:
                raise Fault("is not a key that this format has").inside(key)
            if others is not True:
                _check_inside(value[key], others, key)


def _check_names(value: Any, names: Node, _node: Node) -> None:
    for key in value if isinstance(value, dict) else ():
        if not _is_valid(key, names):
            raise Fault("is not a name that this format allows").inside(brief(key))


def _check_items(value: Any, items: Node, _node: Node) -> None:
    if not isinstance(value, list) or _all_plain(value, items):
        return
    for index, item in enumerate(value):
        _check_inside(item, items, index)


def _check_first_items(value: Any, nodes: list[Node], _node: Node) -> None:
    for index, node in enumerate(nodes if isinstance(value, list) else ()):
        if index < len(value):
            _check_inside(value[index], node, index)


def _check_length(value: Any, _length: int, node: Node) -> None:
    if isinstance(value, list):
        least, most = node.get("minItems", 0), node.get("maxItems", math.inf)
        if not least <= len(value) <= most:
            count = f"{least}" if least == most else f"at least {least}"
            raise Fault(f"must hold {count} values, got {len(value)}")


def _check_unique(value: Any, unique: bool, _node: Node) -> None:
    if not unique or not isinstance(value, list):
        return
    if set(map(type, value)) in ({str}, {int}) and len(set(value)) == len(value):
        return
    seen = set()
    for index, item in enumerate(value):
        key = (isinstance(item, bool), item)  # 1 and true are not the same
        if key in seen:
            raise Fault(f"repeats {brief(item)}").inside(index)
        seen.add(key)


def _check_any(value: Any, nodes: list[Node], node: Node) -> None:
    if not any(_is_valid(value, each) for each in nodes):
        raise _must_be(describe(node), value)


def _check_all(value: Any, nodes: list[Node], _node: Node) -> None:
    for node in nodes:
        check(value, node)


def _check_if(value: Any, condition: Node, node: Node) -> None:
    check(value, node.get("then" if _is_valid(value, condition) else "else", Node()))


# Types come first: the rules below rely on them, and name what is wrong best.
_RULES: dict[str, Callable[[Any, Any, Node], None]] = {
    "type": _check_type,
    "const": _check_const,
    "enum": _check_enum,
    **dict.fromkeys(_BOUNDS, _check_bounds),
    "minLength": _check_text,
    "pattern": _check_text,
    "required": _check_required,
    "properties": _check_properties,
    "propertyNames": _check_names,
    "additionalProperties": _check_others,
    "minItems": _check_length,
    "maxItems": _check_length,
    "prefixItems": _check_first_items,
    "items": _check_items,
    "uniqueItems": _check_unique,
    "anyOf": _check_any,
    "allOf": _check_all,
    "if": _check_if,
}
_SILENT = {"$schema", "$id", "title", "description", "then", "else"}
_OF_ROWS = {"description", "type", "minItems", "maxItems", "items"}


def _check_inside(value: Any, node: Node, key: str | int) -> None:
    try:
        check(value, node)
    except Fault as fault:
        raise fault.inside(key) from None


def _is_valid(value: Any, node: Node) -> bool:
    try:
        check(value, node)
    except Fault:
        return False
    return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same(value: Any, other: Any) -> bool:
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _all_plain(values: list[Any], items: Node) -> bool:
    """Return whether a list of numbers, strings or rows can be accepted at once.

    Files hold millions. If not, the values are checked one by one.
    """
    types = set(map(type, values))
    if types == {list} and items.keys() <= _OF_ROWS:
        ends = min(values, key=len), max(values, key=len)
        inner = list(chain.from_iterable(values))
        return all(_is_valid(end, items) for end in ends) and _all_plain(inner, items["items"])
    if str in types and items.words:
        values = [value for value in values if type(value) is not str or value not in items.words]
        types = set(map(type, values))
    if types == {str}:
        return items.plain.get("string") == {}
    if types == {int}:
        bounds = items.plain.get("integer", items.plain.get("number"))
    else:
        bounds = items.plain.get("number") if types and types <= {int, float} else None
    if bounds is None or not bounds.keys() <= _BOUNDS.keys():
        return False
    ends = min(values), max(values)
    return all(_BOUNDS[key][1](end, bound) for key, bound in bounds.items() for end in ends)


def describe(node: Node) -> str:
    """Return in words what a schema of a single value allows."""
    return " or ".join(_describe_choices(node))


def _describe_choices(node: Node) -> Iterator[str]:
    if "title" in node:
        yield node["title"]
        return
    if "anyOf" in node:
        for branch in node["anyOf"]:
            yield from _describe_choices(branch)
        return
    if "enum" in node or "const" in node:
        yield from (json.dumps(each) for each in node.get("enum", [node.get("const")]))
        return
    bounds = " and ".join(
        f"{words} {node[keyword]}" for keyword, (words, _) in _BOUNDS.items() if keyword in node
    )
    names = node.get("type", [])
    for name in [names] if isinstance(names, str) else names:
        words = _TYPES[name][0]
        if name in ("number", "integer") and bounds:
            words += f" {bounds}" if bounds.startswith(("above", "below")) else f" of {bounds}"
        yield words


def _must_be(words: str, value: Any) -> Fault:
    return Fault(f"must be {words}, got {brief(value)}")


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
    with replacing(path) as file:
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
    with replacing(path, binary=True) as file:
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
            check(document, load_schema(kind.shape))
        except Fault as fault:
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
        raise InvalidInput(f"{name} gives a class two values: {brief(pairs)}.", parameter=name)
    return values


def encode_floats(values: Any) -> Any:
    """Return a float, or nested lists of floats, as JSON can hold them: infinities as strings."""
    if isinstance(values, list):
        return [encode_floats(value) for value in values]
    return values if values not in (float("inf"), float("-inf")) else str(values)


def _python_scalar(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value  # NumPy scalars


def _safetensors(framework: str, kind: Format) -> Any:
    return require(f"safetensors.{framework}", extra="torch", purpose=f"a {kind.name} file")


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

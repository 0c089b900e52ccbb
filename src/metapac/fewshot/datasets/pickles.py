"""The two pickled formats of the paper's data, read without unpickling.

A pickle is a program. This module interprets its opcodes one by one and executes only those that
build containers, numbers, text and NumPy arrays; no name in the file is ever imported or called.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from pickletools import opcodes
from typing import IO, Any

import numpy as np

from metapac._common import Array, PathLike
from metapac.errors import InvalidInput

_REMEDY = "Delete it and get it from its publisher again."

# Opcodes that are followed by a length of this many bytes, then by text or data of that length.
_SIZED = {
    **dict.fromkeys(("SHORT_BINSTRING", "SHORT_BINBYTES", "SHORT_BINUNICODE"), 1),
    **dict.fromkeys(("BINSTRING", "BINBYTES", "BINUNICODE"), 4),
    **dict.fromkeys(("BINBYTES8", "BYTEARRAY8", "BINUNICODE8"), 8),
}
_OPCODES = {opcode.code: opcode for opcode in opcodes}
_NUMBERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}


class _Forbidden(Exception):
    """A pickle asks for something that is never executed."""


@dataclass
class _Unfinished:
    """A value that REDUCE creates and BUILD completes by calling ``finish``."""

    value: Any
    finish: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class _Function:
    """Our replacement for a function that a pickle names."""

    call: Callable[..., Any]


def load(path: PathLike) -> Any:
    """Return the plain data in a pickle of any protocol, without running it.

    Strings of Python 2 become bytes, and dictionary keys that are bytes become str. Arrays are
    read-only views of the bytes in the file, so that a large one is in memory once.
    """
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise InvalidInput(f"{path} is empty: it has 0 bytes. {_REMEDY}")
        try:
            return _Machine(file, size).run()
        except _Forbidden as error:
            raise InvalidInput(
                f"{path} asks for {error}, near byte {file.tell()}. Only containers, numbers, text "
                f"and NumPy arrays are read from a pickle, and nothing is executed. {_REMEDY}"
            ) from None
        except MemoryError:
            raise
        except Exception as error:  # a broken program can fail in any way
            raise InvalidInput(
                f"{path} is not a complete pickle ({type(error).__name__}: {error}, "
                f"near byte {file.tell()}). {_REMEDY}"
            ) from error


def as_array(value: Any) -> Array:
    """Return a value as an array; rows of unequal length give an array of objects."""
    try:
        return np.asarray(value)
    except ValueError:
        return np.empty(len(value), object)


class _Machine:
    """The stack, marks and memo that a pickle works with; ``pickletools`` explains the opcodes."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.file, self.size = file, size
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while True:
            name, argument = self._next()
            if name == "STOP":
                return _complete(self.stack.pop())
            if name in _SIZED or name in _NUMBERS or name in ("STRING", "UNICODE"):
                self.stack.append(argument)
            elif name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name])
            elif name in _STEPS:
                _STEPS[name](self, argument)
            else:
                raise _Forbidden(f"the opcode {name}")

    def _next(self) -> tuple[str, Any]:
        code = self.file.read(1)
        if not code:
            raise EOFError("it ends too early")
        opcode = _OPCODES[code.decode("latin-1")]
        if opcode.name in _SIZED:
            return opcode.name, self._sized_argument(opcode.name)
        if opcode.name == "STRING":
            return opcode.name, _parse_quoted(self.file.readline())
        return opcode.name, opcode.arg.reader(self.file) if opcode.arg is not None else None

    def _sized_argument(self, name: str) -> str | bytes:
        length = int.from_bytes(self.file.read(_SIZED[name]), "little")
        if length > self.size - self.file.tell():  # before any memory is allocated
            raise EOFError(f"{length} bytes are announced, but fewer follow")
        content = self.file.read(length)
        return content.decode("utf-8", "surrogatepass") if "UNICODE" in name else content

    def pop_to_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = [_complete(item) for item in self.stack[start:]]
        del self.stack[start:]
        return items

    def pop_last(self, count: int) -> list[Any]:
        if count > len(self.stack):
            raise IndexError("the stack is too short")
        self.marks.append(len(self.stack) - count)
        return self.pop_to_mark()

    def extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise _Forbidden(f"items to be added to a {type(self.stack[-1]).__name__}")
        self.stack[-1].extend(items)

    def update(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not dict:
            raise _Forbidden(f"keys to be set in a {type(self.stack[-1]).__name__}")
        self.stack[-1].update(zip(map(_as_key, items[::2]), items[1::2], strict=True))

    def push_dict(self, items: list[Any]) -> None:
        self.stack.append({})
        self.update(items)

    def remember(self, place: int | None) -> None:
        self.memo[len(self.memo) if place is None else place] = self.stack[-1]

    def push_name(self, module: Any, name: Any) -> None:
        full_name = f"{module}.{name}"
        replacement = _NAMES.get(full_name.replace("numpy._core.", "numpy.core."))
        if replacement is None:
            raise _Forbidden(full_name)
        self.stack.append(replacement)

    def reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, _Function):
            raise _Forbidden(f"a call of {type(function).__name__}")
        self.stack.append(function.call(*arguments))

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if not isinstance(target, _Unfinished):
            raise _Forbidden(f"the state of a {type(target).__name__} to be set")
        target.value = target.finish(target.value, state)


_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda machine, _: None),
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.pop_to_mark())),
    "TUPLE1": lambda machine, _: machine.stack.append(tuple(machine.pop_last(1))),
    "TUPLE2": lambda machine, _: machine.stack.append(tuple(machine.pop_last(2))),
    "TUPLE3": lambda machine, _: machine.stack.append(tuple(machine.pop_last(3))),
    "EMPTY_LIST": lambda machine, _: machine.stack.append([]),
    "LIST": lambda machine, _: machine.stack.append(machine.pop_to_mark()),
    "APPEND": lambda machine, _: machine.extend(machine.pop_last(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.pop_to_mark()),
    "EMPTY_DICT": lambda machine, _: machine.stack.append({}),
    "DICT": lambda machine, _: machine.push_dict(machine.pop_to_mark()),
    "SETITEM": lambda machine, _: machine.update(machine.pop_last(2)),
    "SETITEMS": lambda machine, _: machine.update(machine.pop_to_mark()),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.remember),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"),
        lambda machine, place: machine.stack.append(machine.memo[place]),
    ),
    "GLOBAL": lambda machine, both: machine.push_name(*both.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.push_name(*machine.pop_last(2)),
    "REDUCE": lambda machine, _: machine.reduce(),
    "BUILD": lambda machine, _: machine.build(),
}


def _complete(item: Any) -> Any:
    """Return the value of an item of the stack; raise if it is incomplete or a function."""
    if isinstance(item, _Unfinished):
        if item.value is None:
            raise InvalidInput("an array has no content")
        return item.value
    if isinstance(item, _Function):
        raise _Forbidden("a function as a value")
    return item


def _as_key(value: Any) -> Any:
    # No tuples: a small file can hold nested ones that take forever to hash.
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str | int | float | np.generic) or value is None:
        return value
    raise _Forbidden(f"a {type(value).__name__} as a dictionary's key")


def _parse_quoted(line: bytes) -> bytes:
    """Return the bytes of a string literal of the oldest protocol, as Python 2 wrote it."""
    value = ast.literal_eval("b" + line.decode("ascii"))
    if not isinstance(value, bytes):
        raise InvalidInput("a string is not quoted")
    return value


def _as_text(value: Any) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise _Forbidden(f"text to be encoded as {encoding!r}")
    return text.encode("latin-1")


def _read_dtype(code: Any, *flags: Any) -> _Unfinished:
    if not re.fullmatch(r"[biufc]\d\d?|[SU]\d+", _as_text(code)):
        raise _Forbidden(f"an array of {_as_text(code)!r}, which are not plain numbers or text")
    return _Unfinished(np.dtype(_as_text(code)), _with_byte_order)


def _with_byte_order(dtype: Any, state: Any) -> Any:
    _, order, base, names, fields = state[:5]
    if base is not None or names is not None or fields is not None:
        raise _Forbidden("an array of records")
    return dtype.newbyteorder(_as_text(order))


def _fill_array(_: Any, state: Any) -> Any:
    _, shape, dtype, fortran_order, raw = state
    return _view(raw, dtype, shape, "F" if fortran_order else "C")


def _view(raw: Any, dtype: Any, shape: Any, order: Any) -> Any:
    if not isinstance(raw, bytes) or not isinstance(dtype, np.dtype):
        raise InvalidInput("an array is not made of bytes and a type")
    return np.frombuffer(raw, dtype).reshape(shape, order=order)


_NAMES: dict[str, Any] = {
    "numpy.ndarray": np.ndarray,  # only an argument: it is never called
    "numpy.dtype": _Function(_read_dtype),
    "numpy.core.multiarray._reconstruct": _Function(lambda *_: _Unfinished(None, _fill_array)),
    "numpy.core.multiarray.scalar": _Function(lambda dtype, raw: _view(raw, dtype, (1,), "C")[0]),
    "numpy.core.numeric._frombuffer": _Function(_view),
    "_codecs.encode": _Function(_encode),
    "__builtin__.bytes": _Function(lambda: b""),  # how old protocols write empty bytes
    "builtins.bytes": _Function(lambda: b""),
}

"""Pickles of plain data, read without running them.

A pickle is a program. Here its opcodes are read one by one, and only those that build containers,
numbers, text and NumPy arrays are carried out; no name in the file is ever imported or called.
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

_REMEDY = "Delete it and get it from its publisher again."

# Opcodes that are followed by a length in so many bytes, then by that much text or data.
_COUNTED = {
    **dict.fromkeys(("SHORT_BINSTRING", "SHORT_BINBYTES", "SHORT_BINUNICODE"), 1),
    **dict.fromkeys(("BINSTRING", "BINBYTES", "BINUNICODE"), 4),
    **dict.fromkeys(("BINBYTES8", "BYTEARRAY8", "BINUNICODE8"), 8),
}
_OPCODES = {opcode.code: opcode for opcode in opcodes}
_NUMBERS = ("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "FLOAT", "BINFLOAT")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}


class _Forbidden(Exception):
    """What a file asks for and does not get."""


@dataclass
class _Unfinished:
    """What REDUCE made and BUILD completes; only ``finish`` decides what becomes of it."""

    value: Any
    finish: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class _Function:
    """One of ours that stands in for the function a pickle names."""

    call: Callable[..., Any]


def load(path: str | os.PathLike[str]) -> Any:
    """Return the plain data in a pickle of any protocol; strings of Python 2 come as bytes.

    Dictionary keys that are bytes become str. Arrays look at the bytes that were read, so that a
    large one is in memory once, and cannot be written to. Anything but plain data is refused.
    """
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise ValueError(f"{path} is empty: it has 0 bytes. {_REMEDY}")
        try:
            return _Machine(file, size).run()
        except _Forbidden as error:
            raise ValueError(
                f"{path} asks for {error}, near byte {file.tell()}; only containers, numbers, text "
                f"and NumPy arrays of them are read from a pickle, and nothing is run. {_REMEDY}"
            ) from None
        except MemoryError:
            raise
        except Exception as error:  # a broken program can fail in any way
            raise ValueError(
                f"{path} is no pickle, or not a complete one ({type(error).__name__}: {error}, "
                f"near byte {file.tell()}). {_REMEDY}"
            ) from error


class _Machine:
    """The stack, its marks and the memo of a pickle; see ``pickletools`` for the opcodes."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self.file, self.size = file, size
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while True:
            name, argument = self._next()
            if name == "STOP":
                return _settled(self.stack.pop())
            if name in _COUNTED or name in _NUMBERS or name in ("STRING", "UNICODE"):
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
        known = _OPCODES[code.decode("latin-1")]
        if known.name in _COUNTED:
            return known.name, self._counted(known.name)
        if known.name == "STRING":
            return known.name, _quoted(self.file.readline())
        return known.name, known.arg.reader(self.file) if known.arg is not None else None

    def _counted(self, name: str) -> str | bytes:
        length = int.from_bytes(self.file.read(_COUNTED[name]), "little")
        if length > self.size - self.file.tell():  # asked before any memory is
            raise EOFError(f"{length} bytes are announced and fewer follow")
        content = self.file.read(length)
        return content.decode("utf-8", "surrogatepass") if "UNICODE" in name else content

    def since_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = [_settled(item) for item in self.stack[start:]]
        del self.stack[start:]
        return items

    def last(self, count: int) -> list[Any]:
        if count > len(self.stack):
            raise IndexError("the stack is too short")
        self.marks.append(len(self.stack) - count)
        return self.since_mark()

    def tuple_of(self, items: list[Any]) -> None:
        self.stack.append(tuple(items))

    def extend(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not list:
            raise _Forbidden(f"items to be added to a {type(self.stack[-1]).__name__}")
        self.stack[-1].extend(items)

    def update(self, items: list[Any]) -> None:
        if type(self.stack[-1]) is not dict:
            raise _Forbidden(f"keys to be set in a {type(self.stack[-1]).__name__}")
        self.stack[-1].update(zip(map(_key, items[::2]), items[1::2], strict=True))

    def dict_of(self, items: list[Any]) -> None:
        self.stack.append({})
        self.update(items)

    def remember(self, place: int | None) -> None:
        self.memo[len(self.memo) if place is None else place] = self.stack[-1]

    def name(self, module: Any, name: Any) -> None:
        asked = f"{module}.{name}"
        found = _NAMES.get(asked.replace("numpy._core.", "numpy.core."))
        if found is None:
            raise _Forbidden(asked)
        self.stack.append(found)

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
    "TUPLE": lambda machine, _: machine.tuple_of(machine.since_mark()),
    "TUPLE1": lambda machine, _: machine.tuple_of(machine.last(1)),
    "TUPLE2": lambda machine, _: machine.tuple_of(machine.last(2)),
    "TUPLE3": lambda machine, _: machine.tuple_of(machine.last(3)),
    "EMPTY_LIST": lambda machine, _: machine.stack.append([]),
    "LIST": lambda machine, _: machine.stack.append(machine.since_mark()),
    "APPEND": lambda machine, _: machine.extend(machine.last(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.since_mark()),
    "EMPTY_DICT": lambda machine, _: machine.stack.append({}),
    "DICT": lambda machine, _: machine.dict_of(machine.since_mark()),
    "SETITEM": lambda machine, _: machine.update(machine.last(2)),
    "SETITEMS": lambda machine, _: machine.update(machine.since_mark()),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.remember),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"),
        lambda machine, place: machine.stack.append(machine.memo[place]),
    ),
    "GLOBAL": lambda machine, both: machine.name(*both.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.name(*machine.last(2)),
    "REDUCE": lambda machine, _: machine.reduce(),
    "BUILD": lambda machine, _: machine.build(),
}


def _settled(item: Any) -> Any:
    """Return an item as it may be kept: whole, and no function."""
    if isinstance(item, _Unfinished):
        if item.value is None:
            raise ValueError("an array has no content")
        return item.value
    if isinstance(item, _Function):
        raise _Forbidden("a function as a value")
    return item


def _key(value: Any) -> Any:
    # Nested tuples are left out: a small file can hold one that takes for ever to hash.
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str | int | float | np.generic) or value is None:
        return value
    raise _Forbidden(f"a {type(value).__name__} as a dictionary's key")


def _quoted(line: bytes) -> bytes:
    """Return the bytes that a line of the oldest protocol writes as Python 2 would."""
    value = ast.literal_eval("b" + line.decode("ascii"))
    if not isinstance(value, bytes):
        raise ValueError("a string is not quoted")
    return value


def _text(value: Any) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


def _encode(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise _Forbidden(f"text to be encoded as {encoding!r}")
    return text.encode("latin-1")


def _dtype(letters: Any, *flags: Any) -> _Unfinished:
    if not re.fullmatch(r"[biufc]\d\d?|[SU]\d+", _text(letters)):
        raise _Forbidden(f"an array of {_text(letters)!r}, which are not plain numbers or text")
    return _Unfinished(np.dtype(_text(letters)), _in_order)


def _in_order(plain: Any, state: Any) -> Any:
    _, order, base, names, fields = state[:5]
    if base is not None or names is not None or fields is not None:
        raise _Forbidden("an array of records")
    return plain.newbyteorder(_text(order))


def _fill(_: Any, state: Any) -> Any:
    _, shape, kind, by_column, raw = state
    return _array(raw, kind, shape, "F" if by_column else "C")


def _array(raw: Any, kind: Any, shape: Any, order: Any) -> Any:
    if not isinstance(raw, bytes) or not isinstance(kind, np.dtype):
        raise ValueError("an array is not made of bytes and a type")
    return np.frombuffer(raw, kind).reshape(shape, order=order)


_NAMES: dict[str, Any] = {
    "numpy.ndarray": np.ndarray,  # a mere value: what it stands for is never called
    "numpy.dtype": _Function(_dtype),
    "numpy.core.multiarray._reconstruct": _Function(lambda *_: _Unfinished(None, _fill)),
    "numpy.core.multiarray.scalar": _Function(lambda kind, raw: _array(raw, kind, (1,), "C")[0]),
    "numpy.core.numeric._frombuffer": _Function(_array),
    "_codecs.encode": _Function(_encode),
    "__builtin__.bytes": _Function(lambda: b""),  # as old protocols write no bytes at all
    "builtins.bytes": _Function(lambda: b""),
}

"""Descriptions of learners, pools and code, to check that a resumed evaluation is the same one."""

from __future__ import annotations

import copyreg
import dis
import hashlib
import sys
import types
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from metapac import _document
from metapac.learners.protocols import Learner


def describe_learner(learner: Learner) -> dict[str, Any]:
    """Return a description of a learner, with a checksum of its weights if it has any.

    Parameters
    ----------
    learner : Learner
        The learner.

    Returns
    -------
    dict
        What its method ``describe`` returns, or its class and its parameters.
    """
    if hasattr(learner, "describe"):
        described = dict(learner.describe())
    else:
        values = {name: value for name, value in vars(learner).items() if name[0] != "_"}
        described = {"class": type(learner).__name__}
        described |= {name: getattr(v, "__qualname__", repr(v)) for name, v in values.items()}
    module = getattr(learner, "module", None)
    if module is None:
        return described
    state = module.state_dict()
    arrays = (state[name].cpu().numpy() for name in sorted(state))
    return described | {"weights": _document.data_checksum(*arrays)}


def describe_pool(pool: Any) -> dict[str, Any]:
    """Return a description of a pool, with a checksum of its data.

    Parameters
    ----------
    pool : ClassPool, GroupPool or DomainPool
        The pool.

    Returns
    -------
    dict
        The kind and the numbers of its classes, groups or domains and of its examples.
    """
    labels = [getattr(pool, name) for name in ("groups", "domains") if hasattr(pool, name)]
    return {
        "unit": pool.unit,
        "names": len(pool.names),
        "examples": len(pool.y),
        "checksum": _document.data_checksum(np.asarray(pool.x), pool.y, *labels),
    }


_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
_CODE = ("co_code", "co_consts", "co_names", "co_varnames", "co_argcount", "co_kwonlyargcount")
_PARTS = {
    types.CodeType: (*_CODE, "co_flags"),  # without the lines and the file
    types.CellType: ("cell_contents",),
    types.FunctionType: ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__dict__"),
    types.MethodType: ("__func__", "__self__"),
    types.MemberDescriptorType: ("__name__",),
    **dict.fromkeys((staticmethod, classmethod), ("__func__",)),
    property: ("fget", "fset", "fdel"),
    cached_property: ("func",),
}
_Seen = dict[int, tuple[int, object]]  # by id, of objects kept alive so that ids stay unique


def digest_code(function: Callable[..., Any]) -> str:
    """Return a checksum of a function's code and of what it uses, the same in every process.

    Parameters
    ----------
    function : callable
        A function, method, partial, or an instance with ``__call__``. Defaults, closures, and the
        global values, functions, classes and imports that it refers to are part of its code. What
        comes from metapac, the standard library or an installed package counts by its name alone.

    Returns
    -------
    str
        The checksum.

    Raises
    ------
    TypeError
        If it has no Python code, or uses a value that has no content to compare, such as a lock.
    """
    return f"sha256:{_digest(function, {})[:16]}"


def _digest(value: object, seen: _Seen) -> str:
    checksum = hashlib.sha256()
    for part in _content(value, seen):
        checksum.update(b"%d:%b" % (len(part), part))
    return checksum.hexdigest()


def _content(value: Any, seen: _Seen) -> Iterator[bytes]:
    """Yield what tells a value from others, as pickle would store it; code by its content."""
    yield type(value).__qualname__.encode()
    if isinstance(value, _PLAIN):
        yield value if isinstance(value, bytes) else repr(value).encode()
    elif isinstance(value, tuple):
        for each in value:
            yield from _content(each, seen)
        yield b"end"
    elif isinstance(value, set | frozenset):
        yield from sorted(_digest(each, seen.copy()).encode() for each in value)
    elif id(value) in seen:
        yield b"seen %d" % seen[id(value)][0]
    else:
        is_first, seen[id(value)] = not seen, (len(seen), value)
        yield from _content(_find_parts(value, is_first), seen)


def _find_parts(value: Any, is_first: bool) -> Any:
    """Return what an object consists of."""
    if isinstance(value, types.FunctionType | type | types.ModuleType) and not is_first:
        home = getattr(value, "__module__", value.__name__)  # a module has none
        if _is_installed(home):
            return home, value.__name__
    if isinstance(value, types.ModuleType):
        return Path(str(value.__file__)).read_bytes()
    if isinstance(value, type):
        return _class_parts(value)
    if type(value) in (list, dict):
        return tuple(value.items() if isinstance(value, dict) else value)
    if type(value) in _PARTS:
        parts = tuple(getattr(value, name) for name in _PARTS[type(value)])
        return (*parts, _used_globals(value)) if isinstance(value, types.FunctionType) else parts
    reducer: Any = copyreg.dispatch_table.get(type(value))
    reduced = value.__reduce_ex__(4) if reducer is None else reducer(value)
    if not isinstance(reduced, str):
        return tuple(list(part) if isinstance(part, Iterator) else part for part in reduced)
    if hasattr(value, "__wrapped__"):  # such as a function with a cache
        return value.__wrapped__
    if is_first or not _is_installed(value.__module__):
        raise TypeError(f"{reduced} has no Python code")
    return value.__module__, reduced


def _used_globals(function: types.FunctionType) -> tuple[Any, ...]:
    """Return the global variables that a function reads, with their values, and what it imports."""
    codes, known = [function.__code__], function.__globals__
    for code in codes:  # grows while it is read
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    steps = [step for code in codes for step in dis.get_instructions(code)]
    names = [step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    used = [(name, known[name]) for name in dict.fromkeys(names) if name in known]
    return (*used, *_find_imports([s for s in steps if s.opname != "EXTENDED_ARG"], known))


def _find_imports(steps: list[dis.Instruction], known: dict[str, Any]) -> Iterator[Any]:
    """Yield the modules that code imports when it runs, and what it takes from the user's."""
    for place, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level, names = steps[place - 2].argval, steps[place - 1].argval or ("__name__",)
            try:
                module = __import__(step.argval, known, None, names, level)
            except ImportError:  # optional: its name is part of the code
                continue
            yield module
            if not _is_installed(module.__name__):
                yield from (getattr(module, name) for name in names)


def _class_parts(kind: type) -> tuple[Any, ...]:
    """Return the bases and the members of a class; of names like __doc__, only functions."""
    functions, special = (types.FunctionType, staticmethod, classmethod), ("__", "_abc_impl")
    members = vars(kind).items()
    kept = [m for m in members if isinstance(m[1], functions) or not m[0].startswith(special)]
    return kind.__bases__, *kept


def _is_installed(module: str | None) -> bool:
    """Return whether a module is metapac's, Python's or of an installed package."""
    top = (module or "__main__").partition(".")[0]
    if top in ("metapac", "__main__"):  # the file of __main__ may be that of a tool
        return top == "metapac"
    places = Path(getattr(sys.modules.get(top), "__file__", None) or "").parts
    return top in sys.stdlib_module_names or "site-packages" in places or "dist-packages" in places

"""Docstrings: public names have sections that match the signature, and examples that run."""

from __future__ import annotations

import ast
import dataclasses
import doctest
import enum
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import griffe
import pytest

import metapac
from metapac.grouping import Data

PACKAGES = [
    "metapac",
    "metapac.tables",
    "metapac.sklearn",
    "metapac.plots",
    "metapac.report",
    "metapac.fewshot",
]
SOURCE = Path(metapac.__file__).parent
API_PAGE = Path(__file__).parent.parent / "docs" / "reference" / "api.md"
STARS = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}


class Documented(NamedTuple):
    """A public module, class, function, method or property, and the class that it belongs to."""

    name: str
    value: Any
    owner: type | None = None


def public_names() -> Iterator[Documented]:
    """Yield what ``__all__`` of the public packages names, and the members of its classes."""
    for package in PACKAGES:
        loaded = importlib.import_module(package)
        for name in loaded.__all__:
            value = getattr(loaded, name)
            if not callable(value):
                continue
            yield Documented(f"{package}.{name}", value)
            if inspect.isclass(value):
                yield from members(f"{package}.{name}", value)


def results() -> Iterator[Documented]:
    """Yield the members of the classes that public functions return, as the API pages list them."""
    text = API_PAGE.read_text(encoding="utf-8")
    sections = re.findall(r"^<!-- api: (\S+) (.*) -->$", text, re.MULTILINE)
    found = [
        f"{package}.{each}".rpartition(".")
        for package, entries in sections
        for returned in re.findall(r"\(([^)]+)\)", entries)
        for each in returned.split(",")
    ]
    for module, _, name in found:
        value = getattr(importlib.import_module(module), name)
        if module not in PACKAGES and inspect.isclass(value):
            yield from members(f"{module}.{name}", value)


def members(path: str, cls: type) -> Iterator[Documented]:
    """Yield the public methods and properties of a class, those that it inherits from us too.

    What `Data` asks arrays and tables is between our own modules: users only pass them on.
    """
    for owner in () if Data in cls.__mro__ else cls.__mro__:
        if not owner.__module__.startswith("metapac."):
            continue
        for name, value in vars(owner).items():
            if not name.startswith("_") and inspect.isfunction(unwrapped(value)):
                yield Documented(f"{path}.{name}", value, owner)


def unwrapped(value: Any) -> Any:
    """Return the function inside a method, property, cached function or decorated function."""
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, functools.cached_property):
        value = value.func
    return inspect.unwrap(getattr(value, "__func__", value))


def docstring(item: Documented) -> griffe.Docstring:
    """Return its docstring, or the one that it inherits from a class of this package."""
    text = item.value.__doc__
    for cls in item.owner.__mro__ if item.owner else ():
        inherited = vars(cls).get(item.name.rsplit(".", 1)[1])
        if text is None and cls.__module__.startswith("metapac."):
            text = inherited.__doc__
    return griffe.Docstring(inspect.cleandoc(text or ""), parser="numpy")


def sections(item: Documented) -> dict[str, list[str]]:
    """Return the names in each section of a docstring."""
    found: dict[str, list[str]] = {}
    for section in docstring(item).parse("numpy", warnings=False):
        listed = section.value if isinstance(section.value, list) else []
        names = [getattr(entry, "name", "") for entry in listed]
        found[section.kind.value] = ", ".join(names).split(", ")  # as in "low, high : float"
    return found


def problems(item: Documented) -> Iterator[str]:
    """Yield what is wrong with a docstring."""
    summary = docstring(item).value.split("\n\n")[0]
    if not summary:
        yield "has no docstring"
        return
    if "\n" in summary or not summary.endswith("."):
        yield f"its first line must be a sentence that ends with a full stop, got {summary!r}"
    if isinstance(item.value, property | functools.cached_property):
        return
    yield from problems_of_parameters(item)
    yield from problems_of_defaults(item)
    returns = not inspect.isclass(item.value) and returns_something(unwrapped(item.value))
    if returns and not {"returns", "yields"} & sections(item).keys():
        yield "has no Returns or Yields section"


def problems_of_parameters(item: Documented) -> Iterator[str]:
    expected, found = [starred(parameter) for parameter in parameters(item)], sections(item)
    listed = found.get("parameters", []) + found.get("other parameters", [])
    if has_fields(item.value) and not listed:
        # A value that the package makes and a caller only reads lists its fields as attributes.
        listed = [name for name in found.get("attributes", []) if name in expected]
    if expected != listed:
        yield f"has the parameters {expected}, and its docstring lists {listed}"


def problems_of_defaults(item: Documented) -> Iterator[str]:
    """Yield parameters that have a default and do not say so, or state one that they lack."""
    types = types_of_parameters(item)
    for parameter in parameters(item) if types else ():
        text = types.get(starred(parameter), "")
        stated = re.search(r"(?:^|, )(?:optional|default (.+))$", text)
        has_default = parameter.default is not parameter.empty
        if has_default != bool(stated):
            amount = "a" if has_default else "no"
            yield f"has {amount} default of {parameter.name}, and its docstring says {text!r}"
        elif stated and stated[1] not in (None, written(parameter.default)):
            default = written(parameter.default)
            yield f"has the default {parameter.name}={default}, and its docstring says {text!r}"


def types_of_parameters(item: Documented) -> dict[str, str]:
    """Return the types in the sections of parameters; griffe would leave out "optional"."""
    _, *parts = re.split(r"^(.+)\n-+$", docstring(item).value, flags=re.MULTILINE)
    return {
        name: text
        for title, section in zip(parts[::2], parts[1::2], strict=True)
        if title in ("Parameters", "Other Parameters")
        for names, text in re.findall(r"^(\S.*?) : (.+)$", section, re.MULTILINE)
        for name in names.split(", ")
    }


def written(default: Any) -> str:
    """Return a default as docstrings write it."""
    if inspect.isclass(default):
        return f"{default.__module__}.{default.__qualname__}"
    return repr(default).replace("'", '"')


def parameters(item: Documented) -> list[inspect.Parameter]:
    """Return the parameters that a caller passes."""
    value = item.value
    if inspect.isclass(value) and not has_fields(value) and not has_constructor(value):
        return []
    called = getattr(item.owner, item.name.rsplit(".", 1)[1]) if item.owner else value
    found = list(inspect.signature(called).parameters.values())
    takes_self = item.owner is not None and not isinstance(value, staticmethod | classmethod)
    return found[1:] if takes_self else found


def starred(parameter: inspect.Parameter) -> str:
    """Return the name, with the stars of ``*args`` and ``**options``."""
    return STARS.get(parameter.kind.name, "") + parameter.name


def has_fields(value: Any) -> bool:
    return dataclasses.is_dataclass(value) or hasattr(value, "_fields")


def has_constructor(cls: type) -> bool:
    """Whether users call it, and a class of this package says how."""
    if issubclass(cls, enum.Enum) or Protocol in cls.__bases__:
        return False
    if issubclass(cls, Exception):  # the base class documents the constructor of all
        return "__init__" in vars(cls)
    inits = [base for base in cls.__mro__ if "__init__" in vars(base)]
    return inits[0].__module__.startswith("metapac.")


def returns_something(function: Any) -> bool:
    result = inspect.signature(function).return_annotation
    return str(result).removeprefix("typing.") not in ("None", "NoReturn", "Never")


ITEMS = list({item.name: item for item in [*results(), *public_names()]}.values())


def test_docstrings_have_the_sections_of_their_signatures() -> None:
    found = [f"{item.name} {problem}" for item in ITEMS for problem in problems(item)]
    assert not found, "\n".join(found)


def test_public_names_have_examples() -> None:
    items = [item for item in ITEMS if item.owner is None]
    bare = [item.name for item in items if ">>> " not in docstring(item).value]
    loose = [item.name for item in items if "examples" not in sections(item)]
    assert not [*bare, *loose]


def test_public_names_are_few() -> None:
    names = [item.name for item in ITEMS if item.owner is None]
    assert {"metapac.Site", "metapac.plots.draw_needs", "metapac.fewshot.train"} <= {*names}
    assert len(names) <= 127  # about 100: a new one should make an old one superfluous


def defined(tree: ast.AST, prefix: str) -> Iterator[tuple[str, str]]:
    """Yield the qualified name and the docstring of each class and function in a tree."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield f"{prefix}.{node.name}", ast.get_docstring(node) or ""
            yield from defined(node, f"{prefix}.{node.name}")


def with_sections(path: Path) -> Iterator[str]:
    """Yield the objects of a module whose docstrings have sections; results list attributes."""
    module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    for name, text in defined(ast.parse(path.read_text(encoding="utf-8")), module):
        if re.search(r"^(Parameters|Returns|Yields|Raises|Examples)\n-+$", text, re.MULTILINE):
            yield name


def test_internals_have_no_sections() -> None:
    values = [unwrapped(item.value) for item in ITEMS]
    bases = {base for value in values if inspect.isclass(value) for base in value.__mro__}
    public = {f"{value.__module__}.{value.__qualname__}" for value in [*values, *bases]}
    found = {name for path in SOURCE.rglob("*.py") for name in with_sections(path)}
    inherited = {name for name in found if name.rpartition(".")[0] in public}
    help_texts = {name for name in found if ".cli." in name or ".fewshot.options." in name}
    assert found - public - inherited - help_texts == set()
    assert "metapac.predictors.MetaPS" in found


EXAMPLES: dict[str, list[doctest.DocTest]] = {}
for item in ITEMS:
    # Nothing is defined: readers copy an example with its imports.
    for test in doctest.DocTestFinder().find(item.value, item.name, extraglobs=None):
        if item.owner is None and test.examples:
            EXAMPLES.setdefault(item.value.__module__, []).append(test)


@pytest.mark.parametrize("module", EXAMPLES)
def test_examples_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    for test in EXAMPLES[module]:
        test.globs = {"__name__": "example"}
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        runner.run(test, out=report.append)
    lacking = re.findall(r"ModuleNotFoundError: (.*)", "".join(report))
    if lacking and len(lacking) == sum(text.startswith("*" * 20) for text in report):
        pytest.skip(lacking[0])
    assert not report, "".join(report)


def flawed(a: int, *rest: int, **options: int) -> int:
    """Return a sum

    Parameters
    ----------
    b : int
        The first number.
    """
    return a + sum(rest) + sum(options.values())


def test_the_checks_can_fail() -> None:
    summary, listed, returned = problems(Documented("flawed", flawed))
    assert "a sentence that ends with a full stop, got 'Return a sum'" in summary
    assert listed == "has the parameters ['a', '*rest', '**options'], and its docstring lists ['b']"
    assert returned == "has no Returns or Yields section"
    flawed_copy = functools.partial(flawed)
    flawed_copy.__doc__ = ""
    assert list(problems(Documented("copy", flawed_copy))) == ["has no docstring"]


def vague(a: int, b: int = 1, c: str = "c", *, d: int = 4, e: type = int) -> None:
    """Do nothing.

    Parameters
    ----------
    a : int, optional
        Required.
    b : int
        Optional.
    c, d : {"c", "d"}, default "c"
        Optional.
    e : type, default builtins.int
        Optional.

    Notes
    -----
    b : int, optional
    """


def test_the_check_of_defaults_can_fail() -> None:
    assert list(problems(Documented("vague", vague))) == [
        "has no default of a, and its docstring says 'int, optional'",
        "has a default of b, and its docstring says 'int'",
        """has the default d=4, and its docstring says '{"c", "d"}, default "c"'""",
    ]

"""JSON Schemas of metapac's files, and a validator for the part of JSON Schema that they use.

The schemas are draft 2020-12, in ``metapac/schemas``; any other validator agrees with this one.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from itertools import chain
from typing import Any

from metapac._checks import brief

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

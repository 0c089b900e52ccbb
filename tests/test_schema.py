"""The schemas are valid, files satisfy them, and the validator agrees with jsonschema."""

from __future__ import annotations

import copy
import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metapac
from metapac import PS, Guarantee, MetaPS, Site, artefact
from metapac.fewshot import MetaCP

FOLDER = Path(str(resources.files("metapac").joinpath("schemas")))
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
RNG = np.random.default_rng(0)
SCORES, TASKS = RNG.random(1200), np.repeat(np.arange(40), 30)
LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.2}


def written(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return documents of promise and site files, as they are in the files."""
    per_class = MetaPS(**LEVELS, per_class=True, on_infeasible="trivial")
    columns = {"label": "y", "columns": "p_*", "classes": ["cat", "dog"]}
    sent: list[tuple[Any, ...]] = [
        ("\N{SNOWMAN}", None, 1, None),
        ("b", ("cat", "dog"), 2, columns),
    ]
    objects: dict[str, list[Any]] = {
        "promise": [
            MetaPS(**LEVELS).calibrate(SCORES, TASKS),
            MetaPS(**LEVELS, split="tight", on_infeasible="trivial").calibrate([0.5], ["a"]),
            per_class.calibrate(SCORES, TASKS, np.tile([True, False], 600)),
            PS(epsilon=0.2, delta=0.1).calibrate(SCORES),
            MetaCP(epsilon=0.4, delta=0.2).calibrate(SCORES, TASKS, np.zeros(40)),
        ],
        "site": [
            Site(
                name,
                Guarantee(**LEVELS, split="tight", per_class=classes is not None),
                (100,) * rows,
                ((0.25,),) * rows,
                np.dtype("float32"),
                classes,
                columns,
            )
            for name, classes, rows, columns in sent
        ],
    }
    documents: dict[str, list[dict[str, Any]]] = {}
    for kind, saved in objects.items():
        for each in saved:
            each.save(folder / "a.json")
            documents.setdefault(kind, []).append(json.loads((folder / "a.json").read_text()))
    return documents


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    return written(tmp_path_factory.mktemp("documents"))


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_and_uses_only_what_the_validator_knows(name: str) -> None:
    schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    known = {*artefact._RULES, *artefact._SILENT, "$defs", "$ref"}
    todo, unknown = [schema], set()
    while todo:
        node = todo.pop()
        unknown |= node.keys() - known
        for key, child in node.items():
            if key in ("properties", "$defs"):
                todo += child.values()
            elif key in ("anyOf", "allOf", "prefixItems"):
                todo += child
            elif isinstance(child, dict):
                todo.append(child)
    assert not unknown


def test_every_format_has_a_schema() -> None:
    source = Path(metapac.__file__).parent
    used = {
        line.partition('shape="')[2].partition('"')[0]
        for path in source.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if 'shape="' in line
    }
    assert used <= {*NAMES}
    assert {"promise", "site", "weights", "checkpoint", "scores", "run", "learner"} <= used
    assert {"evaluation", "data"} <= used


def test_files_satisfy_their_schema(documents: dict[str, list[dict[str, Any]]]) -> None:
    for name, examples in documents.items():
        schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
        for document in examples:
            jsonschema.validate(document, schema)
            artefact.check(document, artefact.load_schema(name))


ODD: list[Any] = [
    None, True, False, 0, 1, -1, -2, 0.5, 1.0, 1.5, 2**53 + 1, 10**400, -(10**400), 5e-324, "",
    "inf", "-inf", "nan", "float32", "int8", "joint", "MetaPS", "PS", " a ", [], [0.5], ["a", "a"],
    [[0.5]], [1, True], {}, {"by_class": []}, {"by_class": [["a", 0.5]]}, {"by_class": [["a"]]},
]  # fmt: skip


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values; of a long list, only the ends."""
    found = [path] if path else []
    keys: list[Any] = []
    if isinstance(node, dict):
        keys = list(node)
    elif isinstance(node, list):
        keys = sorted({0, len(node) - 1}) if node else []
    for key in keys:
        found += places(node[key], (*path, key))
    return found


def mutate(document: Any, draw: st.DataObject) -> Any:
    """Return a document with one value replaced, removed, repeated, or added."""
    changed = copy.deepcopy(document)
    *parents, last = draw.draw(st.sampled_from(places(changed)))
    node = changed
    for key in parents:
        node = node[key]
    action = draw.draw(st.sampled_from(["replace", "replace", "remove", "add"]))
    if action == "remove":
        del node[last]
    elif action == "replace":
        node[last] = draw.draw(st.sampled_from(ODD))
    elif isinstance(node, dict):
        node["extra"] = draw.draw(st.sampled_from(ODD))
    else:
        node.append(draw.draw(st.sampled_from([*ODD, node[last]])))
    return changed


VALIDATORS = {
    name: jsonschema.Draft202012Validator(json.loads((FOLDER / f"{name}.json").read_text()))
    for name in ("promise", "site")
}


@given(draw=st.data())
@settings(max_examples=300, deadline=None)
def test_the_validator_agrees_with_jsonschema(
    documents: dict[str, list[dict[str, Any]]], draw: st.DataObject
) -> None:
    name = draw.draw(st.sampled_from(["promise", "site"]))
    changed = mutate(draw.draw(st.sampled_from(documents[name])), draw)
    if draw.draw(st.booleans()):
        changed = mutate(changed, draw)
    valid = artefact._is_valid(changed, artefact.load_schema(name))
    assert valid == VALIDATORS[name].is_valid(changed)


def test_both_refuse_something_and_accept_something(
    documents: dict[str, list[dict[str, Any]]],
) -> None:
    # So that agreement means something.
    good = documents["promise"][0]
    assert VALIDATORS["promise"].is_valid(good | {"note": "of a later version"})
    assert not VALIDATORS["promise"].is_valid(good | {"precision": "int8"})


ROW: dict[str, Any] = {"type": "array", "minItems": 1, "items": {"type": "number"}}


@pytest.mark.parametrize(
    ("value", "node", "message"),
    [
        (-5, {"type": "integer", "minimum": 0}, "must be a whole number of at least 0, got -5"),
        (1.5, {"type": "integer"}, "must be a whole number, got 1.5"),
        (True, {"type": "integer"}, "must be a whole number, got True"),
        (True, {"const": 1}, "must be 1, got True"),
        ("a", {"enum": ["b", None]}, "must be \"b\" or null, got 'a'"),
        (1, {"type": "number", "exclusiveMaximum": 1}, "must be a number below 1, got 1"),
        (0, {"type": "number", "exclusiveMinimum": 0}, "must be a number above 0, got 0"),
        (3, {"type": "number", "maximum": 2}, "must be a number of at most 2, got 3"),
        ("", {"type": "string", "minLength": 1}, "must be a string, got ''"),
        ("a", {"title": "two", "type": "string", "pattern": "^..$"}, "must be two, got 'a'"),
        ({"a": {}}, {"properties": {"a": {"required": ["b"]}}}, "a.b is missing"),
        ({"a": 1}, {"additionalProperties": False}, "a is not a key that this format has"),
        ({"../a": 1}, {"propertyNames": {"pattern": "^\\w+$"}}, "is not a name that this"),
        ([[1], [0, -5]], {"items": {"items": {"type": "integer", "minimum": 0}}}, "[1][1] must"),
        ([0.5, "x"], {"items": {"type": "number"}}, "[1] must be a number, got 'x'"),
        ([3, -5], {"items": {"type": "integer", "minimum": 0}}, "[1] must be a whole number of at"),
        ([[1, 2], []], {"items": ROW}, "[1] must hold at least 1 values, got 0"),
        ([[1], [2, "x"], [3, 4, 5]], {"items": ROW}, "[1][1] must be a number, got 'x'"),
        ([[1], [2, 2], [3, 4, 5]], {"items": ROW | {"uniqueItems": True}}, "[1][1] repeats 2"),
        ([1, 2], {"maxItems": 1, "minItems": 1}, "must hold 1 values, got 2"),
        (["a", "b", "a"], {"uniqueItems": True}, "[2] repeats 'a'"),
        ([0], {"prefixItems": [{"type": "string"}]}, "[0] must be a string, got 0"),
        ("x", {"anyOf": [{"type": "number"}, {"enum": ["inf"]}]}, 'must be a number or "inf"'),
        ({"a": 1}, {"if": {"required": ["a"]}, "then": {"required": ["b"]}}, "b is missing"),
        ({}, {"if": {"required": ["a"]}, "else": {"required": ["b"]}}, "b is missing"),
    ],
)
def test_faults_are_said_in_words(value: Any, node: dict[str, Any], message: str) -> None:
    with pytest.raises(artefact.Fault) as caught:
        artefact.check(value, artefact.parse(node))
    assert message in str(caught.value)
    assert not jsonschema.Draft202012Validator(node).is_valid(value)


@given(
    values=st.lists(st.sampled_from(ODD), max_size=4),
    node=st.sampled_from(
        [
            {"type": "number", "minimum": 0},
            {"type": "integer", "minimum": -1, "maximum": 5},
            {"type": ["string", "integer"]},
            {"type": "string", "minLength": 1},
            {"anyOf": [{"type": "number", "exclusiveMaximum": 1}, {"enum": ["inf"]}]},
            {"type": "number", "exclusiveMinimum": 0},
        ]
    ),
)
def test_lists_are_checked_item_by_item(values: list[Any], node: dict[str, Any]) -> None:
    schema = {"items": node}
    whole, item = artefact.parse(schema), artefact.parse(node)
    valid = artefact._is_valid(values, whole)
    assert valid == all(artefact._is_valid(value, item) for value in values)
    assert valid == jsonschema.Draft202012Validator(schema).is_valid(values)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [(r"^[a-z]+$", "ab", "ab\n"), (r"^\w+$", "a_1", "\u00e9"), (r"^a", "ab", "ba")],
)
def test_patterns_are_those_of_ecmascript(pattern: str, good: str, bad: str) -> None:
    node = artefact.parse({"type": "string", "pattern": pattern})
    artefact.check(good, node)
    with pytest.raises(artefact.Fault, match="must be a string"):
        artefact.check(bad, node)

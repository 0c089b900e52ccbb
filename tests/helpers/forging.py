"""Files that are damaged, or forged with a right checksum."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from metapac import BadArtefact, InvalidInput, artefact

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


def damage(content: bytes, draw: st.DataObject) -> bytes:
    """Return bytes with one of them changed, removed or repeated, or a stretch cut out."""
    start = draw.draw(st.integers(0, len(content) - 1))
    stop = draw.draw(st.integers(start, min(start + 20, len(content))))
    filling = draw.draw(st.binary(max_size=8) | st.sampled_from([b"NaN", b"1e400", b"[", b'"']))
    return content[:start] + filling + content[stop:]


def sign(document: dict[str, Any]) -> str:
    """Return a document as a file with the right checksum, even if it holds a NaN."""
    body = {key: value for key, value in document.items() if key != "checksum"}
    try:
        body["checksum"] = artefact.checksum(body)
    except (ValueError, RecursionError):
        body["checksum"] = "sha256:0"
    return json.dumps(body)


def read_or_refuse(read: Callable[[Any], Any], path: Path) -> Any:
    """Return what a file holds, or None if it is refused as it should be."""
    message = ""
    try:
        return read(path)
    except (BadArtefact, InvalidInput) as error:
        message = str(error)
    assert path.name in message
    assert len(message.splitlines()) == 1
    return None

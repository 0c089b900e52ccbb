"""The published files of FewRel: located in a folder, read, and rejected if damaged."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.fewshot.datasets.fewrel import Sentence, find_layout, read_names, read_relations

REMEDY = "Delete it and run 'metapac data fetch fewrel' again."
GOOD = {
    "tokens": ["The", "River", "Thames"],
    "h": ["x", "Q1", [[1, 2], [0]]],
    "t": ["y", "Q2", [[0]]],
}


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(raw)
    return path


def item(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in (GOOD | changes).items() if value is not None}


def test_sentences_are_read_as_published(tmp_path: Path) -> None:
    other = {"tokens": ["\xa0", "İ"], "h": ["x", "Q1", [[1]]], "t": ["y", "Q2", [[0], [1]]], "n": 1}
    path = write(tmp_path / "train_wiki.json", {"P1": [GOOD, other], "P2": [GOOD]})
    first = Sentence(["the", "river", "thames"], 1, 0)
    assert read_relations(path) == {"P1": [first, Sentence(["\xa0", "i̇"], 1, 0)], "P2": [first]}
    bom = write(tmp_path / "val_wiki.json", b"\xef\xbb\xbf" + path.read_bytes())
    assert read_relations(bom) == read_relations(path)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", " is empty."),
        (
            b'{"P1": [\n  {"tokens": [',
            " is not complete JSON: Expecting value at line 2, column 15.",
        ),
        (b"<html>", " is not complete JSON: Expecting value at line 1, column 1."),
        (b'{"P1": []} x', " is not complete JSON: Extra data at line 1, column 12."),
        (b'{"P1": ["\xff"]}', " cannot be read as JSON ('utf-8' codec can't decode byte 0xff"),
        (b'{"P1": [], "P1": []}', " cannot be read as JSON ('P1' occurs twice)."),
        (b"[" * 100_000, " cannot be read as JSON (maximum recursion depth exceeded"),
        (b"[]", " must hold {relation: [sentence, ...]}, got []."),
        (b"{}", " must hold {relation: [sentence, ...]}, got {}."),
        (b'{"P1": {"a": 1}}', ", relation 'P1' must hold a list of sentences, got {'a': 1}."),
        (b'{"P1": {}}', ", relation 'P1' must hold a list of sentences, got {}."),
        (b'{"P1": []}', ", relation 'P1' must hold a list of sentences, got []."),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, raw: bytes, message: str) -> None:
    path = write(tmp_path / "train_wiki.json", raw)
    with pytest.raises(ValueError, match=re.escape(f"{path}{message}")) as caught:
        read_relations(path)
    assert str(caught.value).endswith(REMEDY)


SHAPE = 'must be {"tokens": [...], "h": [name, id, [[position, ...], ...]], "t": [...]}, got '
LISTS = "that is a list of mentions, each a list of positions, got "


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (7, SHAPE + "7."),
        ("text", SHAPE + "'text'."),
        (item(tokens=None), SHAPE + "{'h': ['x', 'Q1', [[1, 2], [0]]], 't': ['y', 'Q2', [[0]]]}."),
        (
            item(t=None),
            SHAPE + "{'tokens': ['The', 'River', 'Thames'], 'h': ['x', 'Q1', [....",
        ),
        (item(h=["x", "Q1"]), SHAPE),
        (item(h={"name": "x"}), SHAPE),
        (item(tokens=[]), "has no tokens."),
        (item(tokens="The River"), "must have tokens that are a list of strings, got 'The River'."),
        (
            item(tokens=["a", 1, "b"]),
            "must have tokens that are a list of strings, got ['a', 1, 'b'].",
        ),
        (item(h=["x", "Q1", []]), f"must have h[2] {LISTS}[]."),
        (item(h=["x", "Q1", [[]]]), f"must have h[2] {LISTS}[[]]."),
        (item(h=["x", "Q1", [1, 2]]), f"must have h[2] {LISTS}[1, 2]."),
        (item(t=["x", "Q1", [["1"]]]), f"must have t[2] {LISTS}[['1']]."),
        (item(t=["x", "Q1", [[True]]]), f"must have t[2] {LISTS}[[True]]."),
        (item(t=["x", "Q1", [[1.0]]]), f"must have t[2] {LISTS}[[1.0]]."),
        (item(t=["x", "Q1", "12"]), f"must have t[2] {LISTS}'12'."),
        (item(h=["x", "Q1", [[3]]]), "must have positions of h from 0 to 2, its tokens, got 3."),
        (item(t=["x", "Q1", [[-1]]]), "must have positions of t from 0 to 2, its tokens, got -1."),
        (item(t=["x", "Q1", [[0], [1, 9]]]), "positions of t from 0 to 2, its tokens, got 9."),
    ],
)
def test_a_malformed_sentence_is_named(tmp_path: Path, bad: Any, message: str) -> None:
    path = write(tmp_path / "val_wiki.json", {"P0": [GOOD], "P1": [GOOD, bad, GOOD]})
    expected = re.escape(f"{path}, relation 'P1', sentence 2 of 3 ") + ".*" + re.escape(message)
    with pytest.raises(ValueError, match=f"^{expected}") as caught:
        read_relations(path)
    assert str(caught.value).endswith(REMEDY)


leaves = st.none() | st.booleans() | st.integers(-2, 4) | st.floats() | st.text(max_size=2)
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=2), max_leaves=6)
items = values | st.builds(
    lambda tokens, h, t: {"tokens": tokens, "h": ["x", "Q1", h], "t": ["y", "Q2", t]},
    st.sampled_from([["A", "b", "c"]]) | values,
    values,
    st.sampled_from([[[0]], [[1], [2]]]) | values,
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fewrel") / "train_wiki.json"


@given(content=values | st.dictionaries(st.text(max_size=2), st.lists(items, max_size=2)))
def test_any_json_is_read_or_refused_with_a_message(place: Path, content: Any) -> None:
    relations, refusal = {}, f"{place} {REMEDY}"
    try:
        relations = read_relations(write(place, content))
    except ValueError as error:
        refusal = str(error)
    assert refusal.startswith(str(place))
    assert refusal.endswith(REMEDY)
    for sentences in relations.values():
        for words, head, tail in sentences:
            assert 0 <= head < len(words)
            assert 0 <= tail < len(words)


def test_names_are_read_or_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "pid2name.json", {"P1": ["member of", "part of a club"], "P2": ["x"]})
    assert read_names(path) == {"P1": "member of", "P2": "x"}
    wrong: list[Any] = [[], {"P1": 3}, {"P1": []}, {"P1": [None, "x"]}, {"P1": {"name": "x"}}]
    wrong += [{"P1": "country"}, {"P1": ""}, {"P1": ["x"], "P2": None}, "P1", None]
    for bad in wrong:
        message = re.escape(f"{path} must hold {{relation: [name, description]}}, got {bad!r}")
        with pytest.raises(ValueError, match=message):
            read_names(write(path, bad))
    with pytest.raises(ValueError, match=r"pid2name\.json is empty\. Delete it"):
        read_names(write(path, b""))


@pytest.mark.parametrize("inside", [".", "fewrel", "data"])
@pytest.mark.parametrize("vectors", [".", "glove", "beside"])
def test_files_may_be_in_the_folder_or_a_subfolder(
    tmp_path: Path, inside: str, vectors: str
) -> None:
    (tmp_path / "a").mkdir()
    place = tmp_path / inside
    names = ("train_wiki.json", "val_wiki.json", "pid2name.json")
    files = [write(place / name, {}) for name in names]
    near = {".": place, "glove": place / "glove", "beside": tmp_path / "beside"}[vectors]
    files.append(write(near / "glove.6B.100d.txt", b""))
    layout = find_layout(tmp_path)
    assert layout.missing() == []
    assert sorted(layout.files()) == sorted(files)
    assert (layout.relations["train"], layout.relations["val"]) == (files[0], files[1])
    assert (layout.names, layout.vectors) == (files[2], files[3])
    other = write(tmp_path / "other.vec", b"")
    assert find_layout(tmp_path, other).vectors == other


def test_missing_files_are_named_with_their_source(tmp_path: Path) -> None:
    run = "is missing: run 'metapac data fetch fewrel', or take it from https://"
    train = f"train_wiki.json {run}github.com/thunlp/FewRel, folder data."
    val = f"val_wiki.json {run}github.com/thunlp/FewRel, folder data."
    glove = (
        f"a GloVe text file such as glove.6B.50d.txt {run}nlp.stanford.edu/data/glove.6B.zip, "
        "unpacked."
    )
    assert find_layout(tmp_path / "none").missing() == [train, val, glove]
    assert find_layout(tmp_path).missing() == [train, val, glove]
    write(tmp_path / "sub" / "val_wiki.json", {})
    assert find_layout(tmp_path).missing() == [train, glove]
    write(tmp_path / "sub" / "train_wiki.json", {})
    assert find_layout(tmp_path).missing() == [glove]
    write(tmp_path / "glove.6B.50d.txt", b"")
    assert find_layout(tmp_path).missing() == []
    assert len(find_layout(tmp_path).files()) == 3

"""FewRel from the published files to encoded sentences and pools."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac.fewshot import fewrel
from metapac.fewshot.datasets.fewrel import missing, prepare
from tests.helpers.refusals import assert_refused
from tests.helpers.shared_data import needs_real_data, unpacked

Fresh = Callable[[], Path]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """Folders, a new one for each example: a file that is replaced at once may look unchanged."""
    return lambda: tmp_path_factory.mktemp("fewrel")


def sentence(*tokens: str, head: int = 0, tail: int = 1) -> dict[str, Any]:
    return {"tokens": tokens, "h": ["x", "Q1", [[head]]], "t": ["y", "Q2", [[tail], [0]]]}


def publish(folder: Path, train: Any, val: Any, vectors: str | bytes, names: Any = None) -> Path:
    """Write a copy of FewRel in its published layout; bytes are written as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {"train_wiki.json": train, "val_wiki.json": val, "pid2name.json": names}
    for name, content in files.items():
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (folder / name).write_bytes(raw)
    if names is None:
        (folder / "pid2name.json").unlink()
    raw = vectors if isinstance(vectors, bytes) else vectors.encode()
    (folder / "glove.6B.50d.txt").write_bytes(raw)
    return folder


SMALL: dict[str, Any] = {
    "train": {
        "P9": [sentence("The", "River", "\xa0", "Qqq", head=1, tail=3)],
        "P2": [sentence("of", "THE"), sentence("the", *["of"] * 128, "behind", tail=129)],
    },
    "val": {"P5": [sentence("river", "river", "Elbe", head=2)]},
    "vectors": "river 1 3\nthe 3 6\n\xa0 90 90\nbehind 7 7\nunused 8 8\n",
    "names": {"P9": ["mouth of", "where it ends"], "P5": ["crosses", ""]},
}


def publish_sizes(folder: Path, train: list[int], val: list[int]) -> Path:
    """Write relations P10, P11, ... of these sizes; the first word identifies the relation."""
    words = [f"w{i}" for i in range(10, 10 + len(train) + len(val))]
    made = [
        (f"P{word[1:]}", [sentence(word, "x", tail=i % 2) for i in range(size)])
        for word, size in zip(words, [*train, *val], strict=True)
    ]
    vectors = "".join(f"{word} {word[1:]} 1\n" for word in words)
    return publish(folder, dict(made[: len(train)]), dict(made[len(train) :]), vectors)


def test_a_small_copy_is_encoded_as_by_hand(tmp_path: Path) -> None:
    data = prepare(publish(tmp_path / "in", **SMALL), home=tmp_path)
    kinds = {"words": "float32", "x": "int32", "y": "int16", "split": "int8"}
    assert {name: str(array.dtype) for name, array in data.arrays.items()} == kinds
    # Padding, the mean for missing words, then the file's order; "behind" is truncated.
    assert data["words"].tolist() == [[0, 0], [2, 4.5], [1, 3], [3, 6]]
    assert data["y"].tolist() == [0, 1, 1, 2]
    assert data["split"].tolist() == [0, 0, 0, 1]
    assert data["x"][0, :4].tolist() == [[3, -1, -3], [2, 0, -2], [1, 1, -1], [1, 2, 0]]
    assert data["x"][3, :3].tolist() == [[2, -2, -1], [2, -1, 0], [1, 0, 1]]
    assert data["x"][2, :, 2].tolist() == [*range(-128, 0)]  # the entity is beyond the last token
    facts = {"classes": 2, "examples": 3, "smallest": 1, "largest": 2, "tokens": 134, "cut": 1}
    assert data.facts["splits"]["train"] == facts | {"covered": 4 / 134}
    assert data.facts["names"] == {"P9": "mouth of", "P2": "P2", "P5": "crosses"}
    assert data.facts["counts"] == {"train": [1, 2], "val": [1]}
    assert "covers only 3% of the tokens of train_wiki.json" in data.facts["notes"][2]


@st.composite
def sentences(draw: st.DrawFn) -> dict[str, Any]:
    length = draw(st.integers(1, 140))
    tokens = draw(st.lists(st.sampled_from(["A", "b", "c", " "]), min_size=length, max_size=length))
    head, tail = (draw(st.integers(0, length - 1)) for _ in range(2))
    return sentence(*tokens, head=head, tail=tail)


piece = st.text(st.characters(exclude_characters=" \n", exclude_categories=["Cs", "Lu", "Lt", "N"]))
letters = st.text("abc.@\u2028é", min_size=1, max_size=3)  # never a number
words_with_spaces = st.builds(
    lambda first, rest: " ".join([f"w{first}", *rest]), piece, st.lists(letters, max_size=2)
).filter(lambda word: word == word.lower() == word.strip())


@settings(max_examples=60)
@given(
    words=st.lists(words_with_spaces, min_size=1, max_size=8, unique=True),
    width=st.integers(1, 4),
    header=st.booleans(),
    end=st.sampled_from(["\n", " \n", "\r\n"]),
    data=st.data(),
)
def test_vectors_of_the_words_are_read_in_the_order_of_the_file(
    fresh: Fresh, words: list[str], width: int, header: bool, end: str, data: st.DataObject
) -> None:
    lines = [*words, *data.draw(st.lists(st.sampled_from(words), max_size=3))]
    vectors = np.random.default_rng(len(lines)).normal(size=(len(lines), width)).round(5)
    wanted = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=4))
    text = f"{len(lines)} {width}\n" if header else ""
    for word, vector in zip(lines, vectors, strict=True):
        text += " ".join([word, *(f"{v:.5f}" for v in vector)]) + end
    used = {"P1": [sentence(*wanted, "not there", "\ud800")]}
    folder = publish(fresh(), used, {"P2": used["P1"]}, text)
    prepared = prepare(folder, home=folder)
    first = [i for i, word in enumerate(words) if word in wanted]  # repeats come later
    np.testing.assert_array_equal(prepared["words"][2:], vectors[first].astype(np.float32))


def test_damaged_files_are_named_and_leave_nothing_behind(tmp_path: Path) -> None:
    vectors = {
        "": "line 1",
        "<html> moved </html>\n": "line 1",
        b"PK\x03\x04\xff\xfe\n": "line 1 packed",
        "the 1 2\nriver 3\n": "line 2",
        "the 1 2\nriver 3 4 5\n": "line 2",
        "the 1 2\n\n": "line 2",
        "the 1 2\nriver\t3\t4\n": "line 2",
        "2 2\nthe 1 2\nriver 3\n": "line 3",
        "3 2\nthe 1 2\nriver 3 4\n": "3 words 2",
        "of 1 2\nthe 3 x\n": "line 2 x",
        "of 1 2\nthe 3 nan\n": "line 2 nan",
        "of 1 2\nthe 1e39 3\n": "line 2 1e39",
        "der 1 2\nFluss 3 4\n": "none lower-cased",
    }
    cases: list[tuple[str, Any, str]] = [
        ("vectors", text, f"glove.6B.50d.txt {words}") for text, words in vectors.items()
    ]
    for raw in (b"", b'{"P1": [\n  {"tokens": [', b"<html>", b'{"P1": ["\xff"]}', b"[" * 100_000):
        cases += [("train", raw, "train_wiki.json fetch"), ("names", raw, "pid2name.json fetch")]
    cases += [("train", b'{"P1": [], "P1": []}', "train_wiki.json twice")]
    empty: list[Any] = [[], {}, {"P1": {}}, {"P1": []}]
    cases += [("val", content, "val_wiki.json") for content in empty]
    good = sentence("the", "river")
    bad: list[Any] = [7, "text", {}, {key: good[key] for key in ("tokens", "h")}]
    bad += [{**good, "tokens": tokens} for tokens in ([], "The River", ["a", 1], None)]
    bad += [{**good, "h": entity} for entity in (["x", "Q1"], {"name": "x"}, ["x", "Q1", []])]
    mentions: list[Any] = [[[]], [1, 2], [["1"]], [[True]], [[1.0]], "12", [[2]], [[-1]]]
    bad += [{**good, "t": ["x", "Q1", at]} for at in mentions]
    cases += [("val", {"P1": [good, item]}, "val_wiki.json 'P1' sentence 2 of 2") for item in bad]
    names = [[], {"P1": 3}, {"P1": []}, {"P1": [None, "x"]}, {"P1": "country"}, "P1"]
    cases += [("names", content, "pid2name.json name") for content in names]
    shared = SMALL["val"] | {"P2": SMALL["val"]["P5"]}
    cases += [("val", shared, "train_wiki.json val_wiki.json 'P2' both")]
    for kind, content, words in cases:
        publish(tmp_path / "in", **SMALL | {kind: content})
        assert_refused(words, prepare, tmp_path / "in", home=tmp_path / "home")
    assert not list((tmp_path / "home").rglob("*.*"))


def test_files_may_be_in_a_subfolder_and_vectors_elsewhere(tmp_path: Path) -> None:
    publish(tmp_path / "in" / "data", **SMALL)
    (tmp_path / "in" / "a").mkdir()
    seen: list[tuple[str, int, int | None]] = []
    data = prepare(tmp_path / "in", home=tmp_path, progress=lambda *call: seen.append(call))
    size = (tmp_path / "in" / "data" / "glove.6B.50d.txt").stat().st_size
    assert seen == [("reading word vectors", size, size)]
    vectors = tmp_path / "other.vec"
    vectors.write_text("elbe 5 6 7\n")
    other = prepare(tmp_path / "in", glove=vectors, home=tmp_path)
    assert other.facts["vectors"] == {"file": "other.vec", "width": 3}
    assert data.checksum != other.checksum
    (tmp_path / "in" / "data" / "pid2name.json").unlink()
    assert prepare(tmp_path / "in", home=tmp_path).facts["names"]["P9"] == "P9"


def test_the_vectors_of_the_paper_are_preferred(tmp_path: Path) -> None:
    publish(tmp_path, **SMALL)
    for name in ("6B.100d", "6B.300d", "twitter.27B.25d", "twitter.27B.50d", "840B.300d", "mine"):
        (tmp_path / f"glove.{name}.txt").write_text(SMALL["vectors"])
    for name in ("6B.50d", "twitter.27B.50d", "6B.100d", "6B.300d", "twitter.27B.25d", "840B.300d"):
        data = prepare(tmp_path, home=tmp_path / "home")
        assert data.facts["vectors"]["file"] == f"glove.{name}.txt"
        (tmp_path / f"glove.{name}.txt").unlink()


def test_pools_are_whole_relations_and_the_largest_are_not_for_training(tmp_path: Path) -> None:
    publish_sizes(tmp_path / "in", train=[3, 7, 4, 9, 5], val=[6, 2])
    prepare(tmp_path, home=tmp_path / "home")
    pools, vectors = fewrel(calibration=2, validation=1, home=tmp_path / "home")
    expected = {
        "calibration": ["P11", "P13"],
        "validation": ["P14"],
        "train": ["P10", "P12"],
        "test": ["P15", "P16"],
    }
    sizes = dict(zip([f"P{i}" for i in range(10, 17)], [3, 7, 4, 9, 5, 6, 2], strict=True))
    for name, relations in expected.items():
        pool = getattr(pools, name)
        assert (pool.name, pool.names) == (name, relations)
        assert [len(rows) for rows in pool.positions] == [sizes[relation] for relation in relations]
        first = vectors[pool.x[:, 0, 0], 0].astype(int)  # its vector identifies the relation
        assert [f"P{number}" for number in first] == pool.y.tolist()
    # Mapped arrays are read-only, copies are not: only rows that are not contiguous are copied.
    assert not pools.test.x.flags.writeable
    assert pools.train.x.flags.writeable


def test_ties_are_broken_at_random_and_reproducibly(tmp_path: Path) -> None:
    prepare(publish_sizes(tmp_path / "in", train=[5, 9, 5, 5, 1, 5], val=[2]), home=tmp_path)

    def chosen(validation: int = 0, rng: Any = 0) -> tuple[str, ...]:
        pools, _ = fewrel(calibration=3, validation=validation, rng=rng, home=tmp_path)
        return tuple(pools.calibration.names)

    assert chosen() == chosen(validation=2) == chosen(rng=np.random.default_rng(0))
    # Six pairs beside the largest; that one is never drawn has a chance of 6 (5/6)^100 < 1e-7.
    pairs = set(combinations(["P10", "P12", "P13", "P15"], 2))
    assert {chosen(rng=rng) for rng in range(100)} == {tuple(sorted(("P11", *p))) for p in pairs}


@needs_real_data
def test_real_data(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="unpacking the real data needs Pillow")
    unpacked("fewrel", tmp_path)
    assert missing(tmp_path) == []
    facts = prepare(tmp_path, home=tmp_path / "home").facts
    known, new = facts["splits"]["train"], facts["splits"]["val"]
    assert (known["classes"], known["examples"]) == (64, 33_572)
    assert (known["smallest"], known["largest"]) == (264, 700)
    assert (new["classes"], new["examples"], new["smallest"]) == (16, 11_200, 700)
    covered = sum(part["covered"] * part["tokens"] for part in (known, new))
    assert round(covered / (known["tokens"] + new["tokens"]), 3) == 0.908
    assert facts["notes"] == ["train was published as 64 relations of 700 sentences"]
    assert facts["names"]["P931"] == "place served by transport hub"
    pools, vectors = fewrel(home=tmp_path / "home")
    assert vectors.shape == (59_586, 100)
    sizes = [len(pool.names) for pool in (pools.train, pools.calibration, pools.test)]
    assert sizes == [48, 16, 16]
    for pool in (pools.calibration, pools.test):
        task = pool.tasks(500, ways=5, shots=5, queries=500, rng=0)[499]
        assert np.asarray(task.query_x).shape == (2500, 128, 3)
        assert pool.x[:, :, 0].max() < len(vectors)

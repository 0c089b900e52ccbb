"""Stored vectors: every layout gives the same arrays, and bad files are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from metapac.fewshot.vectors import read_examples, read_vectors
from metapac.provenance import Provenance, write_scores
from tests.helpers.refusals import assert_refused

X = np.arange(12, dtype=np.float32).reshape(6, 2)
Y = np.array(["ant", "bee", "ant", "bee", "\N{SNOWMAN}", "ant"])
G = np.array([0, 0, 1, 1, 2, 2])


def save(path: Path, array: Any) -> str:
    np.save(path, array)
    return str(path)


def table(path: Path, **columns: Any) -> Path:
    parquet.write_table(pa.table(columns), path)
    return path


def test_every_layout_gives_the_same_vectors(tmp_path: Path) -> None:
    labels, groups = save(tmp_path / "y.npy", Y), save(tmp_path / "g.npy", G)
    text = tmp_path / "y.txt"
    text.write_text("\n".join(Y) + "\n", encoding="utf-8")
    x = Path(save(tmp_path / "x.npy", X))
    both = tmp_path / "both.npz"
    np.savez(both, x=X, y=Y, groups=G)
    lists = table(tmp_path / "a.parquet", label=Y.tolist(), site=G, vector=X.tolist())
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 2)
    sized = table(tmp_path / "b.parquet", kind=Y.tolist(), site=G, vector=fixed)
    wide = table(tmp_path / "c.parquet", label=Y.tolist(), f_0=X[:, 0], f_1=X[:, 1], site=G)
    for found in (
        read_vectors(x, labels, groups),
        read_vectors(x, str(text), groups),
        read_vectors(both),
        read_vectors(both, labels, groups),
        read_vectors(lists, None, "site"),
        read_vectors(sized, "kind", "site", "vector"),
        read_vectors(wide, "label", "site", "f_*"),
        read_vectors(wide, "label", "site", ["f_0", "f_1"]),
        read_vectors(wide, None, "site"),
    ):
        np.testing.assert_array_equal(found.x, X)
        np.testing.assert_array_equal(found.y, Y)
        np.testing.assert_array_equal(found.arrays[2], G)
        assert found.names[found.codes].tolist() == Y.tolist()
    assert read_vectors(wide, None, "site").columns == ("f_0", "f_1")
    assert read_vectors(x, labels).groups is None
    whole = read_vectors(Path(save(tmp_path / "i.npy", X.astype(np.int8))), groups, labels)
    assert [whole.x.dtype.name, whole.y.dtype.name] == ["float64", "int64"]
    half = Path(save(tmp_path / "h.npy", X.astype(np.float16)))
    assert read_vectors(half, groups).x.dtype == np.float16


def test_bad_files_are_named(tmp_path: Path) -> None:
    for array, y, words in (
        (X, Y[:5], "labels 5 x.npy 6"),
        (np.where(X > 4, np.inf, X), Y, "x.npy infinity 4 row 2"),
        (X.reshape(6, 1, 2), Y, "x.npy (6, 1, 2)"),
        (X[:, :0], Y, "x.npy (6, 0)"),
        (X[:0], Y[:0], "x.npy (0, 2)"),
        (X.astype(str), Y, "x.npy numbers <U"),
        (X, X, "labels (6, 2)"),
        (X, G + 0.5, "labels float64"),
    ):
        x, labels = Path(save(tmp_path / "x.npy", array)), save(tmp_path / "y.npy", y)
        assert_refused(words, read_vectors, x, labels)
    x, labels = Path(save(tmp_path / "x.npy", X)), save(tmp_path / "y.npy", Y)
    assert_refused("groups 6 5", read_vectors, x, labels, save(tmp_path / "g.npy", G[:5]))
    assert_refused("labels x.npy", read_vectors, x)
    assert_refused("columns Parquet x.npy", read_vectors, x, labels, None, "f_*")
    assert_refused("y.csv .npy .txt", read_vectors, x, str(tmp_path / "y.csv"))
    np.savez(tmp_path / "other.npz", images=X)
    assert_refused("other.npz images", read_vectors, tmp_path / "other.npz", labels)
    assert_refused("other.npz images", read_examples, tmp_path / "other.npz")
    for content in (x.read_bytes()[:-9], b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00\x09\x00{(\n"):
        x.write_bytes(content)
        assert_refused("x.npy complete", read_vectors, x, labels)
    np.save(x, np.array([None, 1]), allow_pickle=True)
    assert_refused("x.npy allow_pickle", read_vectors, x, labels)


def test_bad_tables_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    no_text = pa.array([], pa.string())
    for columns, words in (
        ({"y": Y.tolist(), "v": X.tolist()}, "labels 'label' y, v"),
        ({"label": ["a", None], "v": [[0.0], [1.0]]}, "labels 'label' null"),
        ({"label": ["a", "b"], "text": ["c", "d"]}, "columns lists numbers"),
        ({"label": ["a"], "v": [[0.0]], "w": [[1.0]]}, "columns v (list w (list"),
        ({"label": ["a", "b"], "v": [[0.0], [1.0, 2.0]]}, "a.parquet {1, 2}"),
        ({"label": ["a", "b"], "v": [[0.0, 1.0], None]}, "a.parquet null"),
        ({"label": ["a"], "v": [[0.0, None]]}, "a.parquet 1 null"),
        ({"label": ["a"], "v": pa.array([None], pa.list_(pa.float32()))}, "a.parquet (1, 0)"),
        ({"label": ["a", "b"], "f": [None, 1.0], "g": [1.0, 2.0]}, "a.parquet NaN"),
        ({"label": no_text, "v": pa.array([], pa.list_(pa.float32()))}, "a.parquet (0, 0)"),
        ({"label": no_text, "f": pa.array([], pa.float32())}, "a.parquet (0, 1)"),
    ):
        assert_refused(words, read_vectors, table(path, **columns))
    single = table(path, label=["a"], v=[[0.0]])
    assert_refused("columns label (string) v (list", read_vectors, single, None, None, "w")
    assert_refused("groups 'site'", read_vectors, single, None, "site")
    write_scores(path, {"label": [0], "scores": [[0.5, 0.5]]}, Provenance(model="ProtoNet"))
    assert_refused("a.parquet metapac score", read_vectors, path)
    path.write_bytes(b"nothing")
    assert_refused("a.parquet complete Parquet", read_vectors, path)

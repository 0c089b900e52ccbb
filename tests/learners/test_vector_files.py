"""Stored vectors: every layout gives the same arrays, and bad files are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from metapac import InvalidInput
from metapac.fewshot.learners.vectors import build_vector_learner
from metapac.fewshot.options import Embeddings
from metapac.fewshot.vectors import read_vectors
from metapac.provenance import Provenance, write_scores

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
        read_vectors(x, labels, groups, None),
        read_vectors(x, str(text), groups, None),
        read_vectors(both, None, None, None),
        read_vectors(both, labels, groups, None),
        read_vectors(lists, None, "site", None),
        read_vectors(sized, "kind", "site", "vector"),
        read_vectors(wide, "label", "site", "f_*"),
        read_vectors(wide, None, "site", None),
    ):
        np.testing.assert_array_equal(found.x, X)
        np.testing.assert_array_equal(found.y, Y)
        assert found.groups is not None
        np.testing.assert_array_equal(found.groups, G)
        assert found.names.tolist() == sorted(set(Y.tolist()))
        assert found.names[found.codes].tolist() == Y.tolist()
        assert len(found.arrays) == 3
    assert read_vectors(x, labels, None, None).groups is None


def test_numbers_become_floats_and_labels_text_or_whole_numbers(tmp_path: Path) -> None:
    path = Path(save(tmp_path / "x.npy", X.astype(np.int8)))
    found = read_vectors(path, save(tmp_path / "y.npy", G.astype(bool)), None, None)
    assert [found.x.dtype.name, found.y.dtype.name] == ["float64", "int64"]
    half = Path(save(tmp_path / "x.npy", X.astype(np.float16)))
    assert read_vectors(half, save(tmp_path / "y.npy", G), None, None).x.dtype == np.float16


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X[:5], Y, r"labels must have one entry for each of the 5 vectors in .*x\.npy, got 6\."),
        (np.where(X == 4, np.nan, X), Y, r"has 1 vector with NaN or infinity \(first in row 2\)"),
        (np.where(X > 4, np.inf, X), Y, r"has 4 vectors with NaN or infinity \(first in row 2\)"),
        (X[0], Y, r"must hold vectors of numbers, .* got shape \(2,\) of float32"),
        (X[:, :0], Y, r"got shape \(6, 0\)"),
        (X[:0], Y[:0], r"got shape \(0, 2\)"),
        (X.astype(str), Y, r"must hold vectors of numbers, .* of <U32"),
        (X, X, r"labels must be a list of strings or whole numbers, got shape \(6, 2\)"),
        (X, G + 0.5, r"labels must be a list of strings or whole numbers, .* float64"),
    ],
)
def test_bad_arrays_are_named(tmp_path: Path, x: Any, y: Any, message: str) -> None:
    path, labels = Path(save(tmp_path / "x.npy", x)), save(tmp_path / "y.npy", y)
    with pytest.raises(InvalidInput, match=message):
        read_vectors(path, labels, None, None)


def test_bad_files_are_named(tmp_path: Path) -> None:
    x, labels = Path(save(tmp_path / "x.npy", X)), save(tmp_path / "y.npy", Y)
    with pytest.raises(InvalidInput, match=r"x\.npy has no classes\. Pass them as labels: a file"):
        read_vectors(x, None, None, None)
    with pytest.raises(InvalidInput, match=r"columns is for Parquet files, and .*npy is not one"):
        read_vectors(x, labels, None, "f_*")
    with pytest.raises(FileNotFoundError):
        read_vectors(x, str(tmp_path / "none.npy"), None, None)
    with pytest.raises(InvalidInput, match=r"y\.csv must be an \.npy file, or a \.txt file"):
        read_vectors(x, str(tmp_path / "y.csv"), None, None)
    x.write_bytes(x.read_bytes()[:-9])
    with pytest.raises(InvalidInput, match=r"x\.npy is not a complete NumPy file"):
        read_vectors(x, labels, None, None)
    np.save(x, np.array([None, 1]), allow_pickle=True)
    with pytest.raises(InvalidInput, match=r"x\.npy is not a complete NumPy file .*allow_pickle"):
        read_vectors(x, labels, None, None)
    np.savez(tmp_path / "other.npz", images=X)
    with pytest.raises(InvalidInput, match=r"must hold an array x of vectors; it has: images\."):
        read_vectors(tmp_path / "other.npz", labels, None, None)


def test_bad_tables_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"

    def read(labels: str | None = None, columns: str | None = None, **table_columns: Any) -> Any:
        return read_vectors(table(path, **table_columns), labels, None, columns)

    with pytest.raises(InvalidInput, match=r"has no column 'label'; it has: y, v\. Pass the"):
        read(y=Y.tolist(), v=X.tolist())
    with pytest.raises(InvalidInput, match="column 'label' has 1 null value. Drop those rows"):
        read(label=["a", None], v=[[0.0], [1.0]])
    with pytest.raises(InvalidInput, match="columns must name one column of lists of numbers, or"):
        read(label=["a", "b"], text=["c", "d"])
    with pytest.raises(InvalidInput, match=r"a\.parquet has: label \(string\), v \(list"):
        read(label=["a"], v=[[0.0]], columns="w")
    with pytest.raises(InvalidInput, match="columns must name one column of lists"):
        read(label=["a"], v=[[0.0]], w=[[1.0]])
    with pytest.raises(InvalidInput, match="0 null values and lengths from 1 to 2. Drop the rows"):
        read(label=["a", "b"], v=[[0.0], [1.0, 2.0]])
    with pytest.raises(InvalidInput, match="got 1 null values and lengths from 2 to 2"):
        read(label=["a", "b"], v=[[0.0, 1.0], None])
    with pytest.raises(InvalidInput, match="got 1 null values and lengths from 2 to 2"):
        read(label=["a"], v=[[0.0, None]])
    with pytest.raises(InvalidInput, match="has 1 vector with NaN"):
        read(label=["a", "b"], f=[None, 1.0], g=[1.0, 2.0])
    with pytest.raises(InvalidInput, match=r"must hold vectors of numbers, .* got shape \(0, 0\)"):
        read(label=pa.array([], pa.string()), v=pa.array([], pa.list_(pa.float32())))
    with pytest.raises(InvalidInput, match=r"must hold vectors of numbers, .* got shape \(0, 1\)"):
        read(label=pa.array([], pa.string()), f=pa.array([], pa.float32()))
    write_scores(path, {"label": [0], "scores": [[0.5, 0.5]]}, Provenance(model="ProtoNet"))
    with pytest.raises(InvalidInput, match="is a table that 'metapac score' wrote, and holds scor"):
        read_vectors(path, None, None, None)
    path.write_bytes(b"nothing")
    with pytest.raises(InvalidInput, match=r"a\.parquet is not a complete Parquet file"):
        read_vectors(path, None, None, None)


@pytest.mark.parametrize(
    ("options", "description"),
    [
        ({}, "prototypes (metric euclidean, temperature 1.0)"),
        ({"metric": "cosine"}, "prototypes (metric cosine, temperature 1.0)"),
        ({"learner": "ridge", "penalty": 3.0}, "ridge (penalty 3.0, temperature 1.0)"),
        ({"learner": "logistic", "penalty": 0.5}, "logistic (penalty 0.5)"),
    ],
)
def test_a_learner_is_built_by_name(options: dict[str, Any], description: str) -> None:
    learner, described = build_vector_learner(Embeddings(**options))
    assert described == description
    assert options.items() <= {"learner": options.get("learner"), **vars(learner)}.items()

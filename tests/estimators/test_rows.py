"""Rows of arrays, frames, sparse matrices, tensors and lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from metapac import InvalidInput, sklearn

X = np.arange(24.0).reshape(8, 3)
FRAME = pd.DataFrame(X, columns=["u", "v", "w"], index=list("hgfedcba"))


class OnlyArray:
    """What scikit-learn calls not an array: it can become one, and has no length."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return X


CONTAINERS: dict[str, Any] = {
    "numpy": X,
    "pandas": FRAME,
    "polars": pl.from_pandas(FRAME),
    "pyarrow": pa.table({name: FRAME[name].to_numpy() for name in FRAME}),
    "csr": sparse.csr_array(X),
    "coo": sparse.coo_array(X),
    "csc matrix": sparse.csc_matrix(X),
    "torch": torch.tensor(X),
    "list": X.tolist(),
    "array only": OnlyArray(),
}
EVERY = pytest.mark.parametrize("x", CONTAINERS.values(), ids=list(CONTAINERS))


@EVERY
def test_rows_are_taken_by_position(x: Any) -> None:
    assert sklearn.count_rows("X", x) == 8
    for rows in ([3, 0, 3], [7], []):
        taken = sklearn.take_rows(x, np.array(rows, dtype=np.int64))
        if sparse.issparse(taken):
            taken = taken.toarray()
        np.testing.assert_array_equal(np.asarray(taken).reshape(-1, 3), X[rows])


def test_frames_keep_their_names() -> None:
    rows = np.array([1, 2])
    assert list(sklearn.take_rows(FRAME, rows).columns) == ["u", "v", "w"]
    assert sklearn.take_rows(pl.from_pandas(FRAME), rows).columns == ["u", "v", "w"]


@pytest.mark.parametrize("x", ["abc", 3, None, np.array(1.0), {"u": [1]}], ids=repr)
def test_what_has_no_rows_is_refused(x: Any) -> None:
    with pytest.raises(InvalidInput, match="X must have an entry for each example, got "):
        sklearn.count_rows("X", x)


@EVERY
def test_columns_must_be_as_long_as_x(x: Any) -> None:
    sklearn.check_rows(x, y=range(8))
    with pytest.raises(InvalidInput, match="X and y must have the same length, got 8 and 7"):
        sklearn.check_rows(x, y=range(7))


def test_pandas_columns_must_have_the_index_of_x() -> None:
    sklearn.check_rows(FRAME, y=FRAME["u"])
    with pytest.raises(InvalidInput, match="X and groups are pandas columns with different ind"):
        sklearn.check_rows(FRAME, groups=FRAME["u"][::-1])


def test_fit_parameters_are_cut_to_the_training_rows() -> None:
    params = {
        "weight": np.arange(8),
        "series": FRAME["u"],
        "list": list("abcdefgh"),
        "other": np.arange(7),
        "text": "abcdefgh",
        "mapping": dict.fromkeys(range(8)),
        "flag": True,
        "none": None,
        "scalar": np.array(8),
    }
    cut = sklearn.take_fit_params(params, 8, np.array([5, 1]))
    assert cut["weight"].tolist() == [5, 1]
    assert cut["series"].tolist() == [15.0, 3.0]
    assert cut["list"] == ["f", "b"]
    for name in ("other", "text", "mapping", "flag", "none", "scalar"):
        assert cut[name] is params[name]


SITES = np.array(list("xxxyyyzz"))
CODES = np.array([7, 7, 7, 3, 3, 3, 5, 5])


@pytest.mark.parametrize(
    ("x", "groups", "name"),
    [
        (FRAME.assign(site=SITES), pd.Series(SITES, name="site"), "'site'"),
        (pl.from_pandas(FRAME.assign(site=SITES)), pl.Series("site", SITES), "'site'"),
        (FRAME.assign(clinic=SITES), SITES, "'clinic'"),
        (FRAME.assign(clinic=SITES).convert_dtypes(), SITES, "'clinic'"),
        (pl.from_pandas(FRAME.assign(code=CODES)), pl.Series("site", SITES), "'code'"),
        (pa.table({"a": X[:, 0], "code": CODES}), SITES, "'code'"),
        (np.column_stack([X, CODES]), SITES, str(X.shape[1])),  # as floats
    ],
)
def test_the_column_of_the_groups_is_found(x: Any, groups: Any, name: str) -> None:
    with pytest.warns(UserWarning, match=f"olumn {name}.*leave such a column out of X"):
        sklearn.warn_of_group_column(x, groups, SITES)


def test_other_columns_pass_without_warning() -> None:
    sklearn.warn_of_group_column(X, pd.Series(SITES, name="site"), SITES)
    others = {
        "constant": np.zeros(8),
        "coarser": CODES == 7,  # two groups share a value
        "region": np.where(CODES == 7, 1, 2),
        "finer": np.arange(8),  # a value for each row
        "measured": CODES + 0.5,
        "missing": [None, *CODES[1:]],
        "not a number": np.where(CODES == 7, np.nan, CODES),
    }
    for column in others.values():
        sklearn.warn_of_group_column(FRAME.assign(other=column), SITES, SITES)
    sklearn.warn_of_group_column(["a text"] * 8, SITES, SITES)
    sklearn.warn_of_group_column(sparse.csr_matrix(np.column_stack([X, CODES])), SITES, SITES)
    # As many groups as rows, or one group: every column of codes would do.
    sklearn.warn_of_group_column(FRAME.assign(code=np.arange(8)), np.arange(8), np.arange(8))
    sklearn.warn_of_group_column(FRAME.assign(code=1), np.zeros(8), np.zeros(8))


@given(st.integers(1, 6), st.integers(0, 8))
def test_support_must_have_as_many_rows_as_in_calibration(shots: int, given_: int) -> None:
    support = X[:given_], np.arange(given_)
    if shots == given_:
        assert sklearn.as_support(support, shots) is not None
        return
    with pytest.raises(InvalidInput, match=f"support must hold {shots} examples.* got {given_}"):
        sklearn.as_support(support, shots)


@pytest.mark.parametrize("support", [None, X, (X,), 5])
def test_support_must_be_a_pair(support: Any) -> None:
    with pytest.raises(InvalidInput, match=r"support must be \(X, y\): the 2 labelled examples"):
        sklearn.as_support(support, 2)


def test_support_is_refused_without_shots() -> None:
    assert sklearn.as_support(None, 0) == (None, None)
    with pytest.raises(InvalidInput, match="fitted with shots=0. Leave it out."):
        sklearn.as_support((X, X), 0)
    with pytest.raises(InvalidInput, match="X and y must have the same length, got 2 and 1"):
        sklearn.as_support((X[:2], [1]), 2)


def test_a_model_that_looks_at_other_rows_is_refused() -> None:
    def centred(x: Any) -> Any:
        return x - x.mean(axis=0)

    def rounded(x: Any) -> Any:
        return x * (1 + 1e-5 * len(x))

    np.testing.assert_array_equal(sklearn.score_rows(lambda x: x, X), X)
    np.testing.assert_array_equal(sklearn.score_rows(rounded, X), rounded(X))

    def last_differs(x: Any) -> Any:
        return x + 1.0 * (np.arange(len(x)) == 7)[:, None]

    with pytest.raises(InvalidInput, match="the model gives row 7 the output"):
        sklearn.score_rows(last_differs, X)
    with pytest.raises(InvalidInput, match="the model gives row 0 .* among others"):
        sklearn.score_rows(centred, X)


def test_perfect_scores_are_pointed_out() -> None:
    with pytest.warns(UserWarning, match="every calibration row has the best possible score"):
        sklearn.warn_if_perfect(np.ones(20), 1.0)
    sklearn.warn_if_perfect(np.ones(19), 1.0)  # few rows show nothing
    sklearn.warn_if_perfect(np.append(np.ones(19), 0.999), 1.0)

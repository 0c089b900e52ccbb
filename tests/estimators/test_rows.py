"""Rows of arrays, frames, sparse matrices, tensors and lists; columns that give groups away."""

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
from sklearn.dummy import DummyRegressor

from metapac import InvalidInput
from metapac.data_checks import CHECKS
from metapac.sklearn import MetaPSRegressor
from tests.helpers.group_data import LEVELS

X = np.random.default_rng(0).random((32, 3))
Y = np.random.default_rng(1).random(32)
SITES = np.repeat(list("abcdefgh"), 4)
CODES = np.repeat([7, 3, 5, 1, 8, 2, 9, 4], 4)
FRAME = pd.DataFrame(X, columns=["u", "v", "w"], index=[f"row {i}" for i in range(32)])


class OnlyArray:
    """What scikit-learn calls not an array: it can become one, and has no length."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return X


class Recorder:
    """A regressor that keeps what it was fitted on. It is none of scikit-learn's."""

    def fit(self, x: Any, y: Any, **params: Any) -> None:
        self.x, self.y, self.params = x, y, params

    def predict(self, x: Any) -> Any:
        return np.zeros(x.shape[0] if hasattr(x, "shape") else len(x))


def fit(
    x: Any = X, groups: Any = SITES, estimator: Any = None, params: Any = None, **changes: Any
) -> Any:
    options: Any = {"on_infeasible": "trivial", "allow": CHECKS} | LEVELS | changes
    model = MetaPSRegressor(DummyRegressor() if estimator is None else estimator, **options)
    return model.fit(x, Y, groups, **params or {})


@pytest.mark.parametrize(
    "x",
    [
        X,
        FRAME,
        pl.from_pandas(FRAME),
        pa.table({name: FRAME[name].to_numpy() for name in FRAME}),
        sparse.csr_array(X),
        sparse.coo_array(X),
        sparse.csc_matrix(X),
        torch.tensor(X),
        X.tolist(),
        OnlyArray(),
    ],
    ids=lambda x: type(x).__name__,
)
def test_the_training_rows_are_taken_by_position_and_keep_their_type(x: Any) -> None:
    own = Recorder()
    model = fit(x, estimator=own)
    assert model.estimator_ is not own
    assert not hasattr(own, "x")
    rows = np.isin(SITES, model.training_groups_)
    taken = model.estimator_.x
    assert type(taken) is type(x) or isinstance(x, OnlyArray) or taken.format == "csr"
    values = taken.toarray() if sparse.issparse(taken) else np.asarray(taken)
    np.testing.assert_array_equal(values, X[rows])
    np.testing.assert_array_equal(model.estimator_.y, Y[rows])
    if hasattr(x, "columns"):
        assert getattr(taken, "column_names", list(taken.columns)) == ["u", "v", "w"]
    with pytest.raises(InvalidInput, match="X, y, groups must have an entry .*31"):
        fit(x, SITES[:-1])


def test_fit_parameters_are_cut_to_the_training_rows() -> None:
    params = {
        "weight": np.arange(32),
        "series": FRAME["u"],
        "list": [str(i) for i in range(32)],
        "other": np.arange(7),
        "pairs": [(X, Y)],
        "flag": True,
        "none": None,
    }
    model = fit(estimator=Recorder(), params=params)
    rows, cut = np.flatnonzero(np.isin(SITES, model.training_groups_)), model.estimator_.params
    assert cut["weight"].tolist() == rows.tolist()
    assert cut["series"].tolist() == X[rows, 0].tolist()
    assert cut["list"] == [str(i) for i in rows]
    for name in ("other", "pairs", "flag", "none"):
        assert cut[name] is params[name]


@pytest.mark.parametrize(
    ("x", "groups", "name"),
    [
        (FRAME.assign(site=SITES), pd.Series(SITES, name="site", index=FRAME.index), "'site'"),
        (FRAME.assign(site=Y), pd.Series(SITES, name="site", index=FRAME.index), "'site'"),
        (pl.from_pandas(FRAME.assign(site=SITES)), pl.Series("site", SITES), "'site'"),
        (FRAME.assign(clinic=SITES), SITES, "'clinic'"),
        (FRAME.assign(clinic=SITES).convert_dtypes(), SITES, "'clinic'"),
        (pl.from_pandas(FRAME.assign(code=CODES)), pl.Series("site", SITES), "'code'"),
        (pa.table({"a": X[:, 0], "code": CODES}), SITES, "'code'"),
        (np.column_stack([X, CODES]), SITES, str(X.shape[1])),  # as floats
    ],
)
def test_the_column_of_the_groups_is_found(x: Any, groups: Any, name: str) -> None:
    with pytest.warns(UserWarning, match=f"column {name} of X.*leave such a column out of X"):
        fit(x, groups)


def test_other_columns_pass_without_warning() -> None:
    fit(X, pd.Series(SITES, name="site"))
    others = {
        "constant": np.zeros(32),
        "coarser": CODES == 7,  # two groups share a value
        "region": np.where(CODES == 7, 1, CODES % 2),
        "finer": np.arange(32),  # a value for each row
        "measured": CODES + 0.5,
        "missing": [None, *CODES[1:]],
        "not available": pd.array([pd.NA, *SITES[1:]], dtype="string"),
        "not a number": np.where(CODES == 7, np.nan, CODES),
    }
    for column in others.values():
        fit(FRAME.assign(other=column))
    fit(["a text"] * 32)
    fit(sparse.csr_matrix(np.column_stack([X, CODES])))
    # As many groups as rows: every column of codes would do.
    fit(FRAME.assign(code=np.arange(32)), np.arange(32))


@given(st.integers(1, 3), st.integers(0, 5))
def test_support_must_have_as_many_rows_as_in_calibration(shots: int, given_: int) -> None:
    model, support = fit(shots=shots), (X[:given_], Y[:given_])
    if shots == given_:
        assert model.predict(X, support=support).tolist() == pytest.approx([Y[:shots].mean()] * 32)
        return
    with pytest.raises(InvalidInput, match=rf"support must be .* {shots} rows.* got {given_}\."):
        model.predict_interval(X, support=support)


@pytest.mark.parametrize("support", [None, X, (X,), 5])
def test_support_must_be_a_pair(support: Any) -> None:
    with pytest.raises(InvalidInput, match=r"support must be \(X, y\): 2 rows"):
        fit(shots=2).predict(X, support=support)


def test_support_is_checked() -> None:
    with pytest.raises(InvalidInput, match="support must be .* with shots=0"):
        fit().predict(X, support=(X, Y))
    with pytest.raises(InvalidInput, match=r"X, y must have an entry for each row: .*\[2, 1\]"):
        fit(shots=2).predict(X, support=(X[:2], [1.0]))
    with pytest.raises(InvalidInput, match="y must be finite"):
        fit(shots=2).predict(X, support=(X[:2], [1.0, np.inf]))

"""CDC Heart from the published files, or a table, to cleaned data, pools and a predictor."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac.fewshot import heart, heart_groups
from metapac.fewshot.datasets.cache import open_prepared
from metapac.fewshot.datasets.heart import missing, prepare, state_name
from metapac.fewshot.pools import GroupPool, Pools
from tests.helpers.refusals import assert_refused
from tests.helpers.sas_files import head, header, ibm, padded, write_transport
from tests.helpers.shared_data import needs_real_data, unpacked

Columns = dict[str, Any]
pytestmark = pytest.mark.usefixtures("one_thread")
MISSING = [".", "._", *(f".{chr(code)}" for code in range(ord("A"), ord("Z") + 1))]


def respondents(year: int, states: tuple[int, ...] = (1, 39), size: int = 30) -> Columns:
    """Answers of ``size`` respondents per state; one in ten had a heart attack and poor health."""
    rng = np.random.default_rng(year)
    rows = size * len(states)
    label = np.where(rng.random(rows) < 0.1, 1, 2)
    return {
        "_STATE": np.repeat(states, size).tolist(),
        "IDATE": [f"0101{year + 1}"] * rows,
        "SEQNO": [f"{year}{i:06}" for i in range(rows)],
        "_PSU": [year * 1e6 + i for i in range(rows)],
        "GENHLTH": (rng.integers(1, 4, rows) + 2 * (label == 1)).tolist(),
        "CVDINFR4": label.tolist(),
        "_AGE80": rng.integers(18, 81, rows).tolist(),
        "_LLCPWT": rng.lognormal(5, 1, rows).tolist(),
    }


def write_year(path: Path, columns: Columns) -> Path:
    text = {name: 10 for name, values in columns.items() if isinstance(values[0], str)}
    return write_transport(path, columns, text=text)


def write_table(path: Path, columns: Columns) -> Path:
    pa = pytest.importorskip("pyarrow")
    if path.suffix.lower() == ".csv":
        pytest.importorskip("pyarrow.csv").write_csv(pa.table(columns), path)
    else:
        pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of 2011 and 2012, with published and with modified names."""
    folder = tmp_path_factory.mktemp("brfss")
    first = respondents(2011)
    first["CVDINFR4"][:3] = [7, 9, "."]
    first["GENHLTH"][3] = ".A"
    write_year(folder / "LLCP2011.XPT ", first | {"OLD": [1] * 60})
    write_year(folder / "llcp2012.xpt", respondents(2012))
    (folder / "LLCP2011XPT.zip").write_bytes(b"")
    (folder / "LLCP2013.XPT").mkdir()  # some programs unpack into such a folder
    return folder


@pytest.fixture(scope="module")
def home(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    prepare(folder, home=home)
    return home


Fresh = Callable[[], Path]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """Folders, a new one for each example: a file that is replaced at once may look unchanged."""
    return lambda: tmp_path_factory.mktemp("surveys")


NAMES = ("A", "B", "C", "IDAY", "_PSU", "NOTE")


@st.composite
def surveys(draw: st.DrawFn) -> list[tuple[Columns, list[str]]]:
    """Some years with some of the columns, and which are text; values may be missing."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    years = []
    for _ in range(draw(st.integers(1, 3))):
        size = draw(st.integers(0, 40))
        names = [name for name in NAMES if name == "A" or rng.random() < 0.9]
        gaps = {name: 0.0 if name == "A" else rng.choice([0.02, 0.05, 0.1]) for name in names}
        columns: Columns = {
            name: [
                rng.choice(MISSING) if rng.random() < gaps[name] else float(rng.integers(4))
                for _ in range(size)
            ]
            for name in rng.permutation(names)
        }
        text = [name for name in names if name == "NOTE" or (name == "C" and rng.random() < 0.3)]
        columns["CVDINFR4"] = rng.choice([1.0, 2.0, 2.0, 7.0, 9.0, nan], size).tolist()
        columns["_STATE"] = rng.choice([1.0, 39.0, 39.0, nan], size).tolist()
        years.append((columns, text))
    return years


def clean_row_by_row(
    years: list[tuple[Columns, list[str]]],
) -> tuple[list[str], list[Any], Counter[str]]:
    """Return the features, the rows kept and the rows dropped, as the paper describes them."""
    total = sum(len(columns["_STATE"]) for columns, _ in years)
    features = []
    for name in ("A", "B", "C", "NOTE"):
        if any(name not in columns or name in text for columns, text in years):
            continue
        gaps = sum(isinstance(value, str) for columns, _ in years for value in columns[name])
        if gaps <= total * 5 / 100:
            features.append(name)
    kept, dropped = [], Counter[str]()
    for year, (columns, _) in enumerate(years, start=2011):
        for i, (label, state) in enumerate(
            zip(columns["CVDINFR4"], columns["_STATE"], strict=True)
        ):
            values = tuple(columns[name][i] for name in features)
            if label not in (1, 2):
                dropped["label unknown"] += 1
            elif isnan(state):
                dropped["year or state missing"] += 1
            elif any(isinstance(value, str) for value in values):
                dropped["feature missing"] += 1
            else:
                kept.append((year, state, int(label == 1), values))
    return features, kept, dropped


@given(years=surveys(), block=st.integers(1, 300))
def test_cleaning_agrees_with_a_reference_row_by_row(
    fresh: Fresh, years: list[tuple[Columns, list[str]]], block: int
) -> None:
    folder = fresh()
    for year, (columns, text) in enumerate(years, start=2011):
        write_transport(folder / f"LLCP{year}.XPT", columns, text=dict.fromkeys(text, 3))
    features, rows, dropped = clean_row_by_row(years)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metapac.fewshot.datasets.heart._BLOCK", block)
        if not rows:
            assert_refused(f"{folder} row is left of", prepare, folder, home=folder)
            return
        data = prepare(folder, home=folder)
    facts = data.facts
    order = {name: i for i, name in enumerate(facts["features"])}
    assert {*order} == {*features}
    reasons = [name for names in facts["features dropped"].values() for name in names]
    known = {name for columns, _ in years for name in columns} - {"CVDINFR4", "_STATE"}
    assert sorted([*order, *reasons]) == sorted(known)
    x = data["x"][:, [order[name] for name in features]]
    result = zip(data["year"], data["state"], data["y"], map(tuple, x), strict=True)
    assert list(result) == rows
    assert Counter(facts["rows dropped"]) == dropped
    kinds = {name: str(data[name].dtype) for name in ("x", "y", "year", "state")}
    assert kinds == {"x": "float32", "y": "int8", "year": "int16", "state": "int16"}
    groups = Counter(f"{year}-{int(state):02}" for year, state, _, _ in rows)
    sizes = Counter(year for year, *_ in rows)
    assert (facts["state-years"], facts["years"]) == (groups, sorted(sizes))
    assert facts["share positive"] == np.mean([y for _, _, y, _ in rows])
    assert facts["counts"] == {
        "rows read": sum(len(columns["_STATE"]) for columns, _ in years),
        "rows kept": len(rows),
        "positive": sum(y for _, _, y, _ in rows),
        "state-years": len(groups),
    }
    assert {int(year): split["rows"] for year, split in facts["splits"].items()} == sizes
    assert sum(split["state-years"] for split in facts["splits"].values()) == len(groups)


def test_a_feature_may_be_missing_in_exactly_5_percent_of_all_rows(tmp_path: Path) -> None:
    # Rows without a label count as well.
    columns = {"year": [2021] * 100, "state": [1] * 100, "label": [-1] * 80 + [0, 1] * 10}
    columns |= {"a": [1] * 100, "b": [-1] * 5 + [1] * 95, "c": [1] * 94 + [-1] * 6}
    facts = prepare(write_table(tmp_path / "x.parquet", columns), home=tmp_path).facts
    assert facts["features"] == ["a", "b"]
    assert facts["features dropped"]["missing in more than 5 %"] == ["c"]
    assert facts["rows dropped"]["label unknown"] == 80


def test_every_number_is_read_as_pandas_reads_it(fresh: Fresh) -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    exponents = rng.integers(-30, 30, (7, 200))
    values = np.ldexp(rng.integers(-(2**53), 2**53, (7, 200)).astype(float), exponents - 30)
    values[:, :8] = [0, 1, -1, 0.1, -118.625, 16.0**-14, 2.0**-20, 9999]
    columns = {f"V{i}": row.tolist() for i, row in enumerate(values)}
    columns |= {"CVDINFR4": [1.0] * 200, "_STATE": [39.0] * 200, "WIDE": ["y"] * 200}
    widths = {f"V{i}": i + 2 for i in range(7)}
    for entry in (140, 136):  # two lengths of a column's description
        path = fresh() / "LLCP2030.XPT"
        write_transport(path, columns, text={"WIDE": 80}, widths=widths, entry=entry)
        data = prepare(path, home=path.parent)
        names = [name for name in columns if name.startswith("V")]
        expected = pd.read_sas(path, format="xport", encoding="latin1")[names].to_numpy()
        assert data.facts["features"] == names
        np.testing.assert_array_equal(data["x"], expected.astype(np.float32))


def test_padding_is_no_row_and_blanks_belong_to_the_last_row(fresh: Fresh) -> None:
    for width, note in ((2, 1), (7, 60), (8, 79), (8, 0)):
        for rows in range(1, 14):
            columns: Columns = {"CVDINFR4": [1] * rows, "_STATE": [1] * rows, "A": [2.0] * rows}
            columns |= {"NOTE": [""] * rows} if note else {}
            path = fresh() / "LLCP2031.XPT"
            write_transport(path, columns, widths={"A": width}, text={"NOTE": note})
            assert prepare(path, home=path.parent)["x"].tolist() == [[2.0]] * rows


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    columns = {name: [1.0] * 7 for name in ("CVDINFR4", "_STATE", *"ABCDEFGHI")}
    path = write_transport(tmp_path / "LLCP2030.XPT", columns)
    whole, start = path.read_bytes(), len(head(dict.fromkeys(columns, (False, 8))))
    for length in reversed(range(len(whole))):
        os.truncate(path, length)
        assert bool(missing(path)) is (length != start), length  # a whole file without any row
    path.write_bytes(whole[:-80])
    assert_refused(f"{path} truncated fetch", prepare, path, home=tmp_path)
    assert missing(tmp_path / "LLCP2030.XPT")
    path.write_bytes(whole)
    assert missing(path) == []


def test_other_files_are_refused(tmp_path: Path) -> None:
    whole = head({"A": (False, 8), "B": (False, 8)})
    start = (8).to_bytes(4, "big") + bytes(52)
    at, counts = whole.index(header("NAMESTR")[:48]), header("NAMESTR", "000000 -12")
    contents = [b"", b"PK\3\4" + bytes(1000), whole.replace(b"NAMESTR", b"NAMSTV8")]
    contents += [whole.replace(start, start.replace(b"\10", new)) for new in (b"\11", b"\0")]
    contents += [whole[:at] + counts + whole[at + 80 :], whole.replace(b"MEMBER  ", b"MEMBER00")]
    shapes: list[dict[str, tuple[bool, int]]] = [{}, {"A": (False, 9)}, {"A": (False, 1)}]
    contents += [head(shape) for shape in [*shapes, {"A": (True, 0)}]]
    for content in contents:
        path = tmp_path / "LLCP2030.XPT"
        path.write_bytes(content + (padded(ibm(1.0) * 2) if content else b""))
        assert_refused(f"{path} SAS fetch", prepare, path, home=tmp_path)
        assert str(path) in missing(path)[0]
    path = write_year(tmp_path / "CDBRFS10.XPT", respondents(2010))
    assert_refused(f"{path} named year", prepare, path, home=tmp_path)
    for name in ("CVDINFR4", "_STATE"):
        columns = {key: values for key, values in respondents(2011).items() if key != name}
        for text in ({}, {name: ["x"] * 60}):
            path = write_year(tmp_path / "LLCP2011.XPT", columns | text)
            assert_refused(name, prepare, path, home=tmp_path)


def test_features_are_dropped_for_the_first_reason(folder: Path, home: Path) -> None:
    seen: list[Any] = []
    options: Columns = {"home": home / "other", "exclude": "_LLCPWT"}
    facts = prepare(folder, progress=lambda *call: seen.append(call), **options).facts
    assert seen == [("reading surveys", done, 240) for done in (60, 120, 180, 240)]
    assert facts["features"] == ["GENHLTH", "_AGE80"]
    assert facts["features dropped"] == {
        "date or sequence number": ["_PSU", "IDATE", "SEQNO"], "excluded": ["_LLCPWT"],
        "text": [], "not in every year": ["OLD"], "missing in more than 5 %": [],
    }  # fmt: skip
    dropped = {"label unknown": 3, "year or state missing": 0, "feature missing": 1}
    assert facts["rows dropped"] == dropped


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".CSV"])
def test_a_table_gives_the_same_data_as_the_published_files(tmp_path: Path, suffix: str) -> None:
    years = {year: respondents(year) for year in (2011, 2012)}
    for year, columns in years.items():
        write_year(tmp_path / f"LLCP{year}.XPT", columns)
    first = prepare(tmp_path, home=tmp_path / "home 1")
    names = [name for name in years[2011] if name not in ("IDATE", "SEQNO")]
    table = {name: years[2011][name] + years[2012][name] for name in names}
    table |= {"Year": [2011] * 60 + [2012] * 60}
    second = prepare(write_table(tmp_path / f"x{suffix}", table), home=tmp_path / "home 2")
    for name in ("x", "y", "year", "state"):
        np.testing.assert_array_equal(first[name], second[name])
    facts = ("state-years", "features", "rows dropped", "counts", "splits")
    assert [first.facts[name] for name in facts] == [second.facts[name] for name in facts]


def test_csv_may_change_its_mind(tmp_path: Path) -> None:
    # Whole numbers, or nothing at all, in the first block of 1 MiB say nothing of the next.
    lines = ["year,state,label,a,b", *["2021,1,0,1,"] * 100_000, *["2021,1,1,2.5,3"] * 99, ""]
    path = tmp_path / "x.csv"
    path.write_text("\n".join(lines))
    data = prepare(path, home=tmp_path)
    assert (data["x"].sum(), data.facts["features"]) == (100_000 + 2.5 * 99, ["a"])
    path.write_text("\n".join([*lines, "2021,1,0,x,3"]))
    assert_refused(f"{path} 'x'", prepare, path, home=tmp_path)


def test_tables_that_cannot_be_cleaned_are_refused(tmp_path: Path) -> None:
    row: Columns = {"year": [2021, 2022], "state": [1, 39], "label": [0, 1], "a": [5, 6]}
    brfss = {"year": [2021] * 2, "state": [1] * 2, "a": [5, 6], "CVDINFR4": [1, 0]}
    cases: list[tuple[Columns, Columns, str]] = [
        ({"years": [1], "state": [1], "label": [1]}, {}, "year years"),
        (row | {"State_FIPS": [1, 2]}, {}, "state State_FIPS"),
        (row, {"label": "A"}, "label 'A'"),
        (row | {"city": ["x", "y"], "note": ["x", "y"]}, {"exclude": "note"}, "exclude city"),
        (row | {"state": ["Ohio", "Utah"]}, {"exclude": ["state"]}, "state FIPS"),
        (row | {"label": [7, 9]}, {}, "label 0, 1 7, 9 refused"),
        (brfss, {}, "CVDINFR4 1, 2 0"),
        (row | {"state": [39.5, 1]}, {}, "state 39.5"),
        (row | {"state": [0, 1]}, {}, "state 0"),
        (row | {"state": [1, 100]}, {}, "state 100"),
        (row | {"year": [2011, 11]}, {}, "year 11"),
        (row | {"a": [1e60, 1]}, {}, "a 1e+60 exclude"),
        (row | {"a": [1, float("inf")]}, {}, "a inf"),
        (row | {"label": [-1, -1]}, {}, "row is left of 2 label unknown: 2"),
        ({**row, "a": [-1, -1]}, {}, "feature is left missing"),
    ]
    for columns, options, words in cases:
        path = write_table(tmp_path / "heart.parquet", columns)
        assert_refused(f"heart.parquet {words}", prepare, path, home=tmp_path, **options)
    assert_refused("exclude '_X' a", prepare, path, home=tmp_path, exclude=["_X"])
    for name, content in (
        ("heart.csv", b""),
        ("heart.csv", b"year,state,label,a\n2021,1,0\n"),
        ("heart.csv", b"year,state,label,a,a\n2021,1,0,1,2\n"),
        ("heart.csv", b"year,state,label,\xff\xfe\n2021,1,0,1\n"),
        ("heart.parquet", b""),
        ("heart.parquet", b"year,state,label,a\n2021,1,0,1\n"),
    ):
        (tmp_path / name).write_bytes(content)
        assert_refused(name, prepare, tmp_path / name, home=tmp_path)
        assert str(tmp_path / name) in missing(tmp_path / name)[0]
    assert not list(tmp_path.rglob("*.npy"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(ModuleNotFoundError, match=r"pyarrow.*metapac\[data\]"):
            prepare(tmp_path / "heart.csv")


def test_a_folder_holds_yearly_files_or_one_table(tmp_path: Path) -> None:
    (tmp_path / "heart").mkdir()
    columns = respondents(2021) | {"YEAR": [2021] * 60}
    path = write_table(tmp_path / "heart" / "heart.parquet", columns)
    prepared = [prepare(place, home=tmp_path / "home") for place in (tmp_path, path.parent, path)]
    assert len({data.checksum for data in prepared}) == 1
    (tmp_path / "heart" / "heart.csv").touch()
    assert_refused("heart.parquet heart.csv", prepare, tmp_path)
    path.rename(tmp_path / "heart" / "LLCP2011.XPT")
    assert_refused("LLCP2011.XPT heart.csv", prepare, tmp_path)
    for name in ("LLCP2011.XPT ", "llcp2011.xpt"):
        write_year(tmp_path / name, respondents(2011))
    assert_refused("llcp2011.xpt same year", prepare, tmp_path, home=tmp_path)
    with pytest.raises(FileNotFoundError, match="there must be yearly BRFSS files") as raised:
        prepare(tmp_path / "home", home=tmp_path)
    assert raised.value.filename == str(tmp_path / "home")


def test_notes_warn_of_a_feature_that_leaks_the_label(tmp_path: Path) -> None:
    columns = {"year": [2021] * 30, "state": [1] * 30, "label": [0, 1] * 15, "_MICHD": [2, 1] * 15}
    dates = dict.fromkeys(("imonth", "IDAY", "IYEAR", "FMONTH", "_psu", "Month"), ["z"] * 30)
    path = write_table(tmp_path / "x.parquet", columns | dates | {"age": [*range(30)]})
    facts = prepare(path, home=tmp_path).facts
    assert facts["features"] == ["_MICHD", "age"]
    assert "leaks the label" in facts["notes"][0]
    assert facts["notes"][1].startswith("the paper's years 2011 to 2020 are not all here")
    left = prepare(path, home=tmp_path, exclude=["_MICHD"]).facts["notes"]
    assert not any("leaks" in note for note in left)


@settings(max_examples=20)
@given(size=st.integers(2, 40), block=st.integers(1, 50), seed=st.integers(0, 99))
def test_features_are_scaled_as_in_training(fresh: Fresh, size: int, block: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(50, 3, (2 * size, 3)).astype(np.float32)
    x[:, 1] = 0.1  # no binary fraction: sums of it may round
    lines = [f"{2021 + i % 2},{1 + i % 3},0,{a},{b},{c}" for i, (a, b, c) in enumerate(x.tolist())]
    home = fresh()
    (home / "scale.csv").write_text("\n".join(["year,state,label,a,b,c", *lines, ""]))
    prepare(home / "scale.csv", home=home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("metapac.fewshot.datasets.heart._ROWS", block)
        pools = heart(train=2021, calibration=2022, test=(), home=home)
    training = x[::2].astype(np.float64)
    spread = np.where(training.min(0) == training.max(0), 1, training.std(0))
    expected = (x[1::2] - training.mean(0)) / spread
    np.testing.assert_allclose(pools.calibration.x, expected, rtol=1e-4, atol=1e-4)
    assert (pools.train.x.dtype, pools.train.classes) == (np.float32, 2)  # though nobody had one
    assert not pools.train.x[:, 1].any()
    names = {f"2022 {state_name(1 + i % 3)}" for i in range(1, 2 * size, 2)}
    assert {*pools.calibration.names} == names


def test_pools_are_split_by_year(home: Path, tmp_path: Path) -> None:
    pools = heart(train=(2011,), calibration=[2012], test=(), home=home)
    assert pools.train.names == ["2011 Alabama", "2011 Ohio"]
    assert pools.calibration.names == ["2012 Alabama", "2012 Ohio"]
    assert pools.validation is pools.test is None
    np.testing.assert_allclose(pools.train.x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(pools.train.x.std(0), 1, atol=1e-5)
    data = open_prepared("heart", home)
    ohio = pools.calibration.positions[1]
    np.testing.assert_array_equal(
        pools.calibration.y[ohio], data["y"][(data["year"] == 2012) & (data["state"] == 39)]
    )
    large = heart(train=(2011,), calibration=(), test=2012, min_size=27, home=home)
    assert repr(large.train) == (
        "<GroupPool 'train, without 1 state-year of fewer than 27 rows': 1 group, 30 examples>"
    )
    assert repr(large.test) == "<GroupPool 'test': 2 groups, 60 examples>"
    only: Columns = {"calibration": (), "test": (), "home": home}
    for changes, words in (
        ({"train": 2013}, "train 2013 2011, 2012"),
        ({"train": ()}, "train year"),
        ({"train": 2011, "test": 2011}, "train test '2011 Alabama'"),
        ({"train": 2011, "min_size": 31}, "min_size train 31"),
        ({"train": 2011, "min_size": 0}, "min_size 0"),
    ):
        assert_refused(words, heart, **only | changes)
    with pytest.raises(FileNotFoundError, match="heart is not prepared"):
        heart(home=tmp_path)


def test_random_state_years_are_split(home: Path) -> None:
    def draw(rng: int, **counts: Any) -> Pools[GroupPool]:
        counts = {"train": 1, "validation": 1, "calibration": 2, "test": 0} | counts
        return heart_groups(**counts, rng=rng, home=home)

    pools = draw(0)
    drawn = [pool.names for pool in vars(pools).values() if pool is not None]
    assert [*map(len, drawn)] == [1, 1, 2]
    every = {f"{year} {state}" for year in (2011, 2012) for state in ("Alabama", "Ohio")}
    assert {name for names in drawn for name in names} == every
    np.testing.assert_allclose(pools.train.x.mean(0), 0, atol=1e-5)
    assert draw(0).train.names == pools.train.names
    assert {draw(rng).train.names[0] for rng in range(60)} == every  # false alarm below 1e-6
    assert_refused("train groups 5", draw, 0, test=1)
    assert_refused("train 0", draw, 0, train=0)
    assert_refused("min_size 99", draw, 0, min_size=99)


@needs_real_data
def test_real_respondents(tmp_path: Path) -> None:
    facts = prepare(unpacked("heart", tmp_path), home=tmp_path).facts
    assert facts["counts"] == {
        "rows read": 682_060,
        "rows kept": 628_908,
        "positive": 33_528,
        "state-years": 107,
    }
    dropped = {"label unknown": 0, "year or state missing": 0, "feature missing": 53_152}
    assert facts["rows dropped"] == dropped
    assert facts["features dropped"]["missing in more than 5 %"] == ["bmi4"]
    assert len(facts["features"]) == 10
    assert facts["splits"]["2022"] == {"state-years": 54, "rows": 246_022}
    sizes = {"train": 10, "validation": 2, "calibration": 60, "test": 0}
    pools = heart_groups(**sizes, min_size=700, rng=0, home=tmp_path)
    assert len(pools.calibration.names) == 60

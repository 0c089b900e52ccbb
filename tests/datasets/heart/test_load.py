"""CDC Heart from the published files to cleaned data, pools and a calibrated predictor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import MetaPS
from metapac.fewshot import MLP, ProtoNet, score_tasks
from metapac.fewshot.datasets.cache import Prepared, open_prepared
from metapac.fewshot.datasets.heart import heart, heart_groups, missing, prepare
from metapac.fewshot.pools import GroupPool, Pools
from metapac.fewshot.training.loop import train
from tests.helpers.sas_files import write_transport
from tests.helpers.shared_data import needs_real_data, unpacked

Columns = dict[str, Any]
pytestmark = pytest.mark.usefixtures("one_thread")


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


def test_published_files_are_cleaned(folder: Path, home: Path) -> None:
    data = prepare(folder, home=home)
    assert data.facts["features"] == ["GENHLTH", "_AGE80", "_LLCPWT"]
    assert data.facts["features dropped"] == {
        "date or sequence number": ["_PSU", "IDATE", "SEQNO"],
        "excluded": [],
        "text": [],
        "not in every year": ["OLD"],
        "missing in more than 5 %": [],
    }
    dropped = {"label unknown": 3, "year or state missing": 0, "feature missing": 1}
    assert data.facts["rows dropped"] == dropped
    sizes = {"2011-01": 26, "2011-39": 30, "2012-01": 30, "2012-39": 30}
    assert (data.facts["state-years"], data.facts["years"]) == (sizes, [2011, 2012])
    answers = [respondents(2011), respondents(2012)]
    kept = [slice(4, None), slice(None)]
    for i, name in enumerate(data.facts["features"]):
        expected = np.concatenate(
            [year[name][rows] for year, rows in zip(answers, kept, strict=True)]
        )
        np.testing.assert_array_equal(data["x"][:, i], expected.astype(np.float32))
    labels = np.concatenate(
        [year["CVDINFR4"][rows] for year, rows in zip(answers, kept, strict=True)]
    )
    np.testing.assert_array_equal(data["y"], labels == 1)
    assert data.facts["share positive"] == np.mean(labels == 1)


def test_a_table_gives_the_same_data_as_the_published_files(tmp_path: Path) -> None:
    years = {year: respondents(year) for year in (2011, 2012)}
    for year, columns in years.items():
        write_year(tmp_path / f"LLCP{year}.XPT", columns)
    first = prepare(tmp_path, home=tmp_path / "home 1")
    joined = {
        name: years[2011][name] + years[2012][name]
        for name in years[2011]
        if name not in ("IDATE", "SEQNO")
    }
    table = joined | {"year": [2011] * 60 + [2012] * 60}
    second = prepare(write_table(tmp_path / "x.parquet", table), home=tmp_path / "home 2")
    for name in ("x", "y", "year", "state"):
        np.testing.assert_array_equal(first[name], second[name])
    names = ("state-years", "features", "rows dropped", "counts", "splits")
    assert [first.facts[name] for name in names] == [second.facts[name] for name in names]


def test_the_parent_folder_or_a_file_may_be_passed(tmp_path: Path) -> None:
    (tmp_path / "heart").mkdir()
    columns = respondents(2021) | {"YEAR": [2021] * 60}
    path = write_table(tmp_path / "heart" / "heart.parquet", columns)
    prepared = [prepare(place, home=tmp_path / "home") for place in (tmp_path, path.parent, path)]
    assert len({data.checksum for data in prepared}) == 1
    year = write_year(tmp_path / "LLCP2011.XPT", respondents(2011))
    assert prepare(year, home=tmp_path / "home").facts["years"] == [2011]


def test_columns_of_a_table_may_be_named_and_excluded(tmp_path: Path) -> None:
    path = tmp_path / "other.CSV"
    path.write_text("when,place,sick,note,a,b\n2021,39,1,x,1,2\n2021,39,0,y,3,4\n")
    data = prepare(
        path, home=tmp_path, year="when", state="place", label="sick", exclude=("note", "b")
    )
    assert (data["x"].tolist(), data["y"].tolist()) == ([[1], [3]], [1, 0])
    assert data.facts["features dropped"]["excluded"] == ["b", "note"]
    assert data.facts["state-years"] == {"2021-39": 2}


def test_data_are_prepared_once_for_the_same_files_and_options(tmp_path: Path) -> None:
    write_year(tmp_path / "LLCP2011.XPT", respondents(2011))
    seen: list[tuple[str, int, int | None]] = []

    def again(**options: Any) -> Prepared:
        report = lambda *call: seen.append(call)  # noqa: E731
        return prepare(tmp_path, home=tmp_path / "home", progress=report, **options)

    first = again()
    assert seen == [("reading surveys", 60, 120), ("reading surveys", 120, 120)]
    assert again().checksum == first.checksum
    assert len(seen) == 2
    assert again(exclude="_LLCPWT").facts["features"] == ["GENHLTH", "_AGE80"]
    assert len(seen) == 4


def test_missing_files_are_named(tmp_path: Path) -> None:
    (wanted,) = missing(tmp_path)
    assert wanted.startswith(
        "There must be yearly BRFSS files of the CDC (LLCP2011.XPT to LLCP2020.XPT), or a"
    )
    assert "heart.parquet or heart.csv); 'metapac data fetch heart' downloads" in wanted
    assert missing(tmp_path / "nowhere") == [wanted]
    for year in (2021, *range(2012, 2020)):
        write_year(tmp_path / f"LLCP{year}.XPT ", respondents(year))
        assert (missing(tmp_path) == []) is (year == 2021)
    (absent,) = missing(tmp_path)
    assert absent.startswith("LLCP2011.XPT, LLCP2020.XPT of the paper's years are not there: ")
    for year in (2011, 2020):
        write_year(tmp_path / f"LLCP{year}.XPT", respondents(year))
    assert missing(tmp_path) == []
    (tmp_path / "heart.csv").write_text("year,state,label,age\n2021,1,0,50\n")
    assert "must hold yearly files or one table" in missing(tmp_path)[0]
    assert missing(tmp_path / "heart.csv") == []


def test_a_folder_without_surveys_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there must be yearly BRFSS files") as raised:
        prepare(tmp_path, home=tmp_path)
    assert raised.value.filename == str(tmp_path)


def test_an_ambiguous_folder_is_refused(tmp_path: Path) -> None:
    for name in ("heart.parquet", "heart.csv"):
        (tmp_path / name).touch()
    with pytest.raises(
        ValueError,
        match=r"hold yearly files or one table, got heart\.parquet, heart\.csv\. Pass the file",
    ):
        prepare(tmp_path)
    (tmp_path / "heart.parquet").rename(tmp_path / "LLCP2011.XPT")
    with pytest.raises(ValueError, match=r"one table, got LLCP2011\.XPT, heart\.csv"):
        prepare(tmp_path)


def test_two_files_of_one_year_are_refused(tmp_path: Path) -> None:
    for name in ("LLCP2011.XPT ", "llcp2011.xpt"):
        write_year(tmp_path / name, respondents(2011))
    with pytest.raises(
        ValueError,
        match=r"LLCP2011\.XPT  and .*llcp2011\.xpt are both of the year 2011\. Delete one",
    ):
        prepare(tmp_path, home=tmp_path)


@pytest.mark.parametrize("name", ["CVDINFR4", "_STATE"])
@pytest.mark.parametrize("change", ["absent", "text"])
def test_a_year_without_label_or_state_is_refused(tmp_path: Path, name: str, change: str) -> None:
    columns = respondents(2011)
    text = {"IDATE": 10, "SEQNO": 10} | ({name: 1} if change == "text" else {})
    columns = {key: values for key, values in columns.items() if key != name or change == "text"}
    write_transport(tmp_path / "LLCP2011.XPT", columns, text=text)
    with pytest.raises(
        ValueError,
        match=rf"LLCP2011\.XPT must have a column of numbers {name}, got \d other columns\. Remove",
    ):
        prepare(tmp_path, home=tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "LLCP2011.XPT",
            b"",
            r"LLCP2011\.XPT has zero bytes\. Delete it and run 'metapac data fet",
        ),
        ("LLCP2011.XPT", b"x" * 999, r"LLCP2011\.XPT is not a SAS transport file of version 5"),
        ("CDBRFS10.XPT", b"", r"CDBRFS10\.XPT must be a yearly file named after its year"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        prepare(tmp_path / name, home=tmp_path)


def test_a_damaged_year_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = write_year(tmp_path / "LLCP2011.XPT", respondents(2011))
    path.write_bytes(path.read_bytes()[:-160])
    with pytest.raises(ValueError, match=r"LLCP2011\.XPT is truncated: row 58 of"):
        prepare(tmp_path, home=tmp_path / "home")
    write_year(path, respondents(2011) | {"CVDINFR4": [3] * 60})
    with pytest.raises(ValueError, match="must be 1, 2, 7, 9 or missing, got 3 in 60 rows. Delete"):
        prepare(tmp_path, home=tmp_path / "home")
    assert not list((tmp_path / "home").rglob("*.npy"))


def test_columns_of_a_yearly_file_cannot_be_renamed(folder: Path) -> None:
    with pytest.raises(
        ValueError, match=r"label names a column of a table, but LLCP2011\.XPT  is a yearly file"
    ):
        prepare(folder, label="CVDCRHD4")


@pytest.mark.parametrize(
    ("column", "labels", "known"),
    [("label", [0, 1, 7, 9, 7], "0, 1"), ("CVDINFR4", [2, 1, 7, 9, 7], "1, 2")],
)
def test_unknown_labels_of_a_table_are_refused(
    tmp_path: Path, column: str, labels: list[int], known: str
) -> None:
    columns = {"year": [2021] * 5, "state": [1] * 5, "a": [1] * 5, column: labels}
    path = write_table(tmp_path / "heart.parquet", columns)
    message = (
        rf"heart\.parquet: the label {column} must be {known} or missing, got 7 in 2 rows, 9 in 1 "
        r"rows\. 7 and 9 mean 'do not know' and 'refused' in BRFSS: make unknown labels -1 or empty"
    )
    with pytest.raises(ValueError, match=message):
        prepare(path, home=tmp_path)
    write_table(path, columns | {column: [-1 if code > 2 else code for code in labels]})
    assert prepare(path, home=tmp_path).facts["rows dropped"]["label unknown"] == 3


def test_pools_are_split_by_year(home: Path) -> None:
    pools = heart(train=(2011,), calibration=[2012], test=(), home=home)
    assert pools.train.names == ["2011 Alabama", "2011 Ohio"]
    assert pools.calibration.names == ["2012 Alabama", "2012 Ohio"]
    assert pools.validation is None
    assert pools.test is None
    np.testing.assert_allclose(pools.train.x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(pools.train.x.std(0), 1, atol=1e-5)
    assert abs(pools.calibration.x.mean(0)).max() > 1e-3  # on the scale of the training pool
    assert pools.train.classes == pools.calibration.classes == 2
    large = heart(train=(2011,), calibration=(), test=(2012,), min_size=27, home=home)
    assert repr(large.train) == (
        "<GroupPool 'train, without 1 state-year of fewer than 27 rows': 1 group, 30 examples>"
    )
    assert repr(large.test) == "<GroupPool 'test': 2 groups, 60 examples>"


def test_invalid_years_are_refused(home: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"train must name years that are prepared, got 2013; there are 2011, 2012\. Prepare",
    ):
        heart(home=home)
    with pytest.raises(ValueError, match="train must name at least one year: the features of all"):
        heart(train=(), home=home)
    with pytest.raises(
        ValueError, match="train and test must not share a group, got '2011 Alabama'"
    ):
        heart(train=(2011,), calibration=(), test=(2011, 2012), home=home)
    with pytest.raises(ValueError, match="min_size must leave some state-years in train, got 31"):
        heart(train=(2011,), calibration=(), test=(), min_size=31, home=home)
    with pytest.raises(FileNotFoundError, match="heart is not prepared"):
        heart(home=tmp_path)


def test_random_state_years_are_split(home: Path) -> None:
    def draw(rng: int, **counts: Any) -> Pools[GroupPool]:
        counts = {"train": 1, "validation": 1, "calibration": 2, "test": 0} | counts
        return heart_groups(**counts, rng=rng, home=home)

    pools = draw(0)
    pools_drawn = [pools.train, pools.validation, pools.calibration]
    assert [len(pool.names) for pool in pools_drawn] == [1, 1, 2]
    assert sorted(name for pool in pools_drawn for name in pool.names) == [
        f"{year} {state}" for year in (2011, 2012) for state in ("Alabama", "Ohio")
    ]
    assert pools.test is None
    np.testing.assert_allclose(pools.train.x.mean(0), 0, atol=1e-5)
    assert {pool.classes for pool in pools_drawn} == {2}
    assert {pool.name for pool in pools_drawn} == {"train", "validation", "calibration"}
    assert draw(0).train.names == pools.train.names
    assert len({draw(rng).train.names[0] for rng in range(60)}) == 4  # false alarm below 1e-6
    few = draw(0, calibration=1, min_size=27)
    assert few.test is None
    assert few.train.name == "train, without 1 state-year of fewer than 27 rows"
    with pytest.raises(ValueError, match=r"from 1 to 4 groups, .* got train=1 .* = 5\."):
        draw(0, test=1)
    with pytest.raises(ValueError, match="train must .*whole number.* from 1"):
        draw(0, train=0)
    with pytest.raises(
        ValueError, match="min_size must leave some state-years in the pools, got 99"
    ):
        draw(0, min_size=99)


def calibrate_and_predict(pools: Pools[GroupPool], queries: int, predictor: MetaPS) -> MetaPS:
    """Train briefly, calibrate, and predict tasks whose support has one label only.

    The threshold is 0 only if more state-years than the guarantee allows have both such a support
    and too many heart attacks; the probability is below 1e-9 in both uses.
    """
    learner = ProtoNet(MLP(pools.train.x.shape[1], rng=0))
    train(
        learner,
        pools.train,
        pools.validation,
        shots=10,
        queries=20,
        epochs=2,
        episodes_per_epoch=16,
        validation_tasks=8,
        class_weights=[1, 10],
        device="cpu",
    )
    tasks = list(pools.calibration.tasks(shots=10, queries=queries, rng=1))
    alone = [task for task in tasks if not task.support_y.any()]
    assert alone
    assert any(task.query_y.any() for task in alone)
    for task in alone:
        scorer = learner.adapt(task.support_x, task.support_y, classes=task.classes)
        probabilities = scorer.predict_proba(task.query_x)
        assert probabilities.tolist() == [[1.0, 0.0]] * queries
    scores, names = score_tasks(learner, tasks)
    predictor.calibrate(scores, names)
    for task in alone:  # the set holds the label of the support, not the other one
        sets = predictor.predict_set(
            learner.adapt(task.support_x, task.support_y, classes=2).predict_proba(task.query_x)
        )
        assert sets.tolist() == [[True, False]] * queries
    return predictor


def test_end_to_end_with_supports_of_one_label(tmp_path: Path) -> None:
    columns: Columns = {}
    for year in (2021, 2022):
        for name, values in respondents(year, tuple(range(1, 41)), size=110).items():
            columns[name] = columns.get(name, []) + values
    columns |= {"year": [2021] * 4400 + [2022] * 4400}
    prepare(write_table(tmp_path / "heart.parquet", columns), home=tmp_path)
    pools = heart_groups(train=20, validation=5, calibration=50, test=0, rng=0, home=tmp_path)
    predictor = calibrate_and_predict(pools, 100, MetaPS(epsilon=0.25, alpha=0.2, delta=0.05))
    assert 0 < predictor.threshold_ <= 1


@pytest.fixture(scope="module")
def real_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real")
    prepare(unpacked("heart", folder), home=folder / "home")
    return folder / "home"


@needs_real_data
def test_real_respondents_are_counted(real_home: Path) -> None:
    facts = open_prepared("heart", real_home).facts
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


@needs_real_data
def test_end_to_end_on_real_respondents(real_home: Path) -> None:
    pools = heart_groups(
        train=10, validation=2, calibration=60, test=0, min_size=700, rng=0, home=real_home
    )
    predictor = calibrate_and_predict(pools, 600, MetaPS(epsilon=0.1, alpha=0.3, delta=0.1))
    assert 0 < predictor.threshold_ <= 1


def test_missing_reads_the_header_of_a_table(tmp_path: Path) -> None:
    table = tmp_path / "heart.parquet"
    table.touch()
    assert str(table) in missing(tmp_path)[0]
    table.write_text("not a table")
    assert str(table) in missing(tmp_path)[0]


def test_notes_warn_of_a_feature_that_leaks_the_label(tmp_path: Path) -> None:
    lines = ["year,state,label,_MICHD,MONTH,age"]
    lines += [f"2021,{1 + i % 3},{i % 2},{1 + i % 2},5,{i}" for i in range(30)]
    path = tmp_path / "heart.csv"
    path.write_text("\n".join(lines) + "\n")
    notes = prepare(path, home=tmp_path).facts["notes"]
    assert "_MICHD is kept" in notes[0]
    assert "leaks the label: prepare the data again without this feature" in notes[0]
    assert notes[1].startswith("the paper's years 2011 to 2020 are not all here")
    assert "features kept: _MICHD, age" in notes
    assert "features dropped: date or sequence number: MONTH" in notes
    left = prepare(path, home=tmp_path, exclude=["_MICHD"]).facts["notes"]
    assert "features kept: age" in left
    pools = heart(train=2021, calibration=(), test=(), home=tmp_path)
    assert len(pools.train.names) == 3

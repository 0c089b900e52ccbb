"""Tables that are right in form and wrong in meaning are refused, on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import InvalidInput, MetaPS
from metapac.data_checks import CheckWarning
from metapac.tables import data_checks
from tests.helpers.engines import ENGINES, as_if_large, put
from tests.helpers.tables import calibrate_table, evaluate_table, predict_table, site_table

LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.2, "delta": 0.1}
USED: dict[str, Any] = {"task": "site", "label": "y"} | LEVELS


def patients(seed: int = 0, sites: int = 30, size: int = 100) -> pd.DataFrame:
    """Return an honest table: a rare class, and a fair model."""
    rng = np.random.default_rng(seed)
    n = sites * size
    is_ill = rng.random(n) < 0.1
    ill = 1 / (1 + np.exp(2 - rng.normal(size=n) - 2 * is_ill))
    return pd.DataFrame(
        {
            "site": [f"site {i}" for i in np.repeat(np.arange(sites), size)],
            "patient": np.tile(np.arange(size), sites),
            "y": np.where(is_ill, "yes", "no"),
            "p_no": 1 - ill,
            "p_yes": ill,
        }
    )


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return patients()


@pytest.fixture(scope="module")
def promise(frame: pd.DataFrame) -> MetaPS:
    return calibrate_table(frame, **USED)


@pytest.fixture(params=["fetched", "in the engine"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Judge small tables at once, and then as if they were large."""
    if request.param == "in the engine":
        monkeypatch.setattr(data_checks, "_is_small", lambda *_: False)
    return str(request.param)


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("engine", ENGINES)
def test_copies_and_the_direction_are_found_on_every_engine(engine: str) -> None:
    frame = patients().astype({"site": object, "y": object})
    honest, twice = put(engine, frame), put(engine, pd.concat([frame, frame], ignore_index=True))
    for id in ("patient", None):  # without warning
        calibrate_table(honest, **USED, id=id)
    with pytest.raises(InvalidInput, match=r"every row occurs 2 times \(6000 rows, 3000 distinct"):
        calibrate_table(twice, **USED)
    words = r"id occurs twice .* in 3000 of 6000 rows \(first: 0 in"
    with pytest.raises(InvalidInput, match=words):
        calibrate_table(twice, **USED, id="patient")
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        calibrate_table(twice, task="site", score="p_no", columns="q_*", **LEVELS)
    wrong = frame.assign(p_no=-np.log(frame.p_no), p_yes=-np.log(frame.p_yes))
    for count in (0, 60):  # other classes, which are read as one list if they are many
        others = [str(i) for i in range(count)]
        more = pd.DataFrame(99.0, frame.index, [f"p_{name}" for name in others])
        table = put(engine, pd.concat([wrong, more], axis=1))
        with pytest.raises(InvalidInput, match="the true label scores lower.* in 30 of 30 tasks"):
            calibrate_table(table, **USED, classes=["no", "yes", *others])


def test_scores_near_ranks_show_if_rows_are_counted(frame: pd.DataFrame, monkeypatch: Any) -> None:
    """Equal rows are counted if equal scores look like copies, or if no scores were fetched."""
    used: dict[str, Any] = {"task": "site", "score": "p_no", "columns": "q_*"} | LEVELS
    twice = pd.concat([frame, frame], ignore_index=True)
    few = twice.groupby("site").head(2).pipe(lambda some: pd.concat([some, some]))
    with as_if_large(), pytest.raises(InvalidInput, match=r"every row occurs 2 times \(6000 rows"):
        calibrate_table(twice, **used)
    with pytest.raises(InvalidInput, match=r"every row occurs 2 times \(120 rows"):
        calibrate_table(few, **used)  # whose tasks are too small for any rank
    monkeypatch.setattr(data_checks, "_count_copies", lambda *_: pytest.fail("not needed"))
    calibrate_table(frame, **used)
    with as_if_large():
        calibrate_table(frame, **used)
    calibrate_table(twice, **used, allow=("duplicates",))


def test_the_score_of_one_class_is_not_that_of_the_true_label(frame: pd.DataFrame) -> None:
    used = LEVELS | {"task": "site"}
    with pytest.raises(InvalidInput, match="score='p_yes' looks like the score of one class, besi"):
        calibrate_table(frame, **used, score="p_yes")
    calibrate_table(frame, **used, score="p_yes", allow=("score-column",))
    calibrate_table(frame, **used, score="p_yes", columns="q_*")
    true = frame.assign(p_true=frame.p_yes.where(frame.y == "yes", frame.p_no))
    calibrate_table(true, **used, score="p_true")
    calibrate_table(frame.drop(columns="p_no"), **used, score="p_yes")


def test_scores_missing_for_other_labels(frame: pd.DataFrame, tmp_path: Path, route: str) -> None:
    gaps = frame.assign(p_yes=frame.p_yes.mask((frame.y == "no") & (frame.index < 5)))
    count = int(gaps.p_yes.isna().sum())
    with pytest.raises(InvalidInput, match=rf"missing in {count} of 3000 rows \(by class, 'yes': "):
        calibrate_table(gaps, **USED)
    calibrate_table(gaps, **USED, allow=("missing",))
    lists = pd.DataFrame(
        {"site": gaps.site, "y": gaps.y, "p": gaps[["p_no", "p_yes"]].values.tolist()}
    )
    by_class = rf" \(by class, 'yes': {count}\)" if route == "fetched" else ""
    with pytest.raises(
        InvalidInput, match=rf"missing in {count} of 3000 rows{by_class}\. Prediction refuses"
    ):
        calibrate_table(lists, **USED, columns="p", classes=["no", "yes"])
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    with pytest.raises(InvalidInput, match="line 2: column 'p_yes' holds ''"):
        calibrate_table(tmp_path / "gaps.csv", **USED)


@pytest.mark.usefixtures("route")
def test_percentages(frame: pd.DataFrame, promise: MetaPS) -> None:
    scores = ["p_no", "p_yes"]
    percent = frame.assign(**{name: 100 * frame[name] for name in scores})
    mixed = pd.concat([frame[:1500], percent[1500:]])
    with pytest.raises(InvalidInput, match="sum to 1 in 1500 rows and to 100 in 1500"):
        calibrate_table(mixed, **USED)
    in_percent = calibrate_table(percent, **USED)
    new = patients(1).assign(site=lambda table: "new " + table.site)
    new_percent = new.assign(**{name: 100 * new[name] for name in scores})
    for run in (evaluate_table, predict_table):
        with pytest.raises(InvalidInput, match="these are percentages and those fractions"):
            run(promise, new_percent)
        with pytest.raises(InvalidInput, match="these are fractions and those percentages"):
            run(in_percent, new)
        run(promise, new)
    evaluate_table(promise, new_percent, allow=("percentages",))
    with pytest.raises(InvalidInput, match="sum to 1 in 1500 rows and to 100 in 1500"):
        predict_table(promise, pd.concat([new[:1500], new_percent[1500:]]))


def test_a_site_is_one_task(frame: pd.DataFrame) -> None:
    used: dict[str, Any] = {"name": "ohio", "label": "y"} | LEVELS
    site_table(frame, **used)
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        site_table(pd.concat([frame, frame]), **used)
    with pytest.raises(InvalidInput, match="id occurs twice"):
        site_table(frame, **used, id="patient")
    swapped = frame.rename(columns={"p_no": "p_yes", "p_yes": "p_no"})
    with pytest.warns(CheckWarning, match="in 1 of 1 tasks"):  # one task may be odd
        site_table(swapped, **used)


def test_large_tables_are_sampled(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_checks, "MAX_ROWS", 2000)
    monkeypatch.setattr(data_checks, "MAX_GROUPED", 1500)
    calibrate_table(frame, **USED)
    with pytest.raises(InvalidInput, match=r"every row occurs 2 times \(1400 rows, 700 distinct"):
        calibrate_table(pd.concat([frame, frame]), **USED)
    swapped = frame.rename(columns={"p_no": "p_yes", "p_yes": "p_no"})
    with pytest.raises(InvalidInput, match="the true label scores lower"):
        calibrate_table(swapped, **USED)
    site_table(pd.concat([frame, frame]), name="ohio", label="y", **LEVELS)  # too large to group


def test_a_sample_is_drawn_whatever_the_values_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_checks, "MAX_ROWS", 3000)
    table = patients(size=400).round({"p_no": 1, "p_yes": 1})
    sets = calibrate_table(table, **USED)._sets
    assert sets is not None
    assert sets.sampled
    assert abs(sets.rows - 3000) < 250  # 5 standard deviations
    assert sets.spread is not None
    assert max(sets.spread) < 0.03  # sites do not differ
    assert calibrate_table(table, **USED)._sets == sets

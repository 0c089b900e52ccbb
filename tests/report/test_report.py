"""Reports: numbers are those of ``to_dict``, names are text, and the file is whole and alone."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import metapac as mp
from metapac.fewshot import MetaCP
from metapac.guarantee import format_share
from metapac.provenance import Provenance, write_scores
from metapac.report import SignOff, report
from metapac.words import round_down
from tests.report.conftest import CLASSES, LEVELS, ODD, Reader, calibrate, draw_scores, spoil


@pytest.fixture(scope="module")
def html(promise: mp.MetaPS, labelled: mp.Scored) -> str:
    return report(promise, labelled, title=ODD[0], examples=9)


@pytest.fixture(scope="module")
def page(html: str) -> Reader:
    return Reader(html)


@pytest.fixture(scope="module")
def watched(promise: mp.MetaPS) -> mp.Monitor:
    monitor = mp.Monitor(promise)
    for rng, batch in enumerate(("2026-01", "2026-02")):
        data = draw_scores([f"{batch} {i}" for i in range(6)], rng + 5)
        monitor.add(data.scores, data.tasks, data.labels, batch=batch)
    return monitor


def show_misses(row: dict[str, Any]) -> list[str]:
    """Return the cells of a row that has misses and their interval."""
    rates = [format_share(row[key]) for key in ("error", "low", "high")]
    return [f"{row['missed']} of {row['examples']}", rates[0], f"{rates[1]} to {rates[2]}", ""]


def test_numbers_are_those_of_evaluate(page: Reader, promise: Any, labelled: Any) -> None:
    found = mp.evaluate(promise, labelled)
    values = found.to_dict()
    worst = page.tables["The worst new hospitals"]
    assert len(worst) == 10
    for cells, row in zip(worst, values["worst"], strict=False):
        sizes = [f"{row['set_size']:.2f}", str(row["empty"])]
        assert cells[1:] == show_misses(row) + sizes
        assert cells[0][:30] == row["task"][:30] or "\\u" in cells[0]
    listed = page.tables["New hospitals, the worst first"]
    assert [cells[1] for cells in listed] == [show_misses(row)[0] for row in found.worst(20)]
    single, full = values["sets"]["single"], values["sets"]["full"]
    within = "all" if values["within"] == 1 else str(int(np.sum(found.errors <= 0.2)))
    for words in (
        f"The model answers {format_share(single)} of the patients; a person decides on "
        f"{format_share(1 - single)}. Measured on 20 new hospitals.",
        f"every label ({format_share(full)})",
        f"in {within} of them, at most 20% were missed; on average {format_share(values['error'])}",
        values["verdict"]["sentence"],
    ):
        assert words in page.text
    classes = {row[0]: row for row in page.tables["Missed in each class, the most missed first"]}
    for part in values["classes"]:
        assert classes[part["class"]][1:] == show_misses(part)


def test_each_class_has_its_claim_and_rows(per_class: Any, labelled: Any) -> None:
    page, found = Reader(report(per_class, labelled)), mp.evaluate(per_class, labelled)
    parts = found.by_class or {}
    card = page.text[: page.text.index("What is not guaranteed")]
    worst = page.tables["The worst new hospitals"]
    rarest = sorted(parts, key=lambda label: parts[label].examples.sum())
    assert [*dict.fromkeys(row[0] for row in worst)] == rarest
    rows = {row[0]: row for row in page.tables["Thresholds, rounded down, and what they rest on"]}
    for i, label in enumerate(CLASSES):
        assert f"at most 20% of the patients whose true label is “{label}” get a set" in card
        own = [row[2] for row in worst if row[0] == label]
        assert own == [show_misses(row)[0] for row in parts[label].worst(len(own))]
        cut, of_class = per_class.thresholds_[i], per_class.task_thresholds_[:, i]
        rank, tasks = map(int, rows[label][3].split(" of "))
        assert rows[label][2] == round_down(float(cut))
        assert np.sort(of_class)[rank - 1] == cut
        assert tasks == len(of_class)


def test_of_many_classes_no_cut_is_silent() -> None:
    rng = np.random.default_rng(2)
    classes = [f"kind {i}" for i in range(60)]
    tasks, labels = np.repeat(np.arange(30), 1200), np.tile(np.arange(60), 600)
    scores = rng.random((len(tasks), 60))
    scores[np.arange(len(tasks)), labels] += 0.95
    names = np.array(classes)[labels]
    levels: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.2, "per_class": True}
    promise = mp.MetaPS(**levels).calibrate(scores, tasks, names, classes=classes)
    new = mp.Scored(scores + 1e-6, np.char.add("new ", tasks.astype(str)), names, classes)
    text = Reader(report(promise, new)).text
    assert text.count("get a set without it.") == 4
    for words in (
        "The same is guaranteed for 56 more classes, listed in the appendix.",
        "(the most missed; more in the appendix)",
        "Drawn for the 4 rarest of 60 classes.",
        "For the 20 rarest of 60 classes.",
        "The 500 worst of 1,800 rows",
        "The 50 most missed of 60 classes.",
        "The 50 rarest of 60 classes.",
    ):
        assert words in text


def test_names_are_text_and_nothing_else(html: str, page: Reader, promise: mp.MetaPS) -> None:
    for name in (ODD[0], ODD[1], ODD[4], ODD[5], "</script><b>owl", "triage <3.1>"):
        assert name in page.text
    tags = [tag for tag, _attributes in page.tags]
    assert tags.count("style") == 1
    assert not {"script", "img", "b", "iframe", "object", "embed", "link", "base", "form"} & {*tags}
    assert "49" not in re.findall(r"c&amp;amp;(.*?)<", html)[0]  # 7 * 7 is not computed
    assert "<title>&lt;script&gt;alert(1)&lt;/script&gt;</title>" in html
    assert "\u202e" not in html
    assert "\u200b" not in html
    assert r"<bdi>evil \u202e &lt;/script&gt; \u200b</bdi>" in html
    assert f"<bdi>{ODD[4]}</bdi>" in html  # names keep their own direction
    # A long name shows both its ends, and a title is whole.
    titles = [found["title"] for tag, found in page.tags if tag == "bdi" and "title" in found]
    assert {*titles} == {ODD[3]}
    assert f"{'x' * 39}…{'x' * 20}" in page.text
    assert ODD[3] not in page.text
    assert f"<h1><bdi>{ODD[3]}</bdi></h1>" in report(promise, title=ODD[3])


def test_the_policy_allows_the_own_style_alone(html: str, page: Reader) -> None:
    policy = re.findall(r'Content-Security-Policy" content="([^"]+)"', html)[0]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.replace("&#39;", "'").split(";"))
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    nothing = dict.fromkeys(("default-src", "base-uri", "form-action"), "'none'")
    assert rules == nothing | {"style-src": f"'sha256-{digest}'"}
    for tag, attributes in page.tags:
        assert not {"src", "srcset", "data", "action", "style"} & attributes.keys(), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert str(attributes.get("href", "#")).startswith("#")
    assert not re.findall(r"https?://", html)


def test_references_lead_somewhere_and_all_can_be_read_aloud(html: str, page: Reader) -> None:
    ids = [attributes["id"] for _tag, attributes in page.tags if "id" in attributes]
    assert len(ids) == len({*ids})
    for tag, attributes in page.tags:
        for name in ("for", "aria-labelledby", "aria-describedby", "href"):
            for target in str(attributes.get(name) or "").split():
                assert target.removeprefix("#") in ids, tag
    assert {*re.findall(r"url\(#(.*?)\)", html)} <= {*ids}
    tags = [tag for tag, _attributes in page.tags]
    assert tags.count("h1") == tags.count("main") == tags.count("header") == 1
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in pairwise(levels))
    assert tags.count("table") == tags.count("caption")
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")
    drawings = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert all("aria-labelledby" in found or "aria-hidden" in found for found in drawings)
    assert tags.count("desc") == sum("aria-labelledby" in found for found in drawings) > 2


def test_a_file_and_its_predictor_give_the_same_report_but_for_the_file(
    promise: Any, labelled: Any, watched: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    import matplotlib

    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    promise.save(tmp_path / "promise.json")
    output = tmp_path / "report.html"
    html = report(tmp_path / "promise.json", labelled, monitor=watched, output=output)
    assert output.read_text(encoding="utf-8") == html
    assert "14 November 2023" in html
    direct, before = report(promise, labelled, monitor=watched), dict(matplotlib.rcParams)
    assert "promise.json" not in direct
    parts = [re.findall(r'<main>.*<section id="provenance"', h, re.DOTALL) for h in (html, direct)]
    assert parts[0] == parts[1] != []
    # Nothing depends on chance, or on the settings of matplotlib, which stay as they are.
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "none", "axes.grid": True}):
        assert report(promise, labelled, monitor=watched) == direct
    assert dict(matplotlib.rcParams) == before


def test_fields_are_filled_or_left_to_write_in(promise: mp.MetaPS) -> None:
    fields = {"purpose", "owner", "population", "dates", "conditions", "valid-until", "next-review"}
    blank = Reader(report(promise))
    assert fields < {found.get("id") for tag, found in blank.tags if tag in ("input", "textarea")}
    assert not any("checked" in found for _tag, found in blank.tags)
    texts = {name.replace("-", "_"): f"Our <{name}>" for name in fields}
    filled = Reader(report(promise, sign_off=SignOff(**texts, decision="conditions")))
    for text in texts.values():
        assert text in filled.text
    left = {found.get("id") for tag, found in filled.tags if tag in ("input", "textarea")}
    assert not fields & left
    checked = [found["id"] for _tag, found in filled.tags if "checked" in found]
    assert checked == ["decision-conditions"]
    assert 'id="conditions"' not in report(promise, sign_off=SignOff(decision="reject"))


SCORES, TASKS = np.random.default_rng(0).random(6000), np.repeat(np.arange(60), 100)
KINDS: dict[str, tuple[Any, str]] = {
    "PS": (
        mp.PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 99)),
        "At most 10% of new examples of the same kind get a set without the true label.",
    ),
    "MetaCP": (
        MetaCP(epsilon=0.2, delta=0.2).calibrate(SCORES, TASKS, np.linspace(0, 1, 60)),
        "Averaged over new tasks of the same kind, at most 20%",
    ),
    "trivial": (
        mp.MetaPS(**LEVELS, on_infeasible="trivial").calibrate([0.5] * 60, np.arange(60) // 10),
        "none of 6",
    ),
    "expectation": (
        mp.MetaPS(epsilon=0.2, alpha=0.3, delta=None, min_examples=20).calibrate(SCORES, TASKS),
        "In at least 70% of new tasks of the same kind with at least 20 examples, at most 20%",
    ),
    "clusters": (
        mp.MetaPS(epsilon=0.2, alpha=0.3, delta=0.1).calibrate(
            *(np.linspace(0, 1, 4000), np.tile(np.arange(40), 100)),
            clusters={task: f"owner {task // 2}" for task in range(40)},
        ),
        "The 20 clusters calibrated on, and the new clusters, were drawn at random from the "
        "same population. One task of each was drawn.",
    ),
}


def test_every_kind_of_guarantee_has_its_report(promise: mp.MetaPS) -> None:
    for predictor, words in KINDS.values():
        page = Reader(report(predictor))
        assert words in page.text
        assert "What is assumed: confirm each point" in page.text
        is_weak = bool(getattr(predictor, "remarks_", []))
        card = next(found["class"] for _tag, found in page.tags if found.get("id") == "guarantee")
        assert card == f"card is-{'caution' if is_weak else 'quiet'}"
    text = Reader(report(promise)).text
    for words in (
        "In at least 80% of new hospitals of the same kind, at most 20% of the patients get a set",
        "without the true label. How often the model answers, and how often a person decides, has",
        "Guarantee report: model “triage <3.1>”",
        "Nobody has compared the guarantee with labelled new hospitals",
        "On record: trained on 1 other hospital; by name, none of them is among these.",
        "The limits (20% of the patients, 20% of the hospitals, a risk of 10%) were chosen before",
        "No monitor watches this guarantee",
    ):
        assert words in text
    assert str(promise.threshold_)[:5] not in text[: text.index("What is assumed")]


def test_regression(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    sites = np.repeat([f"site {i:02d}" for i in range(40)], 50)
    table = pd.DataFrame({"site": sites, "predicted": rng.normal(50, 9, 2000)})
    table["sd"] = rng.uniform(5, 15, 2000)
    table = table.assign(true=table.predicted + table.sd * rng.normal(size=2000))
    columns = mp.Columns(task="site", prediction="predicted", y="true", scale="sd")
    promise = mp.MetaPS(**LEVELS).calibrate(mp.open_table(table, columns))
    table.assign(site="new " + table.site, true=table.true + 1e-4).to_csv(tmp_path / "new.csv")
    data = mp.open_table(tmp_path / "new.csv")
    page = Reader(report(promise, data, examples=6))
    width = mp.evaluate(promise, data).to_dict()["width"]
    claim = f"get an interval without the true number. The intervals are {width:,.4g} wide"
    checksum = hashlib.sha256((tmp_path / "new.csv").read_bytes()).hexdigest()
    for words in (claim, "new.csv", checksum):
        assert words in page.text
    assert len(page.tables["Some examples and what they are given"]) == 6


def test_regression_from_quantiles() -> None:
    rng, sites = np.random.default_rng(4), np.repeat([f"site {i:02d}" for i in range(40)], 50)
    table = pd.DataFrame({"site": sites, "true": rng.normal(50, 9, 2000)})
    table = table.assign(q5=table.true - rng.uniform(5, 15, 2000), q95=table.true + 10)
    table.loc[::17, "q95"] = table.q5 + 1  # too close together: the interval is empty
    columns = mp.Columns(task="site", lower="q5", upper="q95", y="true")
    promise = mp.MetaPS(**LEVELS).calibrate(mp.open_table(table, columns))
    assert promise.threshold_ > 1
    new = table.assign(site="new " + table.site, true=table.true + 1e-4)
    page = Reader(report(promise, mp.open_table(new), examples=40))
    for words in ("Lower quantile, column", "beyond the two predicted quantiles", "no number"):
        assert words in page.text
    assert "nan" not in page.text


def find_card(*arguments: Any, **options: Any) -> tuple[str, str]:
    """Return the colour of the card at the top of a report, and its text."""
    html = report(*arguments, **options)
    start = html.index('<section id="guarantee"')
    card = html[start : html.index("</section>", start)]
    return card.split('"')[3].removeprefix("card is-"), Reader(card).text


def test_verdicts_colour_the_card(promise: mp.MetaPS, labelled: mp.Scored) -> None:
    few, tiny = (draw_scores(["new 1", "new 2"], 3, examples=n) for n in (50, 2))
    more, unknown = (mp.evaluate(promise, data).to_dict()["verdict"] for data in (few, tiny))
    method = mp.MetaPS(**LEVELS, on_infeasible="trivial").calibrate([0.5] * 10, ["a"] * 10)
    many = draw_scores([f"new {i}" for i in range(200)], 3)
    bad = spoil(draw_scores([f"bad {i}" for i in range(20)], 6))
    trivial = "nothing to check Nothing to check: every label is kept, so none is missed."
    said = "At calibration, before the results below, it said: “We are 90% sure of it"
    for predictor, data, allow, colour, words in (
        (promise, many, [], "good", "Checked on new hospitals: holds"),
        (promise, few, [], "caution", f"about {more['more_tasks']} more labelled hospitals like"),
        (promise, tiny, ["task-names"], "caution", f"What would settle it: {unknown['sentence']}"),
        (promise, bad, ["direction"], "bad", "Checked on new hospitals: violated"),
        (promise, bad, ["direction"], "bad", said),
        (method, labelled, [], "caution", trivial),  # holds, but is not called good
    ):
        found, text = find_card(predictor, data, allow=allow)
        assert (found, words in text) == (colour, True), words


def test_a_neglected_class_turns_the_card_amber() -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(6000)
    promise = mp.MetaPS(epsilon=0.1, alpha=0.2, delta=0.1).calibrate(0.5 + scores / 2, TASKS)
    rare = rng.random(6000) < 0.02
    labels, new = np.where(rare, "yes", "no"), [f"new {task}" for task in TASKS]
    data = mp.Scored(np.where(rare, 0.1, 0.9 + scores / 100), new, labels)
    colour, text = find_card(promise, data)
    assert colour == "caution"
    assert "Checked on new tasks: holds, but a class is missed" in text
    assert f"“yes” is missed in {rare.sum()} of {rare.sum()} examples (100%). The guarantee" in text
    assert "not known: the labelled data have scores of true labels only" in text


def test_an_amber_light_turns_the_card_amber(promise: mp.MetaPS, labelled: mp.Scored) -> None:
    monitor = mp.Monitor(promise, false_alarm=1e-12)
    bad = spoil(draw_scores([f"bad {i}" for i in range(8)], 5))
    monitor.add(bad.scores, bad.tasks, bad.labels, batch="April", allow=["direction"])
    assert (monitor.alarm, monitor.amber) == (None, monitor.ambers[-1])
    at = monitor.course.index(monitor.ambers[-1]) + 1
    for data in (None, labelled):
        colour, text = find_card(promise, data, monitor=monitor)
        assert colour == "caution"
        assert f"Monitor: amber after {at} hospitals (April). Recent hospitals look" in text
    good = draw_scores([f"good {i}" for i in range(4)], 6)
    monitor.add(good.scores, good.tasks, good.labels, batch="May")
    assert "Monitor: amber" not in find_card(promise, None, monitor=monitor)[1]


def test_an_alarm_is_seen_first(promise: Any, labelled: Any, watched: Any) -> None:
    bad = spoil(draw_scores([f"bad {i}" for i in range(20)], 5))
    monitor = mp.Monitor(promise)
    monitor.add(bad.scores, bad.tasks, bad.labels, batch="April", allow=["direction"])
    assert monitor.alarm is not None
    after = monitor.course.index(monitor.alarm) + 1
    for data in (None, labelled):
        colour, text = find_card(promise, data, monitor=monitor)
        assert colour == "bad"
        assert f"Monitor: alarm after {after} hospitals (April). This guarantee can no" in text
        # Nothing looks good beside it.
        assert 'class="verdict is-good"' not in report(promise, data, monitor=monitor)
    assert "The monitor has counted 20 hospitals, so it can see what one table does not" in text
    # A check that fails beside a quiet monitor is explained.
    text = find_card(promise, bad, monitor=watched, allow=["direction"])[1]
    assert "12 hospitals and may be read at any time, so it needs more evidence" in text


def test_a_monitor_of_another_promise(
    promise: Any, calibration: Any, watched: Any, tmp_path: Path
) -> None:
    watched.save(tmp_path / "monitor.json")
    for monitor in (watched, tmp_path / "monitor.json"):
        rows = Reader(report(promise, monitor=monitor)).tables["Batches"]
        assert [row[0] for row in rows] == ["2026-01", "2026-02"]
        assert rows[-1][-1] == f"{watched.wealth:.3g}"
        missed = sum(int(row[2].split(" of ")[0]) for row in rows)
        assert missed == sum(step.missed for step in watched.course)
        with pytest.raises(mp.InvalidInput, match="another"):
            report(calibrate(calibration, epsilon=0.3), monitor=monitor)
    empty = mp.Monitor(promise)
    assert "or it has seen nothing yet" in report(promise, monitor=empty)
    data = draw_scores([f"later {i}" for i in range(3_000)], 5, examples=5)
    empty.add(data.scores, data.tasks, data.labels)
    assert len(report(promise, monitor=empty)) < 400_000  # a long course is a small drawing


def test_new_examples_are_shown_if_wanted(promise: Any, labelled: Any, calibration: Any) -> None:
    caption = "Some patients and what they are given"
    evaluated = report(promise, mp.evaluate(promise, labelled), examples=3)
    for html in (report(promise, labelled), evaluated):
        assert "Checked on new hospitals" in html
        assert caption not in html
    rows = Reader(report(promise, labelled, examples=7)).tables[caption]
    assert len(rows) == 7
    assert {row[3] for row in rows} == {"missed", "contains it"}
    for _task, truth, labels, outcome in rows:
        assert (truth in labels.split(", ")) == (outcome == "contains it")
    true = labelled.scores[np.arange(1000), [*map(CLASSES.index, labelled.labels)]]
    assert caption not in report(promise, mp.Scored(true, labelled.tasks), examples=7)  # no sets
    other = replace(mp.evaluate(promise, labelled), epsilon=0.01, verdict=None)
    with pytest.raises(mp.InvalidInput) as caught:
        report(promise, other)
    assert caught.value.parameters == ("labelled",)
    # Tasks that are not new are named.
    names = ("scores", "tasks", "labels")
    both = {name: np.r_[getattr(labelled, name), getattr(calibration, name)[:50]] for name in names}
    text = Reader(report(promise, replace(labelled, **both))).text
    assert "Not counted: 1 hospital used in calibration, training or the pilot." in text
    assert "because they were used in calibration, training or the pilot: old 0." in text


def test_files_say_which_model_gave_their_scores(promise: mp.MetaPS, tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    data = draw_scores([f"new {i}" for i in range(20)], 1)
    columns = {"site": data.tasks.tolist(), "y": data.labels.tolist()}
    columns |= {f"p_{i}": data.scores[:, i].tolist() for i in range(3)}
    about = Provenance(model="triage <3.1>", details={"weights_checksum": "abc"})
    write_scores(path, columns, about)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    names = mp.Columns(task="site", label="y", columns=["p_0", "p_1", "p_2"], classes=data.classes)
    text = Reader(report(promise, mp.open_table(path, names))).text
    for words in ("last changed 2023-11-14", "model: triage <3.1>", "weights checksum: abc"):
        assert words in text


def test_only_reports_are_overwritten_and_not_by_a_failure(promise: Any, tmp_path: Path) -> None:
    path, page, output = (tmp_path / f"{name}.html" for name in ("promise", "page", "report"))
    promise.save(path)  # a promise file may have any name
    page.write_text("<html>My own page</html>")
    for target, words in ((path, "is also the input"), (page, "must not replace a file that is")):
        before = target.read_bytes()
        with pytest.raises(mp.InvalidInput, match=words):
            report(path, output=target)
        assert target.read_bytes() == before
    output.touch()
    first = report(promise, title="first", output=output)
    with pytest.raises(mp.InvalidInput):
        report(promise, mp.Scored([0.5], ["old 1"]), output=output)
    assert output.read_text(encoding="utf-8") == first
    report(promise, title="second", output=output)
    assert "<h1><bdi>second</bdi></h1>" in output.read_text(encoding="utf-8")
    assert {*tmp_path.iterdir()} == {path, page, output}


REFUSED: list[Any] = [
    ({"output": "report.pdf"}, "output"),
    ({"examples": -1}, "examples"),
    ({"monitor": 3}, "monitor"),
    ({"model": "other"}, "model"),
    ({"false_alarm": 0.5, "labelled": draw_scores(["new"], 0)}, "false_alarm"),
    ({"labelled": "new.csv"}, "labelled"),  # a path names no columns
    ({"labelled": mp.Scored([0.5], ["old 1"])}, None),
    ({"sign_off": {"owner": "me"}}, "sign_off"),
    ({"promise": {"epsilon": 0.1}}, "promise"),
    ({"promise": KINDS["MetaCP"][0], "labelled": mp.Scored([0.5], ["a"])}, "labelled"),
]
REFUSED_FIELDS: list[Any] = [
    ({"decision": "yes"}, "decision"),
    ({"owner": ""}, "owner"),
    ({"valid_until": 2027}, "valid_until"),
    ({"decision": "approve", "conditions": "some"}, "conditions"),
]


def test_what_is_refused(promise: Any, tmp_path: Path, monkeypatch: Any) -> None:
    for arguments, parameter in REFUSED:
        with pytest.raises(mp.InvalidInput) as caught:
            report(**{"promise": promise, **arguments})
        assert caught.value.parameters == (() if parameter is None else (parameter,))
    for fields, parameter in REFUSED_FIELDS:
        with pytest.raises(mp.InvalidInput) as caught:
            SignOff(**fields)
        assert caught.value.parameters == (parameter,)
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(mp.BadArtefact, match="is not a metapac promise file"):
        report(tmp_path / "other.json")
    for module in ("jinja2", "matplotlib"):  # checked before the work
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(mp.MissingExtra, match=r"a report needs .*metapac\[report\]'"):
                report(promise, labelled="no such file")

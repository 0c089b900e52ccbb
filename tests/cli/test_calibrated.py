"""A calibrated predictor as it is printed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from metapac.cli.calibrate import print_calibrated

from metapac import MetaPS
from metapac.data_checks import SetCounts

TASKS = np.repeat(np.arange(40), 30)
SCORES = np.random.default_rng(0).random(1200)


def test_one_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    predictor = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1).calibrate(SCORES, TASKS)
    print_calibrated(predictor, Path("p.json"), as_json=False)
    printed = capsys.readouterr()
    assert printed.out.startswith(
        f"threshold {predictor.threshold_!r} from 40 tasks and 1200 examples, written to p.json\n"
    )
    text = " ".join(printed.out.split())
    _, claim, confidence, *_ = predictor.explain().split("\n\n")
    order = [claim, confidence, "It does not hold for one class alone", predictor.promise_]
    assert sorted(order, key=text.index) == order
    assert "More: metapac show p.json With" in text
    assert printed.err == ""


def test_json_holds_infinite_thresholds_and_remarks(capsys: pytest.CaptureFixture[str]) -> None:
    predictor = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1, on_infeasible="trivial")
    print_calibrated(predictor.calibrate([0.5], [1]), Path("p.json"), as_json=True)
    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    assert summary["threshold"] == "-inf"
    assert summary["output"] == "p.json"
    assert summary["explanation"] == predictor.explain()
    assert [f"metapac: warning: {remark}\n" for remark in summary["remarks"]] == [printed.err]


def test_what_makes_a_guarantee_useless_comes_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metapac.cli.console.print_error", print)  # the order of the two streams
    predictor = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1, on_infeasible="trivial")
    print_calibrated(predictor.calibrate([0.5], ["a"]), Path("p.json"), as_json=False)
    assert capsys.readouterr().out.startswith("warning: Every label is kept, so the guarantee")


def test_a_threshold_for_each_class(capsys: pytest.CaptureFixture[str]) -> None:
    labels = np.array(["cat", "[dog]"])[np.arange(1200) % 2]
    method = MetaPS(epsilon=0.3, alpha=0.4, delta=0.4, per_class=True, min_examples=3)
    predictor = method.calibrate(SCORES, TASKS, labels)
    print_calibrated(predictor, Path("p.json"), as_json=False)
    text = capsys.readouterr().out
    assert "one threshold for each of 2 classes" in text
    rows = [line.split() for line in text.replace("│", " ").splitlines()]
    assert predictor.classes_ is not None
    for label, threshold in zip(predictor.classes_, predictor.thresholds_, strict=True):
        assert [label, "0.3", repr(float(threshold)), "40", "600", "0"] in rows


def test_the_mean_set_size_says_over_which_rows(capsys: pytest.CaptureFixture[str]) -> None:
    predictor = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1).calibrate(SCORES, TASKS)
    for is_part, words in ((False, "size 1.5 in calibration"), (True, "1.5 over 4 sampled rows")):
        predictor._sets = SetCounts(4, is_part, [0, 2, 2], [4, 2])
        print_calibrated(predictor, Path("p.json"), as_json=False)
        assert words in capsys.readouterr().out

"""Explanations: true numbers, thresholds rounded down, the user's words, and the limits."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import PS, Guarantee, MetaPS
from metapac.context import Context
from metapac.fewshot import MetaCP
from metapac.guarantee import percent
from metapac.words import (
    Rule,
    explain_average,
    explain_examples,
    explain_guarantee,
    round_down,
    summarise_limits,
)

HOSPITALS = Context(unit="hospital", example="patient")

LEVELS: dict[str, Any] = {"epsilon": 0.03, "alpha": 0.1, "delta": 0.01}

LISTS = "A list with several labels leaves the choice to a person."


def explain(g: Guarantee, *rules: Rule, tasks: int = 60, about: Context = HOSPITALS) -> list[str]:
    return explain_guarantee(g, rules, tasks, about).split("\n\n")


def test_the_sentences_for_a_committee() -> None:
    rule = Rule(None, 0.03, 0.07231425674321376, 60, 24000)
    about = Context(unit="hospital", example="patient", model="triage 3.1", trained_on=range(27))
    assert explain(Guarantee(**LEVELS), rule, about=about) == [
        "The model triage 3.1 was calibrated on 60 hospitals with 24,000 patients. For each new "
        "patient it gives a list of labels: those with a score of at least 0.0723 (rounded down).",
        "For at least 90% of new hospitals of the same kind, at most 3% of the patients get a list "
        "without the right label.",
        "We are 99% sure of it: the risk that the choice of these 60 hospitals misled us is at "
        "most 1%.",
        "It holds only if these hospitals and the new ones are drawn at random from the same kind, "
        "if their patients are sampled in the same way (all balanced by class, or none), if the "
        "model was not trained on any of them, and if the scores and the number of hospitals were "
        "fixed before anyone looked at results. The model was trained on 27 other hospitals "
        "(compared by name).",
        "It does not hold\n"
        "- for each single hospital: up to 10% of them may be worse, and nobody knows which\n"
        "- for one class alone: a rare class may be missed far more often, even always\n"
        "- for another mix of classes, such as the natural one after a calibration balanced by "
        "class\n"
        "- for a part of the patients, such as one age group, or for one patient: 3% is a share of "
        "all patients of one hospital\n"
        "- for hospitals unlike these, or once their patients change\n"
        "- for another model, or once the model or its scores change",
        "A list with several labels leaves the choice to a person. An empty list is no all-clear: "
        "no label scored high enough, which for probabilities means that the model is torn "
        "between labels. Treat it like a list of all labels.",
    ]


probabilities = st.floats(1e-9, 1, exclude_max=True)
thresholds = st.floats(allow_nan=False, allow_infinity=False)


@given(
    probabilities,
    probabilities,
    st.none() | st.floats(1e-6, 1, exclude_max=True),
    thresholds,
    st.integers(1, 10**9),
    st.integers(1, 10**9),
    st.integers(0, 1000),
)
def test_all_numbers_are_those_of_the_guarantee(
    epsilon: float,
    alpha: float,
    delta: float | None,
    threshold: float,
    tasks: int,
    examples: int,
    minimum: int,
) -> None:
    g = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta, min_examples=minimum)
    text = explain_guarantee(g, [Rule(None, epsilon, threshold, tasks, examples)], tasks, HOSPITALS)
    shares = {percent(epsilon), percent(alpha), percent(alpha, complement=True)}
    if delta is not None:
        shares |= {percent(delta), percent(delta, complement=True)}
    assert set(re.findall(r"[\d.]+%", text)) == shares
    assert f"at most {percent(epsilon)} of the patients" in text
    assert f"at least {percent(alpha, complement=True)} of new hospitals" in text
    assert ("sure of it" in text) == (delta is not None)
    others = {
        f"{tasks:,}",
        f"{examples:,}",
        round_down(threshold),
        *([f"{minimum:,}"] if minimum else []),
    }
    bare = re.sub(r"[\d.]+%", "", text)
    assert set(re.findall(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?", bare)) == others


def test_a_guarantee_in_expectation_claims_no_confidence() -> None:
    paragraphs = explain(Guarantee(**LEVELS | {"delta": None}), Rule(None, 0.03, 0.5, 60, 9))
    assert paragraphs[2] == (
        "This holds on average over many such calibrations, each with other hospitals. This one "
        "may be better or worse, and how sure we can be of it is not known (delta=None)."
    )
    assert "We are" not in " ".join(paragraphs)


def test_each_class_has_its_line() -> None:
    g = Guarantee(**LEVELS | {"epsilon": {"yes": 0.02, "no": 0.1, "?": 0.3}}, per_class=True)
    rules = [
        Rule("yes", 0.02, 0.00339, 1, 1),
        Rule("no", 0.1, -math.inf, 58, None, keeps_all=True),
        Rule("?", 0.3, 0.0, 58, 70, keeps_all=True),
    ]
    paragraphs = explain(g, *rules)
    assert paragraphs[0] == (
        "The model was calibrated on 60 hospitals. For each new patient it gives a list of labels: "
        "those whose score reaches the threshold of their class, rounded down here."
    )
    start = "- Of the patients whose right label is"
    assert paragraphs[1].splitlines() == [
        "For each class separately, the following holds on at least 90% of new hospitals of the "
        "same kind; these need not be the same hospitals for each class:",
        f"{start} 'yes', at most 2% get a list without it. 'yes' is listed if its score is at "
        "least 0.00339 (1 hospital, 1 patient).",
        f"{start} 'no', at most 10% get a list without it. 'no' is always listed (58 hospitals).",
        f"{start} '?', at most 30% get a list without it. '?' is listed if its score is at least "
        "0, and hardly any is lower (58 hospitals, 70 patients).",
    ]
    assert paragraphs[4].splitlines()[1] == (
        "- for each single hospital: for each class up to 10% of them may be worse, not "
        "necessarily the same ones"
    )
    assert "one class alone" not in paragraphs[4]
    assert "the shares are those of all patients of one class and hospital" in paragraphs[4]
    infinite = explain(g, Rule("yes", 0.02, math.inf, 1, 1))[1]
    assert "listed if its score is infinite" in infinite


def test_many_classes_are_cut_short() -> None:
    g = Guarantee(**LEVELS, per_class=True)
    text = explain(g, *[Rule(i, 0.03, 0.5, 60, 9) for i in range(21)])[1]
    assert text.splitlines()[-1] == "- and 1 more class, see thresholds_"
    assert len(text.splitlines()) == 22


def test_small_tasks_are_excluded_in_words() -> None:
    g = Guarantee(**LEVELS, min_examples=45)
    paragraphs = explain(g, Rule(None, 0.03, 0.5, 60, 9, left_out=4))
    assert "new hospitals of the same kind with at least 45 patients, at most" in paragraphs[1]
    assert (
        "- for hospitals with fewer than 45 patients (4 left out of the calibration)"
        in paragraphs[4]
    )
    assert "left out" not in explain(g, Rule(None, 0.03, 0.5, 60, 9))[4]
    one = explain(Guarantee(**LEVELS, min_examples=1, per_class=True), Rule("a", 0.1, 0.5, 60, 9))
    assert "with at least 1 patient of that class; these" in one[1]
    assert "- for hospitals with fewer than 1 patient of the class\n" in one[4]


def test_one_task() -> None:
    two = explain(Guarantee(**LEVELS), Rule(None, 0.03, -math.inf, 2, 2), tasks=2)[0]
    assert "on 2 hospitals with 2 patients." in two
    text = " ".join(explain(Guarantee(**LEVELS), Rule(None, 0.03, -math.inf, 1, 1), tasks=1))
    assert "on 1 hospital with 1 patient." in text
    assert "the choice of this 1 hospital misled us" in text
    assert "if this hospital and the new ones" in text
    assert "is not on record, so nobody has checked that." in text


def test_unknown_sizes_are_left_out() -> None:
    assert explain(Guarantee(**LEVELS), Rule(None, 0.03, 0.5, 60, None))[0].startswith(
        "The model was calibrated on 60 hospitals. For"
    )


def test_the_words_are_used_in_singular_and_plural() -> None:
    about = Context(unit="city/cities", example="person/people")
    text = " ".join(explain(Guarantee(**LEVELS), Rule(None, 0.03, 0.5, 60, 9), about=about))
    assert "For each new person it" in text
    assert "60 cities with 9 people." in text
    assert not re.search(r"task|example|hospital|patient", text)


def test_ps_and_meta_cp_say_that_they_cover_no_single_task() -> None:
    rule = Rule(None, 0.1, 0.5, 60, 500)
    ps = explain_examples(0.1, 0.05, rule, HOSPITALS).split("\n\n")
    assert ps[0].startswith("The model was calibrated on 500 patients. For each new patient")
    assert ps[1:3] == [
        "Of new patients of the same kind, at most 10% get a list without the right label.",
        "We are 95% sure of it: the risk that the choice of these 500 patients misled us is at "
        "most 5%.",
    ]
    assert "- for any one hospital: lists may miss far more often there" in ps[4]
    cp = explain_average("tasks", 0.1, 0.05, rule, HOSPITALS).split("\n\n")
    assert cp[0].endswith("those whose score reaches the threshold of the hospital.")
    assert cp[1] == (
        "Averaged over new hospitals of the same kind, at most 10% of the patients get a list "
        "without the right label."
    )
    assert "the choice of these 60 hospitals misled us is at most 5%" in cp[2]
    assert "- for any one hospital: it is an average" in cp[4]
    examples = explain_average("examples", 0.1, 0.05, rule, HOSPITALS).split("\n\n")
    assert (
        "of the same kind and over many such calibrations, each with other hospitals,"
        in examples[1]
    )
    assert "the choice of the patients of these 60 hospitals misled us" in examples[2]
    trivial = explain_average("tasks", 0.1, 0.05, rule._replace(threshold=-math.inf), HOSPITALS)
    assert "all of them, whatever their scores, so the lists rule nothing out." in trivial


SCORES = np.random.default_rng(0).random(120 * 50)

TASKS = np.repeat(np.arange(120), 50)


def test_predictors_explain_themselves() -> None:
    predictor = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05, min_examples=20)
    predictor.calibrate(np.append(SCORES, 0.5), np.append(TASKS, 120))
    text = predictor.explain()
    assert "on 120 tasks with 6,000 examples." in text
    assert f"at least {round_down(predictor.threshold_)} (rounded down)" in text
    assert "fewer than 20 examples (1 left out of the calibration)" in text
    ps = PS(epsilon=0.1, delta=0.05).calibrate(SCORES)
    assert f"on 6,000 examples. {text[text.index('For each') :].split(':')[0]}" in ps.explain()
    cp = MetaCP(epsilon=0.2, delta=0.1).calibrate(SCORES, TASKS, np.full(120, -0.2))
    assert "Averaged over new tasks of the same kind, at most 20% of the" in cp.explain()


def test_sites_that_sent_no_sizes_are_explained() -> None:
    method = MetaPS(epsilon=0.1, alpha=0.3, delta=0.1, split="tight")
    method.combine(np.linspace(0.1, 0.9, 60))
    assert method.explain().startswith("The model was calibrated on 60 tasks. For")


def test_each_class_of_a_predictor_has_its_numbers() -> None:
    labels = np.array(["no", "yes"])[np.arange(6000) % 2]
    method = MetaPS(epsilon={"no": 0.2, "yes": 0.3}, alpha=0.3, delta=0.1, per_class=True)
    method.calibrate(SCORES, TASKS, labels)
    no, yes = method.explain().split("\n\n")[1].splitlines()[1:]
    for line, label, share in ((no, "no", "20%"), (yes, "yes", "30%")):
        assert line.startswith(
            f"- Of the examples whose right label is '{label}', at most {share} "
        )
        threshold = round_down(method.threshold_of(label))
        assert f"score is at least {threshold} (120 tasks, 3,000 examples)." in line


@pytest.mark.parametrize(
    ("columns", "radius"),
    [
        ({"prediction": "guess", "y": "truth"}, "plus and minus 2.13"),
        ({"prediction": "guess", "scale": "sd"}, "plus and minus 2.13 times its scale"),
    ],
)
def test_intervals_are_not_lists_of_labels(columns: dict[str, str], radius: str) -> None:
    g = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05)
    rule = Rule(None, 0.1, -2.1234, 60, 600)
    text = explain_guarantee(g, [rule], 60, Context(example="patient"), columns)
    assert f"gives an interval: the predicted number {radius} (rounded up)." in text
    assert "at most 10% of the patients get an interval without the true number." in text
    assert "label" not in text
    assert "class" not in text
    assert "class" not in summarise_limits(g, Context(), columns)
    trivial = rule._replace(threshold=-math.inf)
    assert "interval: all numbers" in explain_guarantee(g, [trivial], 60, Context(), columns)


def test_few_classes_are_named_beside_the_confidence() -> None:
    rule = Rule(None, 0.03, 0.5, 200, 15000)
    about = Context(drawn_from="16 classes", training="64 other classes, as the run records")
    text = explain(Guarantee(**LEVELS), rule, tasks=200, about=about)
    assert text[2] == (
        "We are 99% sure of it: the risk that the choice of these 200 tasks misled us is at most "
        "1%. The 200 tasks of the calibration were drawn from 16 classes: the guarantee is for new "
        "tasks of these. It extends to others only as far as these 16 classes represent them, and "
        "drawing more tasks does not change that."
    )
    assert text[3].endswith("The model was trained on 64 other classes, as the run records.")
    average = explain_average("tasks", 0.1, 0.05, rule, about)
    assert "The 200 tasks of the calibration were drawn from 16 classes" in average
    clusters = ("alphabet", "alphabets")
    of_clusters = explain_guarantee(Guarantee(**LEVELS), [rule], 200, about, cluster=clusters)
    assert "16 classes" not in of_clusters

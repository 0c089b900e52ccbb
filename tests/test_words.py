"""Sentences and explanations: true numbers, every assumption and limit, in the user's words."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import PS, Context, Guarantee, MetaPS
from metapac.evidence import UNKNOWN, first_step
from metapac.fewshot import MetaCP
from metapac.fewshot.meta_cp import explain_average
from metapac.grouping import Scored
from metapac.guarantee import (
    describe_example_guarantee,
    describe_trivial,
    describe_uninformative,
    format_share,
    percent,
)
from metapac.words import (
    Rule,
    describe_interval,
    explain_examples,
    explain_guarantee,
    inflect,
    render_card,
    render_text,
    round_down,
    summarise_limits,
)

LEVELS: dict[str, Any] = {"epsilon": 0.03, "alpha": 0.1, "delta": 0.01}
HOSPITALS = Context(unit="hospital", example="patient")
RULE = Rule(None, 0.03, 0.07239, 60, 24000)
INTERVALS = {"prediction": "guess", "y": "truth"}


def lacks(text: str, facts: list[str]) -> list[str]:
    return [fact for fact in facts if fact not in text]


def explain(
    g: Guarantee, *rules: Rule, tasks: int = 60, about: Context = HOSPITALS, **more: Any
) -> dict[str, str]:
    """Return the paragraphs of an explanation by name."""
    names = ("basis", "claim", "confidence", "conditions", "limits", "use")
    paragraphs = explain_guarantee(g, rules or [RULE], tasks, about, **more).split("\n\n")
    return dict(zip(names, paragraphs, strict=True))


# Numbers in words.


@given(st.floats(5e-324, 1, exclude_max=True))
def test_percentages_are_exact(fraction: float) -> None:
    shown = percent(fraction)
    assert float(Decimal(shown[:-1]) / 100) == fraction
    assert "e" not in shown.lower()
    rest = percent(fraction, complement=True)
    assert Decimal(rest[:-1]) < 100


@pytest.mark.parametrize(
    ("fraction", "shown"),
    [
        (0, "0%"),
        (1, "100%"),
        (0.05894, "5.9%"),
        (0.9997, "99.97%"),
        (0.0003, "0.03%"),
        (1e-9, "<0.001%"),
        (1 - 1e-9, ">99.999%"),
    ],
)
def test_only_exact_fractions_are_shown_as_none_or_all(fraction: float, shown: str) -> None:
    assert format_share(fraction) == shown


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_thresholds_are_rounded_down_by_less_than_one_unit_of_the_third_digit(x: float) -> None:
    shown = Decimal(round_down(x))
    exact = Decimal(repr(x))
    assert shown <= exact
    assert float(shown) <= x
    assert len(shown.normalize().as_tuple().digits) <= 3
    if exact:
        assert exact - shown < Decimal(10) ** (exact.adjusted() - 2)


@given(st.floats(-1e6, 0))
def test_an_interval_is_rounded_up(threshold: float) -> None:
    text = describe_interval(threshold, {})
    (radius,) = re.findall(r"plus and minus (\S+) \(rounded up\)", text)
    assert float(radius) >= -threshold


@pytest.mark.parametrize(
    ("noun", "plural"),
    [
        ("hospital", "hospitals"),
        ("city", "cities"),
        ("day", "days"),
        ("class", "classes"),
        ("box", "boxes"),
        ("branch", "branches"),
        ("person/people", "people"),
        (" child / children ", "children"),
        ("y", "ies"),
    ],
)
def test_plurals(noun: str, plural: str) -> None:
    assert inflect(noun) == (noun.split("/")[0].strip(), plural)


# The formal sentence.

SAMPLED = "calibration and new examples are sampled in the same way"
BALANCED = "(all balanced by class, or none)"
ASSUMED = [SAMPLED, "no calibration task was seen in training", "score function", "number of tasks"]
IID = "calibration tasks and new tasks are drawn i.i.d. from one distribution"


@pytest.mark.parametrize(
    ("changes", "options", "facts", "absent"),
    [
        (
            {},
            {"tasks": 500, "threshold": 0.25},
            [
                "With confidence 99% over the draw of the 500 calibration tasks, ",
                BALANCED,
                IID,
                "the sets {label: score >= 0.25} miss the true label at most 3% of the time",
                "on at least 90% of new tasks",
            ],
            ["average"],
        ),
        ({"split": "tight"}, {}, ["confidence 99% over the draw of the calibration tasks"], []),
        (
            {"delta": None},
            {"tasks": 10},
            [
                "On average over the draw of the 10 calibration tasks",
                "average over calibrations",
                "no confidence for this one",
                "tasks and new tasks are exchangeable",
                BALANCED,
            ],
            ["With confidence", "i.i.d."],
        ),
        (
            {"per_class": True},  # immune to another mix of classes
            {},
            [
                "for each class",
                "score >= its threshold",
                "at most 3% of the examples of that class",
            ],
            [BALANCED],
        ),
        (
            {"per_class": True, "epsilon": {"yes": 0.02, "no": 0.1, "?": 0.2}},
            {"threshold": {"yes": 0.5, "no": 0.25, "?": 0.1}},
            ["of that class (yes: 2%, no: 10%, ?: 20%)", "(yes: 0.5, no: 0.25, ?: 0.1)"],
            ["thresholds_"],
        ),
        (
            {"per_class": True},
            {"threshold": dict.fromkeys(range(5), 0.5)},
            ["(0: 0.5, 1: 0.5, 2: 0.5 and 2 more, see thresholds_)"],
            [],
        ),
        (
            {"min_examples": 30},
            {"tasks": 40},
            [
                "the 40 calibration tasks with at least 30 examples,",
                "90% of new tasks with at least 30 examples,",
            ],
            ["of that class"],
        ),
        (
            {"min_examples": 30, "per_class": True},
            {},
            ["tasks with at least 30 examples of that class, for", "of that class, provided"],
            [],
        ),
        (
            {},
            {"threshold": -2.5, "columns": INTERVALS},
            ["the intervals prediction plus and minus 2.5 miss the true number at most 3% of"],
            ["label", BALANCED],
        ),
        (
            {},
            {"threshold": -2.5, "columns": INTERVALS | {"scale": "s"}},
            ["plus and minus 2.5 times scale miss"],
            ["label"],
        ),
        ({}, {"threshold": -math.inf, "columns": INTERVALS}, ["the intervals miss"], ["inf"]),
    ],
)
def test_the_sentence_has_numbers_and_assumptions(
    changes: dict[str, Any], options: dict[str, Any], facts: list[str], absent: list[str]
) -> None:
    g = Guarantee(**LEVELS | changes)
    text = g.sentence(**options)
    assert lacks(text, facts + ASSUMED) == []
    assert [word for word in absent if word in text] == []
    assert str(g) == g.sentence()


def test_with_clusters_the_draw_is_of_clusters() -> None:
    text = Guarantee(**LEVELS).sentence(tasks=40, cluster=("city", "cities"))
    facts = ["the 40 calibration cities and of one task in each", "new tasks of new cities"]
    facts += ["cities and new cities are drawn i.i.d.", "no calibration city was seen"]
    assert lacks(text, [*facts, "number of cities"]) == []


def test_no_number_in_the_sentence_is_rounded() -> None:
    g = Guarantee(epsilon=0.123456789, alpha=1e-7, delta=1.23456789e-9)
    text = g.sentence(threshold=0.00019000160734350402)
    numbers = ["12.3456789%", "99.99999%", "99.999999876543211%", "0.00019000160734350402"]
    assert lacks(text, numbers) == []
    assert lacks(str(Guarantee(epsilon=0.07, alpha=0.07, delta=0.1)), [" 7%", " 93%"]) == []


def test_the_sentence_of_ps_covers_no_single_task() -> None:
    text = describe_example_guarantee(0.1, 0.01, examples=50, threshold=0.5)
    facts = ["confidence 99%", "50 calibration examples", "score >= 0.5", "at most 10%", "i.i.d."]
    facts += ["no calibration example was seen in training", "score function is fixed"]
    assert lacks(text, [*facts, "nothing about any one task"]) == []


@pytest.mark.parametrize(
    ("threshold", "options", "facts"),
    [
        (0.0, {}, ["threshold is 0.0", "if scores are probabilities, every label is kept"]),
        (
            -3.0,
            {"label": "yes"},
            ["-3.0 is the lowest calibration score", "class 'yes' may be kept"],
        ),
        (-4.0, {"is_interval": True}, ["-4.0 is the lowest", "every true number", "prediction"]),
    ],
)
def test_remarks_on_thresholds_that_keep_all(
    threshold: float, options: dict[str, Any], facts: list[str]
) -> None:
    text = describe_uninformative(threshold, 3, 40, **options)
    assert lacks(text, [*facts, "says little", "in 3 of 40 tasks (8%)"]) == []


def test_remarks_on_trivial_guarantees() -> None:
    for remark, subject in (
        (describe_trivial(), "Every label is kept"),
        (describe_trivial("yes"), "Class 'yes' is always kept"),
        (describe_trivial(is_interval=True), "Every interval is infinite"),
    ):
        assert remark.startswith(subject)
        assert remark.endswith("guarantee holds trivially.")


# Explanations for people who are not statisticians.


def test_an_explanation_for_a_committee() -> None:
    about = Context(unit="hospital", example="patient", model="triage 3.1", trained_on=range(27))
    facts = {
        "basis": ["triage 3.1", "60 hospitals with 24,000 patients", "at least 0.0723 (rounded"],
        "claim": ["at least 90% of new hospitals", "at most 3% of the patients", "right label"],
        "confidence": ["99% sure", "the 60 hospitals", "at most 1%"],
        "conditions": [
            "the hospitals of the calibration and the new ones are drawn at random",
            "patients are sampled in the same way (all balanced by class, or none)",
            "not trained on any of them",
            "the scores and the number of hospitals were fixed before anyone looked at results",
            "trained on 27 other hospitals (compared by name)",
        ],
        "limits": [
            "It does not hold\n- for each single hospital: up to 10% of them may be worse",
            "\n- for one class alone: a rare class may be missed far more often, even always",
            "\n- for another mix of classes",
            "\n- for a part of the patients",
            "3% is a share of all patients of one hospital",
            "\n- for hospitals unlike these, or once their patients change",
            "\n- for another model, or once the model or its scores change",
        ],
        "use": ["several labels", "An empty list is no all-clear", "like a list of all labels"],
    }
    text = explain(Guarantee(**LEVELS), about=about)
    assert [fact for name, some in facts.items() for fact in lacks(text[name], some)] == []
    assert text["limits"].count("\n- ") == 6
    assert "rule out little" not in text["basis"]


probabilities = st.floats(1e-9, 1, exclude_max=True)


@given(
    probabilities,
    probabilities,
    st.none() | st.floats(1e-6, 1, exclude_max=True),
    st.floats(allow_nan=False, allow_infinity=False),
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
    assert ("sure of it:" in text) == (delta is not None)
    others = {f"{tasks:,}", f"{examples:,}", round_down(threshold)}
    others |= {f"{minimum:,}"} if minimum else set()
    bare = re.sub(r"[\d.]+%", "", text)
    assert set(re.findall(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?", bare)) == others


@pytest.mark.parametrize(
    ("changes", "rule", "part", "facts"),
    [
        (
            {"delta": None},
            {},
            "confidence",
            ["on average over many such calibrations", "not known"],
        ),
        ({}, {"threshold": -math.inf}, "basis", ["all of them", "rule nothing out"]),
        ({}, {"threshold": 0.0, "keeps_all": True}, "basis", ["at least 0 (", "rule out little"]),
        ({}, {"examples": None}, "basis", ["calibrated on 60 hospitals. For"]),
        ({"min_examples": 45}, {}, "claim", ["kind with at least 45 patients, at most"]),
        ({"min_examples": 45}, {}, "limits", ["- for hospitals with fewer than 45 patients"]),
        ({"min_examples": 45}, {"left_out": 4}, "limits", ["(4 left out of the calibration)"]),
        (
            {"min_examples": 1, "per_class": True},
            {"label": "a", "left_out": 4},
            "limits",
            ["- for hospitals with fewer than 1 patient of the class\n"],
        ),
        (
            {"min_examples": 1, "per_class": True},
            {"label": "a"},
            "claim",
            ["with at least 1 patient of that class; these"],
        ),
    ],
)
def test_what_differs_is_said(
    changes: dict[str, Any], rule: dict[str, Any], part: str, facts: list[str]
) -> None:
    g = Guarantee(**LEVELS | changes)
    assert lacks(explain(g, RULE._replace(**rule))[part], facts) == []


def test_a_guarantee_in_expectation_claims_no_confidence() -> None:
    text = " ".join(explain(Guarantee(**LEVELS | {"delta": None})).values())
    assert "We are" not in text


def test_each_class_has_its_line() -> None:
    g = Guarantee(**LEVELS | {"epsilon": {"yes": 0.02, "no": 0.1, "?": 0.3}}, per_class=True)
    rules = [
        Rule("yes", 0.02, 0.00339, 1, 1),
        Rule("no", 0.1, -math.inf, 58, None, keeps_all=True),
        Rule("?", 0.3, 0.0, 58, 70, keeps_all=True),
    ]
    text = explain(g, *rules)
    assert lacks(text["basis"], ["60 hospitals. For", "threshold of their class"]) == []
    start, yes, no, unknown = text["claim"].splitlines()
    assert (
        lacks(start, ["each class separately", "90% of new hospitals", "need not be the same"])
        == []
    )
    assert lacks(yes, ["'yes', at most 2%", "at least 0.00339 (1 hospital, 1 patient)"]) == []
    assert lacks(no, ["'no', at most 10%", "always listed (58 hospitals)"]) == []
    assert lacks(unknown, ["at most 30%", "0, and hardly any is lower (58 hospitals, 70 "]) == []
    limits = ["for each class up to 10% of them may be worse, not necessarily the same ones"]
    limits += ["the shares are those of all patients of one class and hospital"]
    assert lacks(text["limits"], limits) == []
    assert "one class alone" not in text["limits"]
    assert "balanced" not in text["conditions"]


def test_many_classes_are_cut_short() -> None:
    g = Guarantee(**LEVELS, per_class=True)
    lines = explain(g, *[Rule(i, 0.03, 0.5, 60, 9) for i in range(21)])["claim"].splitlines()
    assert lines[-1] == "- and 1 more class, see thresholds_"
    assert len(lines) == 22


def test_one_task() -> None:
    text = " ".join(
        explain(Guarantee(**LEVELS), Rule(None, 0.03, -math.inf, 1, 1), tasks=1).values()
    )
    facts = ["on 1 hospital with 1 patient.", "the choice of the 1 hospital misled us"]
    facts += [
        "if the hospitals of the calibration and the new ones",
        "is not on record, so nobody has checked that.",
    ]
    assert lacks(text, facts) == []


def test_the_words_are_used_in_singular_and_plural() -> None:
    about = Context(unit="city/cities", example="person/people")
    text = " ".join(explain(Guarantee(**LEVELS), about=about).values())
    assert lacks(text, ["For each new person it", "60 cities with 24,000 people."]) == []
    assert not re.search(r"task|example|hospital|patient", text)


@pytest.mark.parametrize(
    ("columns", "radius"),
    [(INTERVALS, "2.13 ("), (INTERVALS | {"scale": "sd"}, "2.13 times its scale (")],
)
def test_intervals_are_not_lists_of_labels(columns: dict[str, str], radius: str) -> None:
    g, rule = Guarantee(**LEVELS), Rule(None, 0.03, -2.1234, 60, 600)
    text = explain(g, rule, columns=columns)
    assert lacks(text["basis"], [f"predicted number plus and minus {radius}rounded up)"]) == []
    assert "at most 3% of the patients get an interval without the true number" in text["claim"]
    assert not re.search("label|class", " ".join(text.values()))
    assert "class" not in summarise_limits(g, HOSPITALS, columns)
    wide = explain(g, rule._replace(threshold=-math.inf, keeps_all=True), columns=columns)["basis"]
    assert lacks(wide, ["all numbers, because there are too few data."]) == []
    assert "rule out little" in explain(g, rule._replace(keeps_all=True), columns=columns)["basis"]


def test_few_classes_are_named_beside_the_confidence() -> None:
    about = Context(drawn_from="16 classes", training="64 other classes, as the run records")
    rule = RULE._replace(tasks=200)
    text = explain(Guarantee(**LEVELS), rule, tasks=200, about=about)
    facts = ["99% sure", "The 200 tasks of the calibration were drawn from 16 classes"]
    facts += ["for new tasks of these", "only as far as these 16 classes represent them"]
    assert lacks(text["confidence"], [*facts, "drawing more tasks does not change that"]) == []
    assert text["conditions"].endswith("trained on 64 other classes, as the run records.")
    assert "drawn from 16 classes" in explain_average("tasks", 0.1, 0.05, rule, about)
    clusters = explain(Guarantee(**LEVELS), about=about, cluster=("alphabet", "alphabets"))
    assert "16 classes" not in " ".join(clusters.values())


def test_clusters_are_what_was_drawn() -> None:
    text = explain(Guarantee(**LEVELS), cluster=("region", "regions"))
    assert "one hospital from each of 60 regions" in text["basis"]
    assert "new hospitals of new regions of the same kind" in text["claim"]
    assert "the 60 regions" in text["confidence"]
    assert (
        lacks(
            text["conditions"],
            ["the regions of the calibration and the new ones", "number of regions"],
        )
        == []
    )
    assert "- for more hospitals of these regions: it is for new regions" in text["limits"]


@pytest.mark.parametrize("over", ["examples of one kind", "tasks", "examples"])
def test_a_bound_over_all_examples_covers_no_single_task(over: str) -> None:
    rule = RULE._replace(examples=500)
    if over == "examples of one kind":
        text = explain_examples(0.1, 0.05, rule, HOSPITALS)
        facts = ["calibrated on 500 patients.", "the 500 patients misled us", "more often there"]
        facts += ["Of new patients of the same kind, at most 10% get a list without", "0.0723"]
        facts += ["are drawn at random from the same kind", "its scores were fixed before"]
    else:
        text = explain_average(over, 0.1, 0.05, rule, HOSPITALS)
        facts = ["Averaged over new hospitals of the same kind", "at most 10% of the patients"]
        facts += ["threshold of the hospital.", "it is an average", "the 60 hospitals misled us"]
        assert ("over many such calibrations" in text) == (over == "examples")
        assert ("the patients of the 60 hospitals" in text) == (over == "examples")
        trivial = explain_average(over, 0.1, 0.05, rule._replace(threshold=-math.inf), HOSPITALS)
        assert "rule nothing out" in trivial
    facts += ["95% sure", "at most 5%", "- for any one hospital: ", "- for one class alone"]
    facts += ["another mix of classes", "10% is a share of all patients", "hospitals unlike these"]
    assert (
        lacks(text, [*facts, "not trained on any of them", "An empty list is no all-clear"]) == []
    )
    assert len(text.split("\n\n")) == 6


def test_the_limits_in_one_sentence() -> None:
    text = summarise_limits(Guarantee(**LEVELS), HOSPITALS)
    assert lacks(text, ["one class alone", "hospitals unlike these", "once the model"]) == []
    assert "class" not in summarise_limits(Guarantee(**LEVELS, per_class=True), HOSPITALS)


SCORES = np.random.default_rng(0).random(120 * 50)
TASKS = np.repeat(np.arange(120), 50)


def test_predictors_explain_themselves() -> None:
    predictor = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05, min_examples=20)
    predictor.calibrate(np.append(SCORES, 0.5), np.append(TASKS, 120))
    facts = ["on 120 tasks with 6,000 examples.", f"least {round_down(predictor.threshold_)} (rou"]
    assert lacks(predictor.explain(), [*facts, "fewer than 20 examples (1 left out"]) == []
    assert "on 6,000 examples." in PS(epsilon=0.1, delta=0.05).calibrate(SCORES).explain()
    cp = MetaCP(epsilon=0.2, delta=0.1).calibrate(SCORES, TASKS, np.full(120, -0.2))
    assert "Averaged over new tasks of the same kind, at most 20% of the" in cp.explain()
    sites = MetaPS(epsilon=0.1, alpha=0.3, delta=0.1, split="tight")
    sites.combine(np.linspace(0.1, 0.9, 60))  # without their sizes
    assert sites.explain().startswith("The model was calibrated on 60 tasks. For")


def test_each_class_of_a_predictor_has_its_numbers() -> None:
    labels = np.array(["no", "yes"])[np.arange(6000) % 2]
    method = MetaPS(epsilon={"no": 0.2, "yes": 0.3}, alpha=0.3, delta=0.1, per_class=True)
    method.calibrate(SCORES, TASKS, labels)
    no, yes = method.explain().split("\n\n")[1].splitlines()[1:]
    for line, label, share in ((no, "no", "20%"), (yes, "yes", "30%")):
        threshold = round_down(method.threshold_of(label))
        facts = [f"right label is '{label}', at most {share} ", "(120 tasks, 3,000 examples)"]
        assert lacks(line, [*facts, f"score is at least {threshold} ("]) == []


def test_a_rule_counts_what_was_used() -> None:
    scores, tasks = np.random.default_rng(0).random(600), np.repeat(np.arange(20), 30)
    scores, tasks = np.append(scores, [0.5, 0.6]), np.append(tasks, [20, 20])
    g = Guarantee(epsilon=0.2, alpha=0.3, delta=0.2, split="tight", min_examples=10)
    evidence = first_step(Scored(scores, tasks), g)
    (part,) = evidence.parts(g)
    rule = Rule.from_outcome(part, part.second_step())
    assert rule == Rule(None, 0.2, part.second_step().threshold, 20, 600, left_out=1)
    some = part._replace(sizes=np.where(np.arange(21) == 3, UNKNOWN, part.sizes))
    assert Rule.from_outcome(some, some.second_step()).examples is None  # one size is not known
    flat = part._replace(thresholds=np.full_like(part.thresholds, -np.inf))
    assert Rule.from_outcome(flat, flat.second_step()).keeps_all
    exact = part._replace(thresholds=np.zeros_like(part.thresholds), lowest=0.0)
    assert Rule.from_outcome(exact, exact.second_step()).keeps_all
    assert not Rule.from_outcome(exact, exact.second_step(), is_interval=True).keeps_all


# Cards for notebooks.

EVIL = '<script>alert(1)</script>&"\x1b[2J\n- forged\n\nforged'


class Tags(HTMLParser):
    """Collects the names of all tags."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)


def test_a_card_has_all_paragraphs_items_and_the_sentence() -> None:
    card = render_card("title", "first\n\nsecond\n- a\n- b", "exact")
    assert "<strong>title</strong><p>first</p><p>second</p><ul><li>a</li><li>b</li></ul>" in card
    assert "<p>exact</p></details>" in card


def test_names_cannot_forge_a_line_or_a_tag() -> None:
    g = Guarantee(**LEVELS, per_class=True)
    plain = explain(g, Rule("yes", 0.03, 0.5, 60, 9))
    about = Context(unit=EVIL, example=EVIL, model=EVIL)
    evil = explain(g, Rule(EVIL, 0.03, 0.5, 60, 9), about=about)
    assert [p.count("\n") for p in evil.values()] == [p.count("\n") for p in plain.values()]
    card = render_card(EVIL, "\n\n".join(evil.values()), EVIL)
    parser = Tags()
    parser.feed(card)
    assert not parser.tags - {"div", "strong", "p", "ul", "li", "details", "summary"}
    assert "\x1b" not in card
    assert "src" not in card
    assert "url" not in card
    assert render_text(EVIL).count("<") == 2

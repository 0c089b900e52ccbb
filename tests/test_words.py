"""Sentences and explanations: golden texts, and numbers that are always those of the guarantee.

The texts are in ``golden/texts.json``. ``python -m tests.test_words`` writes them again: read the
difference as a user would.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import (
    PS,
    Context,
    Guarantee,
    InfeasibleGuarantee,
    MetaPS,
    Monitor,
    evaluate,
    plan,
    words,
)
from metapac._text import inflect
from metapac.evidence import UNKNOWN, first_step
from metapac.fewshot import MetaCP
from metapac.fewshot.meta_cp import explain_average
from metapac.grouping import Scored
from metapac.guarantee import format_share, percent

LEVELS: dict[str, Any] = {"epsilon": 0.03, "alpha": 0.1, "delta": 0.01}
HOSPITALS = Context(unit="hospital", example="patient")
COMMITTEE = replace(HOSPITALS, model="triage 3.1", trained_on=range(900, 927))
INTERVALS = {"prediction": "guess", "y": "truth"}
STORED = Path(__file__).parent / "golden" / "texts.json"
SCORES = np.random.default_rng(0).random(6000)
TASKS = np.repeat(np.arange(120), 50)


def calibrate(about: Context | None = None, **changes: Any) -> MetaPS:
    return MetaPS(**LEVELS | {"epsilon": 0.1} | changes).calibrate(SCORES, TASKS, context=about)


def calibrate_classes() -> MetaPS:
    rates = {"no": 0.2, "yes": 0.3}
    method = MetaPS(epsilon=rates, alpha=0.3, delta=0.1, per_class=True, min_examples=20)
    return method.calibrate(SCORES, TASKS, np.array(["no", "yes"])[np.arange(6000) % 2])


def calibrate_intervals() -> MetaPS:
    y, scale = np.random.default_rng(1).integers(0, 100, 6000) / 8, np.full(6000, 2.0)
    return MetaPS(**LEVELS | {"epsilon": 0.1}).calibrate_intervals(y, 0 * y, TASKS, scale)


def watch(scores: Any, **changes: Any) -> Monitor:
    promise = calibrate(Context(unit="clinic", example="patient"), alpha=0.2)
    monitor = Monitor(promise, **changes)
    tasks = np.repeat([f"new {i}" for i in range(len(scores) // 100)], 100)
    monitor.add(scores, tasks, batch="May")
    return monitor


def watch_as_before(scores: Any) -> Monitor:
    """Return a monitor of a guarantee in expectation, as files of 0.2.0 may hold one."""
    monitor = watch(scores)
    monitor.terms = replace(monitor.terms, delta=None)
    return monitor


def refuse() -> str:
    try:
        MetaPS(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(SCORES[:600], np.arange(600) // 40)
    except InfeasibleGuarantee as error:
        return str(error)
    raise AssertionError("it is infeasible")


TEXTS: dict[str, Callable[[], str]] = {
    "a guarantee": lambda: Guarantee(**LEVELS).sentence(tasks=500, threshold=0.25),
    "in expectation": lambda: Guarantee(**LEVELS | {"delta": None}).sentence(tasks=10),
    "for each class": lambda: calibrate_classes().promise_,
    "many classes": lambda: Guarantee(**LEVELS, per_class=True, min_examples=30).sentence(
        threshold=dict.fromkeys(range(5), 0.5)
    ),
    "intervals": lambda: Guarantee(**LEVELS).sentence(threshold=-2.5, columns=INTERVALS),
    "infinite intervals": lambda: Guarantee(**LEVELS).sentence(
        threshold=-math.inf, columns=INTERVALS
    ),
    "clusters": lambda: Guarantee(**LEVELS).sentence(tasks=40, cluster=("city", "cities")),
    "examples": lambda: PS(epsilon=0.1, delta=0.05).calibrate(SCORES.round(3)).promise_,
    "explained": lambda: calibrate(COMMITTEE).explain(),
    "explained in expectation": lambda: calibrate(delta=None, min_examples=45).explain(),
    "explained for each class": lambda: calibrate_classes().explain(),
    "explained intervals": lambda: calibrate_intervals().explain(),
    "explained examples": lambda: PS(epsilon=0.1, delta=0.05).calibrate(SCORES).explain(),
    "explained averages": lambda: (
        MetaCP(epsilon=0.2, delta=0.1).calibrate(SCORES, TASKS, np.full(120, -0.2)).explain()
    ),
    "too few tasks": refuse,
    "a plan": lambda: str(plan(epsilon=0.1, alpha=0.1, delta=0.05, sizes=[200] * 15)),
    "a verdict": lambda: str(
        evaluate(calibrate(COMMITTEE), SCORES[:1000] / 2 + 0.5, TASKS[:1000] + 999).verdict
    ),
    "no tasks watched": lambda: Monitor(calibrate()).sentence(),
    "no alarm": lambda: watch(np.r_[np.zeros(300), np.full(700, 0.9)]).sentence(),
    "an alarm": lambda: watch(np.zeros(1000)).sentence(),
    "an alarm in expectation": lambda: watch_as_before(np.zeros(1000)).sentence(),
    "amber": lambda: watch(np.zeros(1000), false_alarm=1e-12).sentence(),
    "holds": lambda: watch(np.full(6000, 0.9)).sentence(),
    "a change": lambda: watch(np.r_[np.full(6000, 0.9), np.zeros(4000)]).sentence(),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_as_stored(name: str) -> None:
    assert TEXTS[name]() == json.loads(STORED.read_text())[name]


# Numbers in words.


RULE = words.Rule(None, 0.03, 0.07239, 60, 24000)


def lacks(text: str, facts: list[str]) -> list[str]:
    return [fact for fact in facts if fact not in text]


def explain(
    g: Guarantee, *rules: words.Rule, tasks: int = 60, about: Context = HOSPITALS, **more: Any
) -> dict[str, str]:
    """Return the paragraphs of an explanation by name."""
    names = ("basis", "claim", "confidence", "conditions", "limits", "use")
    paragraphs = words.explain_guarantee(g, rules or [RULE], tasks, about, **more).split("\n\n")
    return dict(zip(names, paragraphs, strict=True))


@given(st.floats(5e-324, 1, exclude_max=True))
def test_percentages_are_exact(fraction: float) -> None:
    shown = percent(fraction)
    assert float(Decimal(shown[:-1]) / 100) == fraction
    assert "e" not in shown.lower()
    rest = percent(fraction, complement=True)
    assert Decimal(rest[:-1]) < 100


def test_only_exact_fractions_are_shown_as_none_or_all() -> None:
    fractions = (0, 1, 0.05894, 0.9997, 0.0003, 1e-9, 1 - 1e-9)
    shown = ["0%", "100%", "5.9%", "99.97%", "0.03%", "<0.001%", ">99.999%"]
    assert [format_share(fraction) for fraction in fractions] == shown


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_thresholds_are_rounded_down_by_less_than_one_unit_of_the_third_digit(x: float) -> None:
    shown = Decimal(words.round_down(x))
    exact = Decimal(repr(x))
    assert shown <= exact
    assert float(shown) <= x
    assert len(shown.normalize().as_tuple().digits) <= 3
    if exact:
        assert exact - shown < Decimal(10) ** (exact.adjusted() - 2)


@given(st.floats(-1e6, 0))
def test_an_interval_is_rounded_up(threshold: float) -> None:
    text = words.describe_interval(threshold, {})
    (radius,) = re.findall(r"plus and minus (\S+) \(rounded up\)", text)
    assert float(radius) >= -threshold


def test_plurals() -> None:
    nouns = ["hospital", "city", "day", "class", "box", "branch", "person/people", " a / b ", "y"]
    plurals = ["hospitals", "cities", "days", "classes", "boxes", "branches", "people", "b", "ies"]
    singulars = [noun.split("/")[0].strip() for noun in nouns]
    assert [inflect(noun) for noun in nouns] == [*zip(singulars, plurals, strict=True)]


def test_no_number_in_the_sentence_is_rounded() -> None:
    g = Guarantee(epsilon=0.123456789, alpha=1e-7, delta=1.23456789e-9)
    text = g.sentence(threshold=0.00019000160734350402)
    numbers = ["12.3456789%", "99.99999%", "99.999999876543211%", "0.00019000160734350402"]
    assert lacks(text, numbers) == []
    assert lacks(str(Guarantee(epsilon=0.07, alpha=0.07, delta=0.1)), [" 7%", " 93%"]) == []


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
    text = words.explain_guarantee(
        g, [words.Rule(None, epsilon, threshold, tasks, examples)], tasks, HOSPITALS
    )
    shares = {percent(epsilon), percent(alpha), percent(alpha, complement=True)}
    if delta is not None:
        shares |= {percent(delta), percent(delta, complement=True)}
    assert set(re.findall(r"[\d.]+%", text)) == shares
    assert f"at most {percent(epsilon)} of the patients" in text
    assert f"at least {percent(alpha, complement=True)} of new hospitals" in text
    assert ("sure of it:" in text) == (delta is not None)
    others = {f"{tasks:,}", f"{examples:,}", words.round_down(threshold)}
    others |= {f"{minimum:,}"} if minimum else set()
    bare = re.sub(r"[\d.]+%", "", text)
    assert set(re.findall(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?", bare)) == others


DIFFERENCES: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({}, {"threshold": -math.inf}, "basis", "rule nothing out"),
    ({}, {"threshold": 0.0, "keeps_all": True}, "basis", "rule out little"),
    ({}, {"examples": None}, "basis", "calibrated on 60 hospitals. For"),
    ({"min_examples": 45}, {"left_out": 4}, "limits", "(4 left out of the calibration)"),
    ({"min_examples": 1, "per_class": True}, {"label": "a"}, "claim", "1 patient of that class;"),
    ({"per_class": True}, {"label": "a", "threshold": -math.inf}, "claim", "always in the set"),
    ({"per_class": True}, {"label": "a", "keeps_all": True}, "claim", "hardly any is lower"),
]


def test_what_differs_is_said() -> None:
    for changes, rule, part, fact in DIFFERENCES:
        assert fact in explain(Guarantee(**LEVELS | changes), RULE._replace(**rule))[part]
    g = Guarantee(**LEVELS, per_class=True)
    lines = explain(g, *[words.Rule(i, 0.03, 0.5, 60, 9) for i in range(21)])["claim"].splitlines()
    assert lines[-1] == "- and 1 more class, see thresholds_"
    assert len(lines) == 22
    about = Context(unit="city/cities", example="person/people")
    text = " ".join(explain(Guarantee(**LEVELS), about=about).values())
    assert lacks(text, ["For each new person it", "60 cities with 24,000 people."]) == []
    assert not re.search(r"task|example|hospital|patient", text)


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


def test_a_rule_counts_what_was_used() -> None:
    scores, tasks = np.random.default_rng(0).random(600), np.repeat(np.arange(20), 30)
    scores, tasks = np.append(scores, [0.5, 0.6]), np.append(tasks, [20, 20])
    g = Guarantee(epsilon=0.2, alpha=0.3, delta=0.2, split="tight", min_examples=10)
    evidence = first_step(Scored(scores, tasks), g)
    (part,) = evidence.parts(g)
    rule = words.Rule.from_outcome(part, part.second_step())
    assert rule == words.Rule(None, 0.2, part.second_step().threshold, 20, 600, left_out=1)
    some = part._replace(sizes=np.where(np.arange(21) == 3, UNKNOWN, part.sizes))
    assert (
        words.Rule.from_outcome(some, some.second_step()).examples is None
    )  # one size is not known
    flat = part._replace(thresholds=np.full_like(part.thresholds, -np.inf))
    assert words.Rule.from_outcome(flat, flat.second_step()).keeps_all
    exact = part._replace(thresholds=np.zeros_like(part.thresholds), lowest=0.0)
    assert words.Rule.from_outcome(exact, exact.second_step()).keeps_all
    assert not words.Rule.from_outcome(exact, exact.second_step(), is_interval=True).keeps_all


EVIL = '<script>alert(1)</script>&"\x1b[2J\n- forged\n\nforged'


def test_a_card_has_all_and_names_cannot_forge_a_line_or_a_tag() -> None:
    card = words.render_card("title", "first\n\nsecond\n- a\n- b", "exact")
    assert "<strong>title</strong><p>first</p><p>second</p><ul><li>a</li><li>b</li></ul>" in card
    assert "<p>exact</p></details>" in card
    g = Guarantee(**LEVELS, per_class=True)
    plain = explain(g, words.Rule("yes", 0.03, 0.5, 60, 9))
    about = Context(unit=EVIL, example=EVIL, model=EVIL)
    evil = explain(g, words.Rule(EVIL, 0.03, 0.5, 60, 9), about=about)
    assert [p.count("\n") for p in evil.values()] == [p.count("\n") for p in plain.values()]
    card = words.render_card(EVIL, "\n\n".join(evil.values()), EVIL)
    tags = {*re.findall(r"<\s*([^\s/>]+)", card)}
    assert not tags - {"div", "strong", "p", "ul", "li", "details", "summary"}
    assert not any(sign in card for sign in ("\x1b", "src", "url"))
    assert words.render_text(EVIL).count("<") == 2


def test_the_one_sentence_claims_no_more_than_is_guaranteed() -> None:
    levels: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.2, "delta": 0.05}
    about = Context(unit="clinic", example="patient")
    plain = words.summarise_guarantee(Guarantee(**levels), about)
    assert "80% of new clinics of the same kind, at most 10% of the patients" in plain
    clustered = words.summarise_guarantee(Guarantee(**levels), about, cluster=("group", "groups"))
    assert "new clinics of new groups" in clustered
    by_class = Guarantee(**levels, per_class=True, min_examples=9)
    assert words.summarise_guarantee(by_class, about).startswith(
        "For each class separately: in at least 80% of new clinics of the same kind with at least "
        "9 patients of the class, at most 10% of the patients of the class"
    )


if __name__ == "__main__":
    written = {name: text() for name, text in TEXTS.items()}
    STORED.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")

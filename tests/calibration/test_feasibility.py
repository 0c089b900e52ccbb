"""Too few data: what is missing is said, and each remedy works."""

from __future__ import annotations

import math

import numpy as np
import pytest
from metapac.calibration import ON_INFEASIBLE, check_feasible, check_on_infeasible

from metapac import Guarantee, InfeasibleGuarantee, InvalidInput, MetaPS
from metapac.evidence import collect_evidence
from tests.helpers.calibrations import draw_tasks, paper


@pytest.mark.parametrize(
    ("tasks", "examples", "facts"),
    [
        (40, 100, ["takes 116 tasks with at least 29 examples", "are 40 tasks", "add 76 tasks"]),
        (400, 20, ["400 of the 400 tasks have fewer than 29 examples", "add 4734 tasks"]),
        (40, 20, ["40 of the 40 tasks have fewer than 29 examples", "instead of 116"]),
    ],
)
def test_an_infeasible_guarantee_says_what_is_missing(
    tasks: int, examples: int, facts: list[str]
) -> None:
    scores, names = draw_tasks(tasks, examples)
    with pytest.raises(InfeasibleGuarantee) as caught:
        paper(split="tight").calibrate(scores, names)
    assert [fact for fact in facts if fact not in str(caught.value)] == []
    trivial = paper(split="tight", on_infeasible="trivial").calibrate(scores, names)
    assert trivial.threshold_ == -math.inf
    assert trivial.remarks_ == ["Every label is kept, so the guarantee holds trivially."]


@pytest.mark.parametrize("remedy", [{"alpha": 0.294}, {"delta": 0.0185}, {"tasks": 116}], ids=str)
def test_each_remedy_works(remedy: dict[str, float]) -> None:
    scores, names = draw_tasks(int(remedy.pop("tasks", 40)), 100)
    assert paper(split="tight", **remedy).calibrate(scores, names).threshold_ > -math.inf


def test_remedies_for_small_tasks_work() -> None:
    scores, names = draw_tasks(400, 20)
    for remedy in ({"epsilon": 0.14}, {"alpha": 0.244}):
        result = paper(split="tight", **remedy).calibrate(scores, names)
        assert result.threshold_ > -math.inf
    more = np.concatenate([scores, draw_tasks(4734, 29)[0]])
    ids = np.concatenate([names, 400 + draw_tasks(4734, 29)[1]])
    assert paper(split="tight").calibrate(more, ids).threshold_ > -math.inf
    with pytest.raises(InfeasibleGuarantee):
        paper(split="tight").calibrate(more[29:], np.concatenate([names, ids[8029:]]))


def test_the_joint_split_requires_the_fewest_tasks_over_its_levels() -> None:
    scores, names = draw_tasks(110, 200)
    with pytest.raises(InfeasibleGuarantee, match="takes 111 tasks with .* add 1 task with at"):
        paper().calibrate(scores, names)
    assert paper().calibrate(*draw_tasks(111, 200)).threshold_ > -math.inf


def test_small_sites_are_noticed_without_their_sizes() -> None:
    method = paper()
    sent = [method.task_threshold(np.zeros(10)) for _ in range(130)]
    assert sent[0].tolist() == [-math.inf] * 10 + [0.0] * 3  # .9 ** 10 is below .35
    for sizes in (None, [10] * 130):
        with pytest.raises(InfeasibleGuarantee, match="takes 1.. tasks with at least"):
            method.combine(sent, sizes=sizes)


def test_infeasible_sites_are_counted() -> None:
    sent = [0.5] * 130 + [-math.inf] * 3
    with pytest.raises(InfeasibleGuarantee, match="3 of the 133 tasks have fewer than 29 examples"):
        paper(split="tight").combine(sent)


def test_from_evidence_checks_that_the_tasks_are_enough() -> None:
    guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    evidence = collect_evidence(guarantee, [0.5, 0.6], ["a", "b"])
    with pytest.raises(InfeasibleGuarantee, match="cannot be guaranteed"):
        MetaPS.from_evidence(guarantee, evidence)
    trivial = MetaPS.from_evidence(guarantee, evidence, on_infeasible="trivial")
    assert trivial.threshold_ == -math.inf
    assert trivial.on_infeasible == "trivial"
    with pytest.raises(ValueError, match="on_infeasible must be 'raise' or 'trivial', got 'no'"):
        MetaPS.from_evidence(guarantee, evidence, on_infeasible="no")


def test_each_class_is_feasible_or_not() -> None:
    labels = np.array(["common"] * 39 + ["rare"] * 1)
    scores, tasks = draw_tasks(40, 40)
    g = Guarantee(epsilon=0.2, alpha=0.2, delta=0.1, split="tight", per_class=True)
    evidence = collect_evidence(g, scores, tasks, np.tile(labels, 40))
    assert evidence.classes == ("common", "rare")
    assert check_feasible(g, evidence, "trivial") == [True, False]
    with pytest.raises(InfeasibleGuarantee, match="rare"):
        check_feasible(g, evidence, "raise")


def test_only_two_words_say_what_to_do() -> None:
    for word in ON_INFEASIBLE:
        check_on_infeasible(word)
    with pytest.raises(InvalidInput, match="on_infeasible must be 'raise' or 'trivial', got 'no'"):
        check_on_infeasible("no")

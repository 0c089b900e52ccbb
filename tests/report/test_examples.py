"""Which tasks and which examples a report shows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from metapac import MetaPS, Scored, evaluate
from metapac.grouping import Row
from metapac.report.data import kind_of_set
from metapac.report.findings import choose_tasks, has_above, pick_examples, rank_tasks

SETS = {"empty": (), "missed": ("b",), "single": ("a",), "several": ("a", "b")}


def test_tasks_are_the_worst_a_middle_one_and_the_best(labelled: Scored, promise: MetaPS) -> None:
    found = evaluate(promise, labelled)
    ordered = [row["task"] for row in found.worst(len(found.tasks))]
    assert choose_tasks(found) == [ordered[0], ordered[round(19 / 2)], ordered[-1]]
    assert choose_tasks(found, 1) == ordered[:1]
    assert choose_tasks(found, 100) == ordered


def test_a_task_is_chosen_once_with_a_guarantee_per_class(
    labelled: Scored, per_class: MetaPS
) -> None:
    found = evaluate(per_class, labelled)
    tasks = choose_tasks(found)
    assert len({*tasks}) == 3
    assert tasks[0] == found.worst(1)[0]["task"]


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from([*SETS])), max_size=60),
    st.integers(0, 15),
)
def test_a_few_of_every_kind(rows: list[tuple[str, str]], number: int) -> None:
    examples = [Row(task, "a", SETS[kind]) for task, kind in rows]
    chosen = pick_examples(examples, ["x", "y", "z"], number)
    assert len(chosen) <= number
    assert [example.task for example in chosen] == sorted(example.task for example in chosen)
    for task in "xyz":
        own = [example for example in chosen if example.task == task]
        kinds = [kind_of_set(example) for example in own]
        present = {kind for name, kind in rows if name == task}
        assert len({*kinds}) == min(len(own), len(present))  # no kind twice before all once
    if number >= 3 * len(rows):
        assert len(chosen) == len(rows)


def test_kinds_that_one_task_left_out_come_first_at_the_next() -> None:
    kinds = [*SETS.values(), ("a", "b", "c")]
    examples = [Row(task, "a", labels, full=len(labels) == 3) for task in "xy" for labels in kinds]
    chosen = pick_examples(examples, ["x", "y"], 6)
    assert {kind_of_set(row) for row in chosen} == {"missed", "empty", "single", "several", "full"}


def test_of_one_kind_each_class_is_shown() -> None:
    examples = [Row("x", truth, ("a", "b"), full=True) for truth in "aaaabb"]
    assert [row.truth for row in pick_examples(examples, ["x"], 4)] == ["a", "b", "a", "b"]


def test_tasks_are_ranked_by_evidence_or_if_none_is_above_by_share(promise: MetaPS) -> None:
    def rank(missed: dict[str, tuple[int, int]]) -> tuple[list[str], bool]:
        tasks = [task for task, (_k, n) in missed.items() for _ in range(n)]
        scores = [0.0 if i < k else 1.0 for k, n in missed.values() for i in range(n)]
        found = evaluate(promise, scores, tasks)
        return [row["task"] for row in rank_tasks(found)], has_above(found)

    few_and_many = {"small": (1, 6), "large": (190, 1000), "none": (0, 1000)}
    assert rank(few_and_many) == (["large", "small", "none"], False)
    assert rank(few_and_many | {"above": (900, 1000)}) == (
        ["above", "small", "large", "none"],
        True,
    )


def test_what_a_task_leaves_over_goes_to_the_next() -> None:
    examples = [Row("x", "a", ()), *([Row("y", "a", ("a",))] * 9)]
    assert [row.task for row in pick_examples(examples, ["x", "y"], 6)] == ["x"] + ["y"] * 5

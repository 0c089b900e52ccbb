"""Sample logs as scores: tasks, labels, duplicates, filters, models and prediction sets."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metapac import PS, Context, InvalidInput, MetaPS, answers
from metapac.fewshot import read_samples
from metapac.fewshot.prompts import Samples
from tests.helpers.sample_logs import sample, write_log

OTHER = "samples_mmlu_art_2026-01-31T12-34-56.789012.jsonl"


def test_questions_keep_their_order_task_and_choices(tmp_path: Path) -> None:
    law = write_log(tmp_path, [sample(), sample([-1.0, -2.0], 0, ["no", "yes"], doc_id=1)])
    art = write_log(tmp_path, [sample([-5.0, 0.0], 0, doc_id=0)], OTHER)
    samples = read_samples([law, art])
    assert len(samples) == 3
    assert samples.tasks.tolist() == ["mmlu_law", "mmlu_law", "mmlu_art"]
    assert samples.ids == ["mmlu_law/0", "mmlu_law/1", "mmlu_art/0"]
    assert samples.labels.tolist() == [1, 0, 0]
    assert samples.choices[1] == ("no", "yes")
    assert [len(row) for row in samples.scores] == [3, 2, 2]
    assert samples.model is None


log_likelihoods = st.lists(st.floats(-700, 0), min_size=2, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(st.tuples(log_likelihoods, st.integers(0, 5)), min_size=1, max_size=8),
    st.sampled_from(["none", "characters", "bytes"]),
)
def test_scores_are_those_of_a_slow_loop(
    tmp_path: Path, rows: list[tuple[list[float], int]], normalise: str
) -> None:
    texts = ["a", "é", "long choice", "中文", "b b", "c"]
    records = [
        sample(values, label % len(values), texts[: len(values)], doc_id=i)
        for i, (values, label) in enumerate(rows)
    ]
    samples = read_samples(write_log(tmp_path, records), normalise=normalise)
    for i, (values, label) in enumerate(rows):
        lengths = {
            "none": [1] * len(values),
            "characters": [len(text) for text in texts],
            "bytes": [len(text.encode()) for text in texts],
        }[normalise]
        logits = [value / length for value, length in zip(values, lengths, strict=False)]
        total = math.fsum(math.exp(logit - max(logits)) for logit in logits)
        expected = [math.exp(logit - max(logits)) / total for logit in logits]
        assert samples.scores[i] == pytest.approx(expected, rel=1e-12, abs=1e-300)
        assert samples.labels[i] == label % len(values)
        assert samples.true_scores[i] == samples.scores[i][label % len(values)]


def test_any_score_function_applies(tmp_path: Path) -> None:
    log = write_log(tmp_path, [sample([-1.0, -3.0, -math.inf], 0)])
    p = [1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2)), 0.0]
    expected = {
        "log_probability": [math.log(p[0]), math.log(p[1]), -math.inf],
        "margin": [p[0] - p[1], p[1] - p[0], -p[0]],
        "cumulative": [1.0, p[1], 0.0],
        "probability(temperature=2.0)": [1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1)), 0.0],
        "raw": [-1.0, -3.0, -math.inf],
    }
    for score, values in expected.items():
        samples = read_samples(log, score=score)
        assert samples.scores[0] == pytest.approx(values, rel=1e-12)
        assert samples.score == score
    with pytest.raises(InvalidInput, match="score must be 'probability' or"):
        read_samples(log, score="entropy")


def test_an_impossible_choice_has_probability_0(tmp_path: Path) -> None:
    samples = read_samples(write_log(tmp_path, [sample([-math.inf, -3.0], 1)]))
    assert samples.scores[0].tolist() == [0.0, 1.0]


def test_a_field_divides_a_log_into_tasks(tmp_path: Path) -> None:
    records = [sample(doc_id=i, doc={"subject": "ab"[i % 2]}) for i in range(4)]
    samples = read_samples(write_log(tmp_path, records), task="doc.subject")
    assert samples.tasks.tolist() == ["a", "b", "a", "b"]


def test_tasks_of_two_types_are_refused(tmp_path: Path) -> None:
    records = [sample(doc={"subject": "a"}), sample(doc_id=1, doc={"subject": 1})]
    with pytest.raises(InvalidInput, match="tasks must hold ids of one type"):
        read_samples(write_log(tmp_path, records), task="doc.subject")


def test_without_logged_choices_their_positions_are_their_names(tmp_path: Path) -> None:
    samples = read_samples(write_log(tmp_path, [sample(arguments={})]))
    assert samples.choices == [("0", "1", "2")]


def test_a_question_in_two_logs_is_refused(tmp_path: Path) -> None:
    first = write_log(tmp_path, [sample()])
    again = write_log(tmp_path, [sample()], "samples_mmlu_law_2026-02-01T00-00-00.jsonl")
    with pytest.raises(InvalidInput) as raised:
        read_samples([first, again])
    assert str(raised.value) == (
        f"{again}, line 1: question 'mmlu_law/0' is in {first}, line 1 already, and an example "
        "counts only once. Pass one log of each task and model, one log in each file."
    )


def test_two_logs_in_one_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidInput, match="line 3: question 'mmlu_law/0' is in .*, line 1 already"
    ):
        read_samples(write_log(tmp_path, [sample(), sample(doc_id=1), sample(doc_id=0)]))


def test_filters_that_agree_count_once(tmp_path: Path) -> None:
    records = [sample(doc_id=i, filter=name) for name in ("a", "b") for i in range(3)]
    log = write_log(tmp_path, records)
    assert read_samples(log).ids == [f"mmlu_law/{i}" for i in range(3)]
    assert read_samples(log, filter="b").ids == [f"mmlu_law/{i}" for i in range(3)]


def test_filters_that_differ_must_be_chosen(tmp_path: Path) -> None:
    log = write_log(tmp_path, [sample(filter="a"), sample([-2.0, -1.0, -9.0], filter="b")])
    with pytest.raises(InvalidInput) as raised:
        read_samples(log)
    assert str(raised.value) == (
        f"{log}, line 2: filter 'b' leaves other log-likelihoods than 'a' in line 1. Choose one "
        "with filter='a'."
    )
    assert read_samples(log, filter="b").scores[0][2] < 0.001
    with pytest.raises(InvalidInput, match="holds no sample of filter 'c', only of a, b."):
        read_samples(log, filter="c")


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"holds no sample\.$"):
        read_samples(write_log(tmp_path, []))


def test_a_log_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing.jsonl"):
        read_samples(tmp_path / "missing.jsonl")


def test_the_model_is_known_if_the_results_are_there(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a", [sample()])
    results = "results_2026-01-31T12-34-56.789012.json"
    (tmp_path / "a" / results).write_text('{"model_name": "pythia-70m"}')
    assert read_samples(log).model == "pythia-70m"
    other = write_log(tmp_path / "b", [sample()], OTHER)
    assert read_samples([log, other]).model == "pythia-70m"
    (tmp_path / "b" / results).write_text('{"model_name": "pythia-1b"}')
    with pytest.raises(
        InvalidInput, match="'pythia-70m', and .* of 'pythia-1b'. A guarantee holds"
    ):
        read_samples([log, other])


@pytest.mark.parametrize(
    ("parameter", "value"), [("normalise", "tokens"), ("target", "label"), ("normalise", None)]
)
def test_parameters_are_checked(tmp_path: Path, parameter: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=f"^{parameter} must be 'none'|'auto'"):
        read_samples(write_log(tmp_path, [sample()]), **{parameter: value})


def test_a_wrong_target_cannot_pass_unnoticed(tmp_path: Path) -> None:
    # Choices that are numbers: as positions, the targets would be other choices.
    choices = ["1", "2", "3", "4"]
    rng = np.random.default_rng(0)
    records = []
    for i in range(40):
        label = int(rng.integers(4))
        values = -rng.exponential(size=4)
        records.append(sample(values.tolist(), label, choices, doc_id=i, by_text=True))
    if any(record["target"] == "4" for record in records):  # no position: that settles it
        records = [record for record in records if record["target"] != "4"]
    samples = read_samples(write_log(tmp_path, records))
    assert [choices[label] for label in samples.labels] == [record["target"] for record in records]


def test_lengths_are_compared_with_the_logged_accuracy(tmp_path: Path) -> None:
    log = write_log(tmp_path, [sample(acc_norm=0.0)])  # the target has the highest log-likelihood
    assert read_samples(log).labels.tolist() == [1]
    with pytest.raises(InvalidInput, match="line 1: the harness logged acc_norm 0, which does not"):
        read_samples(log, normalise="characters")
    assert read_samples(log, normalise="characters", target="index").labels.tolist() == [1]


def test_sets_of_questions_with_different_numbers_of_choices() -> None:
    scores = [np.array([0.5, 0.4, 0.1]), np.array([0.95, 0.05]), np.array([0.3, 0.3, 0.3, 0.1])]
    samples = Samples(
        np.array(["a"] * 3), ["0", "1", "2"], np.array([0, 0, 3]), scores, [("x",)] * 3
    )
    predictor = PS(epsilon=0.2, delta=0.1).calibrate(np.linspace(0, 1, 101))
    cut = predictor.threshold_
    assert 0.1 < cut < 0.3
    assert samples.predict_sets(predictor) == [[0, 1], [0], [0, 1, 2]]
    assert answers(samples.predict_sets(predictor)).labels == [None, 0, None]


def test_sets_of_another_model_or_score_function_are_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path, [sample()])
    context = Context(model="pythia, log-likelihoods per byte", score="margin")
    scores = np.linspace(-1, 1, 101)
    predictor = PS(epsilon=0.2, delta=0.1).calibrate(scores, context=context)
    same = read_samples(log, model="pythia", normalise="bytes", score="margin")
    assert same.model == context.model
    same.predict_sets(predictor)
    with pytest.raises(InvalidInput, match="score must be 'margin', the score function that was"):
        read_samples(log, model="pythia", normalise="bytes").predict_sets(predictor)
    for model, normalise in (("other", "bytes"), ("pythia", "none")):
        other = read_samples(log, model=model, normalise=normalise, score="margin")
        with pytest.raises(InvalidInput, match="model must be 'pythia, log-likelihoods per byte'"):
            other.predict_sets(predictor)


def test_from_logs_to_a_guarantee_and_answers(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    logs = []
    for subject in range(60):
        strength = rng.uniform(2, 5)
        records = []
        for i in range(50):
            count, label = int(rng.integers(3, 6)), int(rng.integers(3))
            values = rng.normal(size=count) + strength * (np.arange(count) == label) - 9
            records.append(sample(values.tolist(), label, doc_id=i))
        name = f"samples_subject{subject}_2026-01-31T12-34-56.jsonl"
        logs.append(write_log(tmp_path, records, name))
    calibration, new = read_samples(logs[:40]), read_samples(logs[40:])
    predictor = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1)
    predictor.calibrate(calibration.true_scores, calibration.tasks)
    sets = new.predict_sets(predictor)
    missed = [label not in kept for label, kept in zip(new.labels, sets, strict=True)]
    wrong = answers(sets).count_errors(new.labels)
    assert wrong.of_all <= np.mean(missed)
    assert np.mean(missed) == np.mean(new.true_scores < predictor.threshold_)

"""Language models: prompts as learners, and sample logs of lm-evaluation-harness as scores."""

from __future__ import annotations

import gzip
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy import special

from metapac import PS, Context, InvalidInput
from metapac.fewshot import InContextLearner, Task, read_samples, score_tasks
from metapac.fewshot.prompts import Samples
from tests.helpers.refusals import assert_refused
from tests.helpers.sample_logs import NAME, REAL_LINE, sample, write_log

NAMES = ["refund", "delivery", "other"]
SUPPORT = ["my money back", "where is my parcel", "hello there"]
TEXTS = ["the parcel is lost", "money please", "hello", "my parcel", "back there"]
TASK = Task.from_arrays(SUPPORT, [0, 1, 2], TEXTS, [1, 0, 2, 1, 0], name="shop")
OTHER = "samples_mmlu_art_2026-01-31T12-34-56.789012.jsonl"
RESULTS = "results_2026-01-31T12-34-56.789012.json"
shares_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def overlap(support: list[str], labels: list[Any], texts: list[str]) -> list[list[float]]:
    """Return how many words a text shares with those of each label; stands in for a model."""
    names = NAMES if labels and isinstance(labels[0], str) else list(range(3))
    words = {name: set[str]() for name in names}
    for text, label in zip(support, labels, strict=True):
        words[label] |= set(text.split())
    return [[float(len(words[name] & set(text.split()))) for name in names] for text in texts]


@given(st.integers(1, 9), st.lists(st.sampled_from(TEXTS), min_size=1, max_size=8))
def test_probabilities_do_not_depend_on_names_or_batches(size: int, texts: list[str]) -> None:
    expected = special.softmax(overlap(SUPPORT, [0, 1, 2], texts), axis=1)
    whole = InContextLearner(overlap).adapt(SUPPORT, [0, 1, 2]).predict_proba(texts)
    assert whole == pytest.approx(expected)
    named = InContextLearner(overlap, labels=NAMES, batch_size=size)
    for labels in ([0, 1, 2], NAMES, tuple(NAMES), np.array(NAMES)):
        assert named.adapt(SUPPORT, labels).predict_proba(texts).tolist() == whole.tolist()


def test_the_function_gets_plain_lists_and_may_change_them() -> None:
    seen = []

    def spoil(support: list[str], labels: list[Any], texts: list[str]) -> Any:
        assert all(type(text) is str for text in support + texts)
        seen.append((tuple(support), tuple(labels), len(texts)))
        support.clear()
        labels.clear()
        return np.zeros((len(texts), 3))

    learner = InContextLearner(spoil, labels=NAMES, batch_size=2)
    scorer = learner.adapt(np.array(SUPPORT), np.array([0, 1, 2]))
    assert scorer.predict_proba(np.array(TEXTS)).shape == (5, 3)
    assert scorer.predict_proba([]).shape == (0, 3)
    assert seen == [(tuple(SUPPORT), tuple(NAMES), n) for n in (2, 2, 1, 0)]
    assert repr(learner) == f"InContextLearner(spoil, labels={NAMES!r}, outputs='logits')"


def test_labels_absent_from_the_support_set() -> None:
    absent = InContextLearner(overlap).adapt(SUPPORT[:2], [0, 1], classes=3)
    assert (absent.predict_proba(TEXTS)[:, 2] == 0).all()
    named = InContextLearner(overlap, labels=NAMES).adapt(SUPPORT[:2], [0, 1])
    assert (named.predict_proba(TEXTS)[:, 2] > 0).all()


def test_texts_in_one_prompt_are_refused_and_noise_is_borne_in_float16() -> None:
    def all_in_one_prompt(support: Any, labels: Any, texts: list[str]) -> Any:
        return np.array(overlap(support, labels, texts)) + 0.1 * len(texts) * np.arange(3)

    def noisy(kind: Any) -> Any:
        rng = np.random.default_rng(0)

        def function(support: Any, labels: Any, texts: list[str]) -> Any:
            exact = np.array(overlap(support, labels, texts))
            return (exact + rng.uniform(-0.05, 0.05, exact.shape)).astype(kind)

        return InContextLearner(function)

    assert_refused("itself", score_tasks, InContextLearner(all_in_one_prompt), [TASK])
    assert_refused("same each time", score_tasks, noisy(np.float64), [TASK])
    scores, _ids = score_tasks(noisy(np.float16), [TASK])
    # No score is above what the model may return the next time.
    worst = special.softmax(overlap(SUPPORT, [0, 1, 2], TEXTS), axis=1)
    assert (scores <= worst[np.arange(5), TASK.query_y]).all()


def test_bad_input_of_a_prompted_learner_is_refused() -> None:
    bad = ["only"], "ab", [0, 1], ["a", "a"]
    for name, value in (*(("labels", x) for x in bad), ("outputs", "odds"), ("batch_size", 0)):
        assert_refused(name, InContextLearner, overlap, **{name: value})
    assert_refused("function callable", InContextLearner, "gpt")
    learner, named = InContextLearner(overlap), InContextLearner(overlap, labels=NAMES)
    for x in ([1.0, 2.0, 3.0], [None, "a", "b"], [b"a", b"b", b"c"]):
        assert_refused("support_x texts CallableLearner", learner.adapt, x, [0, 1, 2])
    assert_refused("x texts", learner.adapt(SUPPORT, [0, 1, 2]).predict_proba, "one text")
    assert_refused("labels 3 4", named.adapt, SUPPORT, [0, 1, 2], classes=4)
    assert_refused("support_y 'lost'", named.adapt, SUPPORT, ["refund", "lost", "other"])
    assert_refused("support_y whole number", learner.adapt, SUPPORT, NAMES)
    for batch_size, shape in itertools.product((None, 2), ((2,), (1, 3), (5, 2), (5, 4))):
        wrong = InContextLearner(
            lambda *_, of=shape: np.zeros(of), labels=NAMES, batch_size=batch_size
        )
        assert_refused("row shape", wrong.adapt(SUPPORT, [0, 1, 2]).predict_proba, TEXTS)


def read(folder: Path, *records: dict[str, Any], **options: Any) -> Samples:
    return read_samples(write_log(folder, records), **options)


def test_a_log_of_the_harness_is_read(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("\n" + REAL_LINE + "  \n")
    samples = read_samples(tmp_path / NAME)
    (tmp_path / f"{NAME}.gz").write_bytes(gzip.compress(REAL_LINE.encode()))
    packed = read_samples(tmp_path / f"{NAME}.gz", score="raw", task="doc.subject")
    assert packed.scores[0][0] == -0.05805094382649867
    assert (packed.tasks.tolist(), packed.score) == (["algebra0"], "raw")
    assert samples.scores[0] == pytest.approx(special.softmax(packed.scores[0]))
    assert samples.choices == [tuple(json.loads(REAL_LINE)["doc"]["choices"])]
    assert (samples.ids, samples.labels.tolist()) == (["mmlu_law/0"], [3])
    assert (samples.tasks.tolist(), samples.model, len(samples)) == (["mmlu_law"], None, 1)


def test_older_and_other_forms_are_read_alike(tmp_path: Path) -> None:
    new = sample()
    requests = [list(request.values()) for request in new["arguments"].values()]
    repeated = [[["-3.0", "False"], ["-9.0", "False"]], [["-1.0", "True"]], [["-2.0", "False"]]]
    old = {**new, "target": 1, "arguments": requests, "resps": repeated}
    del old["filtered_resps"], old["filter"]
    long = sample([-float(i) for i in range(12)], 0)
    mixed = {**long, "arguments": dict(sorted(long["arguments"].items()))}  # 0, 1, 10, 11, 2, ...
    twice = sample([-3.0, -1.0, -0.1, -0.2], 1, ["no", "yes", "no", "yes"], acc=1.0)
    twice |= {"acc_mutual_info": 1.0}  # the choices follow once more, without the prompt
    for one, other in ((new, old), (long, mixed), (sample([-3, -1], 1, ["no", "yes"]), twice)):
        expected, result = read(tmp_path, one), read(tmp_path, other)
        assert result.scores[0].tolist() == expected.scores[0].tolist()
        assert (result.choices, result.labels) == (expected.choices, expected.labels)
    plain = read(tmp_path, {**new, "arguments": {}})
    assert (plain.choices, plain.labels.tolist()) == ([("0", "1", "2")], [1])


words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z", "Nd"]), min_size=1, max_size=8)
choices = st.lists(st.tuples(words, st.floats(-700, 0)), min_size=2, max_size=6)


@shares_folder
@given(
    st.lists(st.tuples(choices, st.integers(0, 5)), min_size=1, max_size=6),
    st.sampled_from(["none", "characters", "bytes"]),
    st.sampled_from([" ", "", "\n", "\n\n"]),
    st.booleans(),
)
def test_scores_are_those_of_a_slow_loop(
    tmp_path: Path,
    rows: list[tuple[list[tuple[str, float]], int]],
    normalise: str,
    delimiter: str,
    by_text: bool,
) -> None:
    rows = [(list({text: (text, v) for text, v in pairs}.values()), n) for pairs, n in rows]
    rows = [(pairs, label % len(pairs)) for pairs, label in rows if len(pairs) > 1]
    more: Any = {"delimiter": delimiter, "by_text": by_text}
    parts: list[Any] = [(*zip(*pairs, strict=True), label) for pairs, label in rows]
    records = [sample(v, label, t, doc_id=i, **more) for i, (t, v, label) in enumerate(parts)]
    assume(records)
    samples = read(tmp_path, *records, normalise=normalise, task="doc.more.deep")
    for i, (pairs, label) in enumerate(rows):
        lengths = [{"none": 1, "characters": len(t), "bytes": len(t.encode())} for t, _ in pairs]
        logits = [v / length[normalise] for (_, v), length in zip(pairs, lengths, strict=True)]
        total = math.fsum(math.exp(logit - max(logits)) for logit in logits)
        expected = [math.exp(logit - max(logits)) / total for logit in logits]
        assert samples.scores[i] == pytest.approx(expected, rel=1e-12, abs=1e-300)
        assert samples.choices[i] == tuple(text for text, _ in pairs)
        assert samples.true_scores[i] == samples.scores[i][label]
    assert samples.tasks.tolist() == ["x"] * len(rows)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@shares_folder
@given(st.sampled_from([*sample()]), json_values)
def test_any_value_of_a_field_is_read_or_refused(tmp_path: Path, key: str, value: Any) -> None:
    path = write_log(tmp_path, [])
    path.write_text(json.dumps({**sample(), key: value}))
    try:
        read_samples(path, task="doc.subject", normalise="bytes")
    except InvalidInput as error:
        assert str(path) in str(error)  # noqa: PT017


@shares_folder
@given(st.integers(0, len(REAL_LINE.encode()) - 1), st.binary(max_size=3), st.integers(0, 9))
def test_any_damage_is_read_or_refused(
    tmp_path: Path, position: int, inserted: bytes, removed: int
) -> None:
    line = REAL_LINE.encode()
    path = tmp_path / NAME
    path.write_bytes(line + line[:position] + inserted + line[position + removed :])
    try:
        read_samples(path)
    except InvalidInput as error:
        assert ", line " in str(error)  # noqa: PT017


def test_damaged_logs_are_refused_with_the_line(tmp_path: Path) -> None:
    packed = gzip.compress((REAL_LINE * 50).encode())
    cases = {
        NAME: [REAL_LINE.encode() * 2, REAL_LINE.encode() + b"{oops\n" + REAL_LINE.encode()],
        f"{NAME}.gz": [packed[:-20], b"PK" + packed, packed[:30] + packed],
        OTHER: [REAL_LINE.encode()[:n] for n in (2, 100, 900)] + [b"[" * 200_000, b"[1]", b""],
    }
    cases[OTHER] += [REAL_LINE.replace("{", '{"resps": [], ', 1).encode()]
    for name, contents in cases.items():
        for content in contents:
            (tmp_path / name).write_bytes(content)
            line = {NAME: "line 2", OTHER: "line 1" * bool(content)}.get(name, "gzip")
            assert_refused(f"{name} {line}", read_samples, tmp_path / name)


def test_questions_that_cannot_be_scored_are_refused_with_the_line(tmp_path: Path) -> None:
    responses: list[Any] = [["The answer is 4."], ["42"], [["-0.9", "False"]], [], None, "text"]
    responses += [[["-0.9", "False"], "text"], [["-0.9"], ["-0.1"]], [["low", ""], ["-1", ""]]]
    numbers = [[bad, -1.0] for bad in (math.nan, math.inf, "nan", "Infinity")] + [[-math.inf] * 2]
    prompts = [["Tom was late", " to the party"], ["Ann was late", " to the party"]]
    arguments = [{"gen_args_0": {"arg_0": "?", "arg_1": " a"}}, [["?"]] * 3, "text", 3, prompts]
    arguments += [[["?", f"\ud800{i}"] for i in range(3)]]
    targets = [None, True, 1.0, {"answer": 1}, "3", "-1", "maybe", "", "٢", "²", "9" * 30, [0, 2]]
    no_names: list[Any] = [None, True, 0.5, [1], {}, ""]
    cases: list[tuple[str, Any, str]] = [
        *(("filtered_resps", value, "") for value in responses),
        *(("filtered_resps", [[v, ""] for v in row], "numbers, -inf") for row in numbers),
        *(("arguments", value, "") for value in arguments),
        *(("target", value, "target 3") for value in targets),
        *(("doc_id", value, "doc_id") for value in no_names),
        *(("doc", {"subject": value}, "doc.subject") for value in no_names),
        ("doc", {"topic": "law"}, "task 'subject' 'topic'"),
        ("doc", "law", "task 'subject'"),
    ]
    for key, value, expected in cases:
        path = write_log(tmp_path, [])
        path.write_text(json.dumps(sample()) + "\n" + json.dumps({**sample(doc_id=1), key: value}))
        assert_refused(f"{path} line 2: {expected}", read_samples, path, task="doc.subject")
    both = {**sample([-1.0, -2.0], 0), "arguments": prompts, "target": "to the party"}
    assert_refused("line 1: prompt", read, tmp_path, both)
    mixed = sample(), sample(doc_id=1, doc={"subject": 1})
    assert_refused("tasks type", read, tmp_path, *mixed, task="doc.subject")


def test_targets_are_positions_or_texts_whichever_the_accuracy_confirms(tmp_path: Path) -> None:
    def labels(*questions: tuple[str, Any], target: str = "auto") -> Any:
        # Choice 0, whose text is "1", is the most likely one.
        records = [
            {**sample([-1, -2, -3], 0, ["1", "2", "x"], doc_id=i), "target": logged, "acc": acc}
            for i, (logged, acc) in enumerate(questions)
        ]
        return read(tmp_path, *records, target=target).labels.tolist()

    assert labels(("0", 1.0), ("1", 0.0)) == [0, 1]
    assert labels(("1", 1.0), (" 2 ", 0.0)) == [0, 1]  # by text
    assert labels(("x", None), ("1", None)) == [2, 0]
    assert labels(("0", 0.37), ("0", "1.0")) == [0, 0]  # only accuracies of 0 and 1 are compared
    assert_refused("target at once", labels, ("2", 0.0), ("2", 0.0))
    assert labels(("2", 0.0), target="index") == [2]
    assert labels(("2", 0.0), target="text") == [1]
    assert_refused("target line 1: acc", labels, ("0", 0.0))
    assert labels(("0", 0.0), target="index") == [0]
    for target in ("auto", "index", "text"):
        assert_refused("target not all", labels, ("0", None), ("x", None), target=target)


def test_lengths_must_be_known_and_those_of_the_harness(tmp_path: Path) -> None:
    log = [sample([-1.0, -0.9, -3.0], 1, ["a", "bb", "c"])]
    assert read(tmp_path, *log, normalise="characters").labels.tolist() == [1]
    wrong = {**log[0], "acc_norm": 0.0}
    assert_refused("normalise line 1: acc_norm 0", read, tmp_path, wrong, normalise="characters")
    assert read(tmp_path, wrong, normalise="bytes").labels.tolist() == [1]
    forced = read(tmp_path, wrong, normalise="characters", target="index")
    assert forced.scores[0] == pytest.approx(special.softmax([-1, -0.45, -3]))
    for record in ({**log[0], "arguments": {}}, sample([-1, -2], 0, ["a", ""])):
        assert_refused("normalise line 1: bytes", read, tmp_path, record, normalise="bytes")


def test_an_example_counts_once(tmp_path: Path) -> None:
    law = write_log(tmp_path, [sample(), sample([-1.0, -2.0], 0, ["no", "yes"], doc_id=1)])
    art = write_log(tmp_path, [sample([-5.0, 0.0], 0)], OTHER)
    samples = read_samples([law, str(art)])
    assert samples.tasks.tolist() == ["mmlu_law", "mmlu_law", "mmlu_art"]
    assert samples.ids == ["mmlu_law/0", "mmlu_law/1", "mmlu_art/0"]
    assert [len(row) for row in samples.scores] == [3, 2, 2]
    again = write_log(tmp_path, [sample()], "samples_mmlu_law_2026-02-01T00-00-00.jsonl")
    assert_refused(f"{again} line 1: 'mmlu_law/0' {law}", read_samples, [law, again])
    assert_refused("line 3: 'mmlu_law/0'", read, tmp_path, sample(), sample(doc_id=1), sample())
    records = [sample(doc_id=i, filter=name) for name in ("a", "b") for i in range(3)]
    for wanted in (None, "b"):
        assert read(tmp_path, *records, filter=wanted).ids == [f"mmlu_law/{i}" for i in range(3)]
    differ = [sample(filter="a"), sample([-2.0, -1.0, -9.0], filter="b")]
    assert_refused("filter line 2: 'b' filter='a'", read, tmp_path, *differ)
    assert read(tmp_path, *differ, filter="b").scores[0][2] < 0.001
    assert_refused("filter 'c' a, b", read, tmp_path, *differ, filter="c")


def test_logs_are_found_and_name_their_task_and_model(tmp_path: Path) -> None:
    first = write_log(tmp_path / "out", [sample()], f"model/{NAME}")
    assert read_samples(tmp_path / "out").ids == read_samples([first]).ids
    for name, task in (
        ("samples_a_2020-01-01T00-00-00_2026-01-31T12-34-56.jsonl", "a_2020-01-01T00-00-00"),
        ("pretrained=gpt2_law.jsonl", "pretrained=gpt2_law"),
    ):
        assert read_samples(write_log(tmp_path, [sample()], name)).tasks.tolist() == [task]
    results = first.with_name(RESULTS)
    for text in ("", "[]", "{}", '{"model_name": ""}', '{"model_name": 3}', "[" * 100_000, "\xff"):
        results.write_text(text)
        assert read_samples(first).model is None
    results.write_text('{"model_name": "pythia-70m"}')
    other = write_log(tmp_path / "b", [sample()], OTHER)
    assert read_samples([first, other]).model == "pythia-70m"
    assert read_samples(first, model="mine", normalise="bytes").model == (
        "mine, log-likelihoods per byte"
    )
    (tmp_path / "b" / RESULTS).write_text('{"model_name": "pythia-1b"}')
    assert_refused("'pythia-70m' 'pythia-1b'", read_samples, [first, other])
    write_log(tmp_path / "none", [], f"{NAME}.bak")
    assert_refused("samples_*.jsonl", read_samples, tmp_path / "none")
    assert_refused("paths", read_samples, [])
    for name, value in (("normalise", "tokens"), ("target", "label"), ("score", "entropy")):
        assert_refused(name, read_samples, first, **{name: value})
    with pytest.raises(FileNotFoundError, match="missing.jsonl"):
        read_samples(tmp_path / "missing.jsonl")


def test_sets_of_another_model_or_score_function_are_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path, [sample()])
    context = Context(model="pythia, log-likelihoods per byte", score="margin")
    predictor = PS(epsilon=0.2, delta=0.1).calibrate(np.linspace(-1, 1, 101), context=context)
    same = {"model": "pythia", "normalise": "bytes", "score": "margin"}
    read_samples(log, **same).predict_sets(predictor)
    for name, value in (("score", "probability"), ("model", "other"), ("normalise", "none")):
        other = read_samples(log, **same | {name: value})
        expected = "score 'margin'" if name == "score" else f"model {context.model}"
        assert_refused(expected, other.predict_sets, predictor)

"""Lines of a sample log: what is read, and what is refused in which words."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metapac import InvalidInput
from metapac.fewshot import prompts
from metapac.fewshot.prompts import Question, find_logs, read_model, read_questions, task_of_file
from tests.helpers.sample_logs import NAME, REAL_LINE, sample, write_log

shares_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(folder: Path, *samples: dict[str, Any], field: str | None = None) -> list[Question]:
    return list(read_questions(write_log(folder, samples), field))


def read_bytes(folder: Path, content: bytes, name: str = NAME) -> list[Question]:
    path = folder / name
    path.write_bytes(content)
    return list(read_questions(path, None))


def test_a_line_of_the_harness_is_read(tmp_path: Path) -> None:
    (question,) = read_bytes(tmp_path, REAL_LINE.encode())
    assert question.id == 0
    assert question.filter == "none"
    assert question.log_likelihoods[0] == -0.05805094382649867
    assert question.choices == tuple(json.loads(REAL_LINE)["doc"]["choices"])
    assert (question.by_index, question.by_text) == (3, None)
    assert question.logged == {"acc": False, "acc_norm": False, "acc_bytes": False}


def test_the_plain_lists_of_older_versions_are_read_alike(tmp_path: Path) -> None:
    new = sample()
    old = {
        **new,
        "target": 1,
        "arguments": [list(request.values()) for request in new["arguments"].values()],
        "resps": [[[-3.0, False]], [[-1.0, True]], [[-2.0, False]]],
    }
    del old["filtered_resps"], old["filter"]
    assert read(tmp_path, old) == read(tmp_path, new)


def test_of_repeated_requests_the_first_counts(tmp_path: Path) -> None:
    record = sample([-3.0, -1.0], 1)
    record["filtered_resps"] = [[["-3.0", "False"], ["-9.0", "False"]], [["-1.0", "True"]]]
    (question,) = read(tmp_path, record)
    assert question.log_likelihoods == (-3.0, -1.0)


@pytest.mark.parametrize("metric", [0.37, None, "1.0", [1, 1]])
def test_only_accuracies_of_0_and_1_are_compared(tmp_path: Path, metric: Any) -> None:
    (question,) = read(tmp_path, {**sample(), "acc": metric})
    assert question.logged == {"acc_norm": True, "acc_bytes": True}


def test_requests_are_ordered_by_number_whatever_their_order_in_the_file(tmp_path: Path) -> None:
    record = sample([-float(i) for i in range(12)], 0)
    record["arguments"] = dict(sorted(record["arguments"].items()))  # 0, 1, 10, 11, 2, ...
    (question,) = read(tmp_path, record)
    assert question.choices == tuple(f"choice {i}" for i in range(12))


words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=8)
numbers = st.floats(max_value=0, allow_nan=False)


@shares_folder
@given(
    st.lists(st.tuples(words, numbers), min_size=2, max_size=6, unique_by=lambda pair: pair[0]),
    st.sampled_from([" ", "", "\n", "\n\n"]),
    st.booleans(),
    st.data(),
)
def test_what_the_harness_writes_is_read_back(
    tmp_path: Path,
    pairs: list[tuple[str, float]],
    delimiter: str,
    by_text: bool,
    data: st.DataObject,
) -> None:
    choices, values = zip(*pairs, strict=True)
    if max(values) == -math.inf:
        return
    label = data.draw(st.integers(0, len(choices) - 1))
    record = sample(values, label, choices, delimiter=delimiter, by_text=by_text)
    (question,) = read(tmp_path, record, field="doc.more.deep")
    assert question.log_likelihoods == values
    assert question.choices == choices
    assert label == (question.by_text if by_text else question.by_index)
    assert question.task == "x"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@shares_folder
@given(st.sampled_from([*sample()]), json_values)
def test_no_value_of_a_field_ends_in_another_error(tmp_path: Path, key: str, value: Any) -> None:
    path = write_log(tmp_path, [{**sample(), key: value}])
    try:
        list(read_questions(path, "doc.subject"))
    except InvalidInput as error:
        assert str(error).startswith(f"{path}, line 1: ")  # noqa: PT017


@shares_folder
@given(st.integers(0, len(REAL_LINE.encode()) - 1), st.binary(max_size=3), st.integers(0, 9))
def test_no_damage_to_a_line_ends_in_another_error(
    tmp_path: Path, position: int, inserted: bytes, removed: int
) -> None:
    line = REAL_LINE.encode()
    damaged = line[:position] + inserted + line[position + removed :]
    try:
        read_bytes(tmp_path, line + damaged)
    except InvalidInput as error:
        assert ", line " in str(error)  # noqa: PT017


@pytest.mark.parametrize("cut", [2, 100, 900])
def test_a_log_that_is_cut_off_is_refused(tmp_path: Path, cut: int) -> None:
    content = (REAL_LINE * 2).encode()
    with pytest.raises(InvalidInput, match=r"line 2: is not JSON .*the log is cut off\. Log the"):
        read_bytes(tmp_path, content[: len(REAL_LINE.encode()) + cut])


def test_a_broken_line_in_the_middle_is_not_called_cut_off(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="line 2: is not JSON") as raised:
        read_bytes(tmp_path, (REAL_LINE + "{oops\n" + REAL_LINE).encode())
    assert "cut off" not in str(raised.value)


def test_a_key_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="line 1: is not JSON .a key occurs twice"):
        read_bytes(tmp_path, REAL_LINE.replace("{", '{"resps": [], ', 1).encode())


def test_a_last_line_without_a_line_break_is_read(tmp_path: Path) -> None:
    assert len(read_bytes(tmp_path, (REAL_LINE * 2).encode()[:-1])) == 2


def test_blank_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    questions = read_bytes(tmp_path, ("\n" + REAL_LINE + "  \n\n" + REAL_LINE).encode())
    assert [question.line for question in questions] == [2, 5]


def test_nesting_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="line 1: is not JSON"):
        read_bytes(tmp_path, b"[" * 200_000)


def test_a_line_that_is_too_long_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "MAX_LINE", 100)
    with pytest.raises(InvalidInput, match="line 1: is longer than 100 bytes"):
        read_bytes(tmp_path, REAL_LINE.encode())


def test_compressed_logs_are_read(tmp_path: Path) -> None:
    packed = gzip.compress((REAL_LINE * 2).encode())
    assert len(read_bytes(tmp_path, packed, NAME + ".gz")) == 2


@pytest.mark.parametrize("damage", [lambda b: b[:-20], lambda b: b"PK" + b, lambda b: b[:30] + b])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: Any) -> None:
    packed = gzip.compress((REAL_LINE * 50).encode())
    with pytest.raises(InvalidInput, match="is not a whole gzip file .*Copy it again"):
        read_bytes(tmp_path, damage(packed), NAME + ".gz")


@pytest.mark.parametrize(
    ("responses", "kind"),
    [
        (["The answer is 4."], "generated text"),
        (["42"], "a generated number, or a perplexity"),
        ([["-0.9", "False"]], "a single continuation"),
        ([], "nothing"),
        (None, "null"),
        ([["-0.9", "False"], "text"], "a mixture"),
        ([["-0.9"], ["-0.1"]], "numbers without is_greedy"),
        ([["low", "False"], ["-1", "False"]], "text for a number"),
        ([[True, "False"], ["-1", "False"]], "a truth value"),
    ],
)
def test_logs_without_choices_are_refused(tmp_path: Path, responses: Any, kind: str) -> None:
    with pytest.raises(
        InvalidInput, match="line 1: must hold a log-likelihood for each of several"
    ):
        read(tmp_path, {**sample(), "filtered_resps": responses})


@pytest.mark.parametrize("bad", [math.nan, math.inf, "nan", "inf", "Infinity"])
def test_log_likelihoods_must_be_numbers(tmp_path: Path, bad: Any) -> None:
    with pytest.raises(InvalidInput, match="line 1: holds the log-likelihoods .* are none. Drop"):
        read(tmp_path, {**sample(), "filtered_resps": [[bad, "False"], [-1, "True"]]})


def test_an_impossible_choice_is_read_unless_all_are(tmp_path: Path) -> None:
    (question,) = read(tmp_path, sample([-math.inf, -1.0], 1))
    assert question.log_likelihoods == (-math.inf, -1.0)
    with pytest.raises(InvalidInput, match="line 1: every choice has log-likelihood -inf"):
        read(tmp_path, sample([-math.inf, -math.inf]))


def test_log_likelihoods_without_the_prompt_are_left_out(tmp_path: Path) -> None:
    record = sample([-3.0, -1.0, -0.1, -0.2], 1, ["no", "yes", "no", "yes"])
    (question,) = read(tmp_path, {**record, "acc_mutual_info": 1.0})
    assert question.log_likelihoods == (-3.0, -1.0)
    assert question.choices == ("no", "yes")


def test_a_missing_or_extra_request_is_refused(tmp_path: Path) -> None:
    for arguments in ({"gen_args_0": {"arg_0": "?", "arg_1": " a"}}, [["?"]] * 3, "text", 3):
        with pytest.raises(
            InvalidInput, match="a prompt and a choice in 'arguments' for each of 3"
        ):
            read(tmp_path, {**sample(), "arguments": arguments})


def test_choices_in_the_prompt_are_refused(tmp_path: Path) -> None:
    arguments = [["Tom was late", " to the party"], ["Ann was late", " to the party"]]
    record = {**sample([-1.0, -2.0], 0), "arguments": arguments, "target": "to the party"}
    with pytest.raises(InvalidInput, match="line 1: its choices differ in the prompt and not"):
        read(tmp_path, record)


def test_without_arguments_only_positions_can_be_read(tmp_path: Path) -> None:
    (question,) = read(tmp_path, {**sample(), "arguments": {}})
    assert (question.choices, question.by_index, question.by_text) == (None, 1, None)


@pytest.mark.parametrize("target", [None, True, 1.0, {"answer": 1}])
def test_a_target_is_needed(tmp_path: Path, target: Any) -> None:
    with pytest.raises(InvalidInput, match="line 1: must have the right choice as 'target'"):
        read(tmp_path, {**sample(), "target": target})


@pytest.mark.parametrize("target", ["3", "-1", "maybe", "", "٢", "²", "9" * 30, "[0, 2]", [0, 2]])
def test_a_target_that_is_no_choice_is_refused(tmp_path: Path, target: Any) -> None:
    with pytest.raises(
        InvalidInput, match="is neither a position among 3 choices nor one"
    ) as raised:
        read(tmp_path, {**sample(), "target": target})
    assert ("Several right answers" in str(raised.value)) == ("0, 2" in str(target))


def test_a_target_may_be_a_position_and_a_text_at_once(tmp_path: Path) -> None:
    (question,) = read(tmp_path, {**sample([-1, -2, -3], 0, ["1", "2", "3"]), "target": " 2 "})
    assert (question.by_index, question.by_text) == (2, 1)


@pytest.mark.parametrize(
    ("field", "value"),
    [("doc.subject", "law"), ("doc.year", 2020), ("prompt_hash", "hash 0"), ("filter", "none")],
)
def test_any_field_may_name_the_task(tmp_path: Path, field: str, value: str | int) -> None:
    assert [question.task for question in read(tmp_path, sample(), field=field)] == [value]


def test_a_field_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as raised:
        read(tmp_path, sample(), field="doc.topic")
    assert str(raised.value).endswith(
        "line 1: has no field 'topic', as task='doc.topic' asks. It has 'subject', 'year', 'more'."
    )


@pytest.mark.parametrize("value", [None, True, 0.5, [], {}, ""])
def test_a_field_must_hold_a_name(tmp_path: Path, value: Any) -> None:
    with pytest.raises(InvalidInput, match="task='doc' must name a field that holds a text or a"):
        read(tmp_path, {**sample(), "doc": value}, field="doc")


@pytest.mark.parametrize("identity", [None, True, 0.5, [1]])
def test_a_question_needs_an_id(tmp_path: Path, identity: Any) -> None:
    with pytest.raises(InvalidInput, match="line 1: must have a 'doc_id'"):
        read(tmp_path, {**sample(), "doc_id": identity})


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("samples_mmlu_law_2026-01-31T12-34-56.789012.jsonl", "mmlu_law"),
        ("samples_mmlu_law_2026-01-31T12-34-56.jsonl.gz", "mmlu_law"),
        ("samples_a_2020-01-01T00-00-00_2026-01-31T12-34-56.jsonl", "a_2020-01-01T00-00-00"),
        ("pretrained=gpt2_law.jsonl", "pretrained=gpt2_law"),
    ],
)
def test_a_log_is_named_after_its_task(name: str, task: str) -> None:
    assert task_of_file(Path("somewhere", name)) == task


def test_the_model_is_read_from_the_results(tmp_path: Path) -> None:
    log, results = tmp_path / NAME, tmp_path / "results_2026-01-31T12-34-56.789012.json"
    assert read_model(log) is None
    results.write_text('{"model_name": "pythia-70m"}')
    assert read_model(log) == "pythia-70m"
    assert read_model(tmp_path / "other.jsonl") is None
    for text in ("", "[]", "{}", '{"model_name": ""}', '{"model_name": 3}', "[" * 100_000, "\xff"):
        results.write_text(text)
        assert read_model(log) is None


def test_folders_are_searched(tmp_path: Path) -> None:
    first = write_log(tmp_path / "out", [sample()], f"model/{NAME}")
    (tmp_path / "out" / "model" / "results_2026-01-31T12-34-56.789012.json").write_text("{}")
    assert find_logs(tmp_path / "out") == [first]
    assert find_logs([str(first)]) == [first]
    write_log(tmp_path / "other", [], f"{NAME}.bak")
    with pytest.raises(InvalidInput, match=r"holds no samples_\*\.jsonl\. Pass the folder that"):
        find_logs(tmp_path / "other")
    with pytest.raises(InvalidInput, match="paths is empty; pass at least one"):
        find_logs([])

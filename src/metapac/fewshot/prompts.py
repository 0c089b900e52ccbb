"""Language models: learners that read examples in a prompt, and logs of lm-evaluation-harness."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from metapac._common import (
    Array,
    Counts,
    Floats,
    PathLike,
    as_whole_number,
    brief,
    check_one_of,
    listed,
    on_host,
)
from metapac.artefact import check_unpacked
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.adapters import (
    FunctionScorer,
    as_score_function,
    as_support_set,
    check_function,
    name_function,
)
from metapac.inputs import as_task_names
from metapac.predictors import ThresholdSets
from metapac.score_functions import KINDS, ScoreFunction


class InContextLearner:
    """A prompted language model, or any function of labelled texts and new texts.

    Adapting costs nothing: the labelled texts go into the prompt. Nothing is cached, since a cache
    would hide from `metapac.fewshot.score_tasks` that texts influence each other's scores.

    Parameters
    ----------
    function : callable
        Called as ``function(support_texts, support_labels, texts)`` with three lists. Returns a
        number for each text and label, of shape (n, classes), higher for more plausible labels.
        Each text needs a prompt of its own: texts that are scored in one prompt influence each
        other, and no guarantee would hold.
    labels : sequence of str, optional
        Names of labels 0, 1, ..., the same in every task. The function then gets names in place
        of numbers, and scores all of them, also those absent from the support set.
    outputs : {"probabilities", "logits", "scores"}, default "logits"
        What the numbers are. Log-likelihoods are logits: their softmax over the labels is a
        probability. See `CallableLearner`.
    batch_size : int, optional
        Largest number of texts in one call; by default all texts of a task.

    Raises
    ------
    InvalidInput
        If the function is not callable, or a parameter is not valid.

    Notes
    -----
    Log-likelihoods of a language model in bfloat16, or of a remote one, change by some hundredths
    from call to call. Return them as float16: `metapac.fewshot.score_tasks` then allows for it.

    Examples
    --------
    >>> from metapac.fewshot import InContextLearner
    >>> names = ["refund", "delivery"]
    >>> def count_words(support_texts, support_labels, texts):  # stands in for a language model
    ...     words = {name: set() for name in names}
    ...     for text, label in zip(support_texts, support_labels):
    ...         words[label] |= set(text.split())
    ...     return [[len(words[name] & set(text.split())) for name in names] for text in texts]
    >>> learner = InContextLearner(count_words, labels=names)
    >>> scorer = learner.adapt(["my money back", "where is my parcel"], [0, 1])
    >>> scorer.predict_proba(["the parcel is lost"]).round(3).tolist()
    [[0.119, 0.881]]
    """

    def __init__(
        self,
        function: Callable[[list[str], list[Any], list[str]], Any],
        *,
        labels: Sequence[str] | None = None,
        outputs: str = "logits",
        batch_size: int | None = None,
    ) -> None:
        check_function(function)
        check_one_of("outputs", outputs, KINDS)
        self.function = function
        self.labels = None if labels is None else _as_label_names(labels)
        self.outputs = outputs
        self.batch_size = None if batch_size is None else as_whole_number("batch_size", batch_size)

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None
    ) -> FunctionScorer:
        """Return the function with the labelled texts filled in.

        Parameters
        ----------
        support_x : sequence of str, length s
            Labelled texts.
        support_y : array_like of int or str, shape (s,)
            Their labels, from 0 to ``classes - 1``, or their names, if the learner has ``labels``.
        classes : int, optional
            Number of labels; by default that of ``labels``, or one more than the largest label.

        Returns
        -------
        FunctionScorer
            The adapted model.
        """
        known = None if self.labels is None else len(self.labels)
        numbers, total = as_support_set(
            support_x, _as_numbers(support_y, self.labels), classes or known
        )
        if known is not None and total != known:
            raise InvalidInput(
                f"the learner names {known} labels, {brief(self.labels)}, and the task has "
                f"{total}. Name the labels of the tasks, or leave labels out."
            )
        texts = _as_texts("support_x", support_x)
        names = numbers.tolist() if self.labels is None else [self.labels[i] for i in numbers]
        return FunctionScorer(
            lambda x: self._score(texts, names, _as_texts("x", x)),
            np.unique(numbers) if self.labels is None else np.arange(total),
            total,
            self.outputs,
            name_function(self.function, "the function of InContextLearner"),
        )

    def __repr__(self) -> str:
        name = name_function(self.function, "lambda")
        return f"InContextLearner({name}, labels={self.labels!r}, outputs={self.outputs!r})"

    def _score(self, texts: list[str], labels: list[Any], queries: list[str]) -> Array:
        """Return the numbers of all queries, from as many calls as there are batches."""
        size = self.batch_size or max(len(queries), 1)
        parts: list[Array] = []
        for start in range(0, max(len(queries), 1), size):
            batch = queries[start : start + size]
            parts.append(np.asarray(on_host(self.function(list(texts), list(labels), batch))))
            if parts[-1].shape != (len(batch), *parts[0].shape[1:]):
                raise InvalidInput(
                    f"{name_function(self.function, 'the function of InContextLearner')} must "
                    "return a row for each text and a column for each label, got shape "
                    f"{parts[-1].shape} for a batch of {len(batch)}."
                )
        return np.concatenate(parts)


def _as_numbers(support_y: Any, labels: list[str] | None) -> Any:
    """Return the positions of names in ``labels``; anything but names as it is."""
    named = list(support_y) if isinstance(support_y, list | tuple | np.ndarray) else []
    if labels is None or not named or not all(isinstance(name, str) for name in named):
        return support_y
    unknown = [str(name) for name in named if name not in labels]
    if unknown:
        raise InvalidInput(
            f"support_y must hold labels of the learner, {brief(labels)}, got {unknown[0]!r}."
        )
    return [labels.index(name) for name in named]


def _as_texts(name: str, x: Any) -> list[str]:
    texts = [x] if isinstance(x, str) else list(x)
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong or isinstance(x, str):
        got = f"one text, {brief(x)}" if isinstance(x, str) else brief(wrong[0])
        raise InvalidInput(
            f"{name} must hold texts, got {got}. Pass a list of texts; for other examples use "
            "CallableLearner."
        )
    return [str(text) for text in texts]  # texts of NumPy too


def _as_label_names(labels: Sequence[str]) -> list[str]:
    names = [] if isinstance(labels, str) else list(labels)
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise InvalidInput(
            f"labels must name at least two labels, such as ['no', 'yes'], got {brief(labels)}."
        )
    if len(set(names)) < len(names):
        raise InvalidInput(f"labels must be distinct, got {brief(names)}.")
    return names


MAX_LINE = 2**24  # bytes; a question with a long prompt has a few hundred thousand
_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?)")
_METRICS = ("acc", "acc_norm", "acc_bytes")


class Question(NamedTuple):
    """A question of a log."""

    line: int
    id: str | int
    filter: str
    task: str | int | None
    log_likelihoods: tuple[float, ...]
    choices: tuple[str, ...] | None
    by_index: int | None
    by_text: int | None
    logged: dict[str, bool]


def find_logs(paths: PathLike | Iterable[PathLike]) -> list[Path]:
    """Return the logs at some paths; of a folder, all that the harness wrote into it."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    logs: list[Path] = []
    for path in map(Path, given):
        inside = [path]
        if path.is_dir():
            inside = sorted(f for end in ("", ".gz") for f in path.rglob(f"samples_*.jsonl{end}"))
        if not inside:
            raise InvalidInput(
                f"{path} holds no samples_*.jsonl. Pass the folder that 'lm_eval --log_samples "
                "--output_path' wrote, or its files."
            )
        logs += inside
    if not logs:
        raise InvalidInput("paths is empty; pass at least one samples_*.jsonl file.")
    return logs


def task_of_file(path: Path) -> str:
    """Return the harness's name of a task from that of its log, ``samples_TASK_DATE.jsonl``."""
    match = _NAME.fullmatch(_stem(path))
    return match["task"] if match else _stem(path)


def read_model(path: Path) -> str | None:
    """Return the model of a log, from the file ``results_DATE.json`` beside it if there is one."""
    match = _NAME.fullmatch(_stem(path))
    results = path.with_name(f"results_{match['date']}.json") if match else path
    if results == path or not results.is_file() or results.stat().st_size > MAX_LINE:
        return None
    try:
        name = json.loads(results.read_bytes())["model_name"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return name if isinstance(name, str) and name else None


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def read_questions(path: Path, field: str | None) -> Iterator[Question]:
    """Yield the questions of a log, with the value of a field such as ``doc.subject``."""
    for line, text in _read_lines(path):
        where = f"{path}, line {line}"
        record = _parse(where, text)
        values = _read_log_likelihoods(where, record)
        choices = _read_choices(where, record, len(values))
        if "acc_mutual_info" in record:  # the choices follow once more, without the prompt
            values, choices = values[: len(values) // 2], choices and choices[: len(values) // 2]
        by_index, by_text = _read_target(where, record, len(values), choices)
        yield Question(
            line,
            _read_id(where, record),
            str(record.get("filter", "none")),
            None if field is None else _read_field(where, record, field),
            values,
            choices,
            by_index,
            by_text,
            {name: bool(record[name]) for name in _METRICS if record.get(name) in (0, 1)},
        )


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers; none may be huge or truncated."""
    try:
        check_unpacked(path)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for line, text in enumerate(iter(lambda: file.readline(MAX_LINE), b""), 1):
                if len(text) == MAX_LINE:
                    raise InvalidInput(
                        f"{path}, line {line}: is longer than {MAX_LINE} bytes. "
                        "Is it a log of samples, one JSON object in each line?"
                    )
                if text.strip():
                    yield line, text
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{path} is not a whole gzip file ({error}). Copy it again.") from error


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _parse(where: str, text: bytes) -> dict[str, Any]:
    try:
        record = json.loads(text, object_pairs_hook=_build_object)
    except (ValueError, RecursionError) as error:  # broken UTF-8 is a ValueError too
        cut = "" if text.endswith(b"\n") else ", and the file ends within it: the log is cut off"
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidInput(
            f"{where}: is not JSON ({reason}){cut}. Log the task again, or delete the line."
        ) from None
    if not isinstance(record, dict) or not {"filtered_resps", "resps"} & record.keys():
        raise InvalidInput(
            f"{where}: is not a sample of lm-evaluation-harness, an object with 'resps', got "
            f"{brief(record)}. Pass the samples_*.jsonl files that 'lm_eval --log_samples' writes."
        )
    return record


def _read_log_likelihoods(where: str, record: dict[str, Any]) -> tuple[float, ...]:
    responses = record.get("filtered_resps", record.get("resps"))
    entries = responses if isinstance(responses, list) else []
    values = [_log_likelihood(entry) for entry in entries]
    if len(values) < 2 or None in values:
        raise InvalidInput(
            f"{where}: must hold a log-likelihood for each of several choices, got responses "
            f"{brief(responses)}. Log a task of output_type multiple_choice: generated texts and "
            "perplexities do not score a list of answers."
        )
    numbers = tuple(value for value in values if value is not None)
    if any(math.isnan(value) or value == math.inf for value in numbers):
        raise InvalidInput(
            f"{where}: holds the log-likelihoods {brief(list(numbers))}, and NaN and inf are none. "
            "Drop the question, or find out why the model returned them."
        )
    if max(numbers) == -math.inf:
        raise InvalidInput(
            f"{where}: every choice has log-likelihood -inf, so none can be told from another. "
            "Drop the question."
        )
    return numbers


def _log_likelihood(entry: Any) -> float | None:
    """Return the number of ``[number, is_greedy]``, which the harness writes as texts."""
    while isinstance(entry, list) and entry and isinstance(entry[0], list):
        entry = entry[0]  # of repeated requests, the first
    if not isinstance(entry, list) or len(entry) != 2 or isinstance(entry[0], bool):
        return None
    try:
        return float(entry[0])
    except (TypeError, ValueError, OverflowError):
        return None


def _read_choices(where: str, record: dict[str, Any], count: int) -> tuple[str, ...] | None:
    """Return the text of each choice, the second argument of its request; None if not logged."""
    arguments = record.get("arguments")
    if not arguments:
        return None
    try:
        texts = [_continuation(arguments, i) for i in range(len(arguments))]
    except (TypeError, LookupError):
        texts = []
    if len(texts) != count or not all(_is_text(text) for text in texts):
        raise InvalidInput(
            f"{where}: must have a prompt and a choice in 'arguments' for each of {count} "
            f"log-likelihoods, got {brief(arguments)}. Log the task again."
        )
    if len(set(texts)) == 1:
        raise InvalidInput(
            f"{where}: its choices differ in the prompt and not in the text after it, so the log "
            "does not say which is right. Log a task with the choices after the prompt."
        )
    delimiter = min((text[: len(text) - len(text.lstrip())] for text in texts), key=len)
    if not all(text.startswith(delimiter) for text in texts):
        return tuple(texts)
    return tuple(text.removeprefix(delimiter) for text in texts)


def _continuation(arguments: Any, position: int) -> Any:
    """Return what follows the prompt in a request; versions before 0.4.3 logged plain lists."""
    if isinstance(arguments, dict):
        return arguments[f"gen_args_{position}"]["arg_1"]
    return arguments[position][1]


def _read_target(
    where: str, record: dict[str, Any], count: int, choices: tuple[str, ...] | None
) -> tuple[int | None, int | None]:
    """Return the right choice, if the target is its position, and if it is its text."""
    target = record.get("target")
    if target is None or isinstance(target, bool | float | dict):
        raise InvalidInput(
            f"{where}: must have the right choice as 'target', its position or its text, got "
            f"{brief(target)}. Without it the answer cannot be scored."
        )
    text = str(target).strip()
    by_index = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
    if by_index is not None and by_index >= count:
        by_index = None
    plain = [choice.strip() for choice in choices or ()]
    by_text = plain.index(text) if text in plain else None
    if by_index is None and by_text is None:
        several = " Several right answers make no single label." if text[:1] == "[" else ""
        names = listed([repr(choice) for choice in plain]) or f"{count} choices"
        raise InvalidInput(
            f"{where}: its target {brief(target)} is neither a position among {count} choices nor "
            f"one of {names}.{several} Log a task with one right choice."
        )
    return by_index, by_text


def _read_id(where: str, record: dict[str, Any]) -> str | int:
    identity = record.get("doc_id")
    if _is_name(identity):
        return identity
    raise InvalidInput(
        f"{where}: must have a 'doc_id', a number or a text, got {brief(identity)}. Log the task "
        "again."
    )


def _read_field(where: str, record: dict[str, Any], field: str) -> str | int:
    """Return the value at a dotted path."""
    value: Any = record
    asked = keyword("task", field)
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            have = f" It has {listed([repr(k) for k in value])}." if isinstance(value, dict) else ""
            raise InvalidInput(f"{where}: has no field {key!r}, as {asked} asks.{have}")
        value = value[key]
    if _is_name(value):
        return value
    raise InvalidInput(
        f"{where}: {asked} must name a field that holds a text or a whole number, got "
        f"{brief(value)}."
    )


def _is_name(value: Any) -> TypeGuard[str | int]:
    """Whether a value is a text or a whole number that can name something."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number or (value != "" and _is_text(value))


def _is_text(value: Any) -> bool:
    """Whether a value is a text that can be written, which half a surrogate pair cannot."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


# The accuracy that the harness computes from log-likelihoods divided in each way.
METRICS = {"none": "acc", "characters": "acc_norm", "bytes": "acc_bytes"}


def find_labels(path: Path, questions: Sequence[Question], target: str) -> list[int]:
    """Return the right choices, read as positions or as texts, whichever the log confirms."""
    readings = _complete_readings(path, questions, target)
    if target != "auto":
        return readings[target]
    wrong = {name: _mismatch(questions, labels) for name, labels in readings.items()}
    confirmed = [labels for name, labels in readings.items() if wrong[name] is None]
    if any(labels != confirmed[0] for labels in confirmed):
        raise InvalidInput(
            f"{path}: its targets are positions of choices and texts of choices at once, and no "
            "logged acc tells which is meant. Pass target='index' or target='text'."
        )
    for name, question in wrong.items():
        if not confirmed and question is not None:
            raise InvalidInput(
                f"{path}, line {question.line}: the harness logged acc {question.logged['acc']:d}, "
                "but this does not follow from the log-likelihoods and the target. If the task "
                f"computes acc in its own way, pass {keyword('target', name)}."
            )
    return confirmed[0]


def _complete_readings(
    path: Path, questions: Sequence[Question], target: str
) -> dict[str, list[int]]:
    """Return the right choices by each reading of the targets that gives one for every question."""
    readings = {"index": [q.by_index for q in questions], "text": [q.by_text for q in questions]}
    complete = {
        name: [label for label in labels if label is not None]
        for name, labels in readings.items()
        if None not in labels and target in (name, "auto")
    }
    if not complete and target == "auto":
        raise InvalidInput(
            f"{path}: its targets are neither all positions nor all texts of choices. Log the task "
            "again, with one kind."
        )
    if not complete:
        raise InvalidInput(
            f"{path}: its targets are not all {'positions' if target == 'index' else 'texts'} of "
            "choices. Leave target out.",
            parameter="target",
        )
    return complete


def _mismatch(questions: Sequence[Question], labels: Sequence[int]) -> Question | None:
    """Return a question whose logged accuracy these labels contradict."""
    for question, label in zip(questions, labels, strict=True):
        is_right = int(np.argmax(question.log_likelihoods)) == label
        if question.logged.get("acc", is_right) != is_right:
            return question
    return None


def normalise_lengths(path: Path, question: Question, normalise: str) -> Floats:
    """Return the log-likelihood of each choice, divided by its length if asked for."""
    values = np.array(question.log_likelihoods)
    if normalise == "none":
        return values
    texts = question.choices or ()
    lengths = [len(t) if normalise == "characters" else len(t.encode()) for t in texts]
    if not lengths or 0 in lengths:
        raise InvalidInput(
            f"{path}, line {question.line}: {keyword('normalise', normalise)} needs the text of "
            f"every choice, got {brief(list(texts))}. Leave it out."
        )
    return np.asarray(values / np.array(lengths))


def check_lengths(
    path: Path,
    questions: Sequence[Question],
    labels: Sequence[int],
    values: Sequence[Floats],
    normalise: str,
) -> None:
    """Raise if the logged accuracy shows that the harness divided by other lengths."""
    metric = METRICS[normalise]
    for question, label, row in zip(questions, labels, values, strict=True):
        is_right = int(np.argmax(row)) == label
        if question.logged.get(metric, is_right) != is_right:
            raise InvalidInput(
                f"{path}, line {question.line}: the harness logged {metric} "
                f"{question.logged[metric]:d}, which does not follow from the lengths of the "
                "logged choices. Leave normalise out.",
                parameter="normalise",
            )


@dataclass(frozen=True, eq=False)
class Samples:
    """Questions with their choices, the scores of these, and the right one.

    Attributes
    ----------
    tasks : ndarray, shape (n,)
        Task of each question.
    ids : list of str
        Name of each question: the harness's task and its ``doc_id``.
    labels : ndarray of int, shape (n,)
        Position of the right choice.
    scores : list of ndarray
        Scores of the choices of each question; questions may have different numbers of them.
    choices : list of tuple of str
        Texts of the choices; their positions, if the log does not hold them.
    model : str or None
        Name of the model, with the normalisation of log-likelihoods if there is one; None if it is
        not known.
    score : str
        Score function.
    """

    tasks: Array
    ids: list[str]
    labels: Counts
    scores: list[Floats]
    choices: list[tuple[str, ...]]
    model: str | None = None
    score: str = "probability"

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def true_scores(self) -> Floats:
        """Score of the right choice of each question, for calibration."""
        pairs = zip(self.scores, self.labels.tolist(), strict=True)
        return np.array([scores[label] for scores, label in pairs])

    def predict_sets(self, predictor: ThresholdSets) -> list[list[int]]:
        """Return the prediction set of each question: positions of its plausible choices.

        Parameters
        ----------
        predictor : MetaPS or PS
            Calibrated on scores that were read in the same way. The model and the score function
            are compared with its ``Context``.

        Returns
        -------
        list of list of int
            The sets.

        Raises
        ------
        InvalidInput
            If another model or score function was calibrated.
        """
        context = predictor.context_
        context.check_model(self.model)
        score = None if context.score is None else self.score
        kept = predictor.predict_set(np.concatenate(self.scores), score=score)
        ends = np.cumsum([len(scores) for scores in self.scores])
        return [np.flatnonzero(part).tolist() for part in np.split(kept, ends[:-1])]


def read_samples(
    paths: PathLike | Iterable[PathLike],
    *,
    task: str | None = None,
    score: str | ScoreFunction = "probability",
    normalise: str = "none",
    target: str = "auto",
    filter: str | None = None,
    model: str | None = None,
) -> Samples:
    """Return the questions of sample logs, with a score for each choice.

    ``lm_eval --log_samples`` writes a log ``samples_TASK_DATE.jsonl`` for each of its tasks. Those
    of output_type ``multiple_choice`` hold the log-likelihood of each choice, from which the
    scores are computed.

    Parameters
    ----------
    paths : path or iterable of path
        Logs, also compressed (``.jsonl.gz``), or folders that hold them.
    task : str, optional
        Field that names the task of a question, such as ``"doc.subject"``. By default the
        harness's own task, from the name of the log.
    score : str or ScoreFunction, default "probability"
        Score function, as in `metapac.fewshot.score_tasks`. A probability is the softmax of the
        log-likelihoods of the choices of a question.
    normalise : {"none", "characters", "bytes"}, default "none"
        Divide each log-likelihood by the length of its choice first, as the harness does for
        ``acc_norm`` ("characters") and ``acc_bytes`` ("bytes"), so that long choices are not at a
        disadvantage.
    target : {"auto", "index", "text"}, default "auto"
        Whether the logged target is the position of the right choice or its text. By default both
        are tried, and compared with the accuracy that the harness logged for each question.
    filter : str, optional
        Of tasks with several filters, the one whose responses to read. By default they must agree.
    model : str, optional
        Name of the model; by default that in the harness's ``results_DATE.json`` beside the logs.

    Returns
    -------
    Samples
        The questions, in the order of the logs.

    Raises
    ------
    InvalidInput
        If a log is damaged, holds no choices, or holds a question twice; the message names the
        line.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from metapac.fewshot import read_samples
    >>> line = {
    ...     "doc_id": 0,
    ...     "doc": {"subject": "law"},
    ...     "target": "1",
    ...     "arguments": {
    ...         "gen_args_0": {"arg_0": "Is it?", "arg_1": " no"},
    ...         "gen_args_1": {"arg_0": "Is it?", "arg_1": " yes"},
    ...     },
    ...     "filtered_resps": [["-2.0", "False"], ["-0.5", "True"]],
    ...     "acc": 1.0,
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Path(folder, "samples_mmlu_law_2026-01-31T12-00-00.jsonl")
    ...     _ = log.write_text(json.dumps(line))
    ...     samples = read_samples(log, task="doc.subject")
    >>> samples.tasks.tolist(), samples.true_scores.round(3).tolist(), samples.choices
    (['law'], [0.818], [('no', 'yes')])
    """
    check_one_of("normalise", normalise, tuple(METRICS))
    check_one_of("target", target, ("auto", "index", "text"))
    function = as_score_function(score, "logits")
    logs = [_read_log(path, task, normalise, target, filter) for path in find_logs(paths)]
    questions = [(log, question) for log in logs for question in log.questions]
    found = _common_model([log.path for log in logs])
    name = found if model is None else model
    return Samples(
        tasks=as_task_names(
            [log.name if question.task is None else question.task for log, question in questions]
        ),
        ids=_name_questions(questions),
        labels=np.array([label for log in logs for label in log.labels], dtype=np.int64),
        scores=[function(values[None], "logits")[0] for log in logs for values in log.values],
        choices=[
            question.choices or tuple(map(str, range(len(question.log_likelihoods))))
            for _log, question in questions
        ],
        model=None if name is None else name_model(name, normalise),
        score=str(function),
    )


def name_model(name: str, normalise: str) -> str:
    """Return the name of a model with the normalisation, which changes scores too."""
    if normalise == "none":
        return name
    return f"{name}, log-likelihoods per {normalise.removesuffix('s')}"


class _Log(NamedTuple):
    """A log: its task, and the questions with their labels and log-likelihoods."""

    path: Path
    name: str
    questions: list[Question]
    labels: list[int]
    values: list[Floats]


def _read_log(
    path: Path, field: str | None, normalise: str, target: str, wanted: str | None
) -> _Log:
    """Return a log, after comparing it with the accuracies that the harness logged."""
    questions = _select(path, list(read_questions(path, field)), wanted)
    labels = find_labels(path, questions, target)
    values = [normalise_lengths(path, question, normalise) for question in questions]
    if target == "auto":
        check_lengths(path, questions, labels, values, normalise)
    return _Log(path, task_of_file(path), questions, labels, values)


def _select(path: Path, questions: list[Question], wanted: str | None) -> list[Question]:
    """Return each question once: from the given filter, or from all filters if they agree."""
    filters = list(dict.fromkeys(question.filter for question in questions))
    if not questions or (wanted is not None and wanted not in filters):
        have = f" of filter {wanted!r}, only of {listed(filters)}" if questions else ""
        raise InvalidInput(f"{path} holds no sample{have}.")
    if wanted is not None:
        return [question for question in questions if question.filter == wanted]
    first: dict[str | int, Question] = {}
    kept = []
    for question in questions:
        other = first.setdefault(question.id, question)
        if other.filter == question.filter:
            kept.append(question)
        elif other.log_likelihoods != question.log_likelihoods:
            raise InvalidInput(
                f"{path}, line {question.line}: filter {question.filter!r} leaves other "
                f"log-likelihoods than {other.filter!r} in line {other.line}. Choose one with "
                f"{keyword('filter', other.filter)}."
            )
    return kept


def _name_questions(questions: Sequence[tuple[_Log, Question]]) -> list[str]:
    """Return a name for each question; raise if a question occurs twice."""
    seen: dict[str, str] = {}
    for log, question in questions:
        name, where = f"{log.name}/{question.id}", f"{log.path}, line {question.line}"
        if name in seen:
            raise InvalidInput(
                f"{where}: question {name!r} is in {seen[name]} already, and an example counts "
                "only once. Pass one log of each task and model, one log in each file."
            )
        seen[name] = where
    return list(seen)


def _common_model(paths: Sequence[Path]) -> str | None:
    """Return the model of all logs that name one; raise if they are of several."""
    models = {model: path for path in paths if (model := read_model(path)) is not None}
    if len(models) > 1:
        (first, path), (second, other), *_more = models.items()
        raise InvalidInput(
            f"{path} is of model {first!r}, and {other} of {second!r}. A guarantee holds for one "
            "model: pass the logs of one."
        )
    return next(iter(models), None)

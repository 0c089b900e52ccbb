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
from typing import Any

import numpy as np

from metapac._common import Array, Floats, PathLike, as_whole_number, brief, check_one_of, on_host
from metapac.artefact import check_unpacked, parse
from metapac.errors import InvalidInput, keyword
from metapac.fewshot import adapters
from metapac.inputs import as_task_names
from metapac.predictors import ThresholdSets
from metapac.score_functions import KINDS, ScoreFunction


class InContextLearner:
    """A prompted language model, or any function of labelled texts and new texts.

    Parameters
    ----------
    function : callable
        Called as ``function(support_texts, support_labels, texts)`` with three lists. Returns
        numbers of shape (n, classes), higher for more plausible labels. Each text needs a prompt
        of its own: in one prompt texts influence each other, and no guarantee would hold.
    labels : sequence of str, optional
        Names of labels 0, 1, ..., the same in every task. The function then gets names, and
        scores all of them, also those absent from the support set.
    outputs : {"probabilities", "logits", "scores"}, default "logits"
        What the numbers are, as in `CallableLearner`; log-likelihoods are logits.
    batch_size : int, optional
        Largest number of texts in one call; by default all texts of a task.

    Notes
    -----
    Log-likelihoods in bfloat16, or of a remote model, change by some hundredths from call to call.
    Return them as float16: `metapac.fewshot.score_tasks` then allows for it.

    Examples
    --------
    >>> from metapac.fewshot import InContextLearner
    >>> def share_words(support_texts, support_labels, texts):  # stands in for a language model
    ...     words = [set(text.split()) for text in support_texts]
    ...     return [[len(known & set(text.split())) for known in words] for text in texts]
    >>> learner = InContextLearner(share_words, labels=["refund", "delivery"])
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
        adapters.check_function(function)
        check_one_of("outputs", outputs, KINDS)
        self.function = function
        self._name = adapters.name_function(function, "the function of InContextLearner")
        self.labels = None if labels is None else _as_label_names(labels)
        self.outputs = outputs
        self.batch_size = None if batch_size is None else as_whole_number("batch_size", batch_size)

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None
    ) -> adapters.FunctionScorer:
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
        """
        known = None if self.labels is None else len(self.labels)
        support_y = _as_numbers(support_y, self.labels)
        numbers, total = adapters.as_support_set(support_x, support_y, classes or known)
        if known is not None and total != known:
            raise InvalidInput(f"labels names {known} labels, and the task has {total}.")
        texts = _as_texts("support_x", support_x)
        names = numbers.tolist() if self.labels is None else [self.labels[i] for i in numbers]
        known_labels = np.unique(numbers) if self.labels is None else np.arange(total)

        def score(x: Any) -> Array:
            return self._score(texts, names, _as_texts("x", x))

        return adapters.FunctionScorer(score, known_labels, total, self.outputs, self._name)

    def __repr__(self) -> str:
        name = adapters.name_function(self.function, "lambda")
        return f"InContextLearner({name}, labels={self.labels!r}, outputs={self.outputs!r})"

    def _score(self, texts: list[str], labels: list[Any], queries: list[str]) -> Array:
        """Return the numbers of all queries, from as many calls as there are batches."""
        size = self.batch_size or max(len(queries), 1)
        parts: list[Array] = []
        for start in range(0, max(len(queries), 1), size):
            batch = queries[start : start + size]
            parts.append(np.asarray(on_host(self.function(list(texts), list(labels), batch))))
            if parts[-1].shape != (len(batch), *parts[0].shape[1:]):
                got = f"shape {parts[-1].shape} for a batch of {len(batch)}"
                raise InvalidInput(f"{self._name} must return a row for each text, got {got}.")
        return np.concatenate(parts)


def _as_numbers(support_y: Any, labels: list[str] | None) -> Any:
    """Return the positions of names in ``labels``; anything but names as it is."""
    named = list(support_y) if isinstance(support_y, list | tuple | np.ndarray) else []
    if labels is None or not named or not all(isinstance(name, str) for name in named):
        return support_y
    if unknown := [str(name) for name in named if name not in labels]:
        raise InvalidInput(f"support_y must hold labels of {brief(labels)}, got {unknown[0]!r}.")
    return [labels.index(name) for name in named]


def _as_texts(name: str, x: Any) -> list[str]:
    if isinstance(x, str) or not all(isinstance(text, str) for text in x):
        raise InvalidInput(f"{name} must be texts, got {brief(x)}. Or use a CallableLearner.")
    return [str(text) for text in x]  # texts of NumPy too


def _as_label_names(labels: Sequence[str]) -> list[str]:
    names = [] if isinstance(labels, str) else list(labels)
    if len({name for name in names if isinstance(name, str)}) < max(2, len(names)):
        raise InvalidInput(f"labels must be at least two distinct texts, got {brief(labels)}.")
    return names


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
    scores, choices : list of ndarray and list of tuple of str
        Scores and texts of the choices; their positions, if the log does not hold texts.
    model : str or None
        Name of the model, with any normalisation of log-likelihoods; None if not known.
    score : str
        Score function.
    """

    tasks: Array
    ids: list[str]
    labels: Array
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
            Calibrated on scores of the same model and score function, or InvalidInput is raised.

        Returns
        -------
        list of list of int
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

    ``lm_eval --log_samples`` writes a log ``samples_TASK_DATE.jsonl`` for each of its tasks; those
    of output_type ``multiple_choice`` hold the log-likelihood of each choice.

    Parameters
    ----------
    paths : path or iterable of path
        Logs, also compressed (``.jsonl.gz``), or folders that hold them.
    task : str, optional
        Field that names a question's task, such as ``"doc.subject"``; by default the harness's.
    score : str or ScoreFunction, default "probability"
        Score function, as in `metapac.fewshot.score_tasks`, of the softmax of log-likelihoods.
    normalise : {"none", "characters", "bytes"}, default "none"
        Divide each log-likelihood by the length of its choice first, as the harness does for
        ``acc_norm`` ("characters") and ``acc_bytes`` ("bytes").
    target : {"auto", "index", "text"}, default "auto"
        Whether the logged target is the position of the right choice or its text; by default
        whichever the logged accuracies confirm.
    filter : str, optional
        Filter whose responses to read; by default all must agree.
    model : str, optional
        Name of the model; by default that in the harness's ``results_DATE.json`` beside the logs.

    Returns
    -------
    Samples
        The questions, in the order of the logs.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from metapac.fewshot import read_samples
    >>> line = {"doc_id": 0, "doc": {"subject": "law"}, "target": "1", "acc": 1.0}
    >>> line["arguments"] = [["Is it?", " no"], ["Is it?", " yes"]]
    >>> line["filtered_resps"] = [["-2.0", "False"], ["-0.5", "True"]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = pathlib.Path(folder, "samples_mmlu_law_2026-01-31T12-00-00.jsonl")
    ...     _ = log.write_text(json.dumps(line))
    ...     samples = read_samples(log, task="doc.subject")
    >>> samples.tasks.tolist(), samples.true_scores.round(3).tolist(), samples.choices
    (['law'], [0.818], [('no', 'yes')])
    """
    check_one_of("normalise", normalise, tuple(_METRICS))
    check_one_of("target", target, ("auto", "index", "text"))
    function, metric = adapters.as_score_function(score, "logits"), _METRICS[normalise]
    paths = _find_logs(paths)
    questions, labels = [], []
    for path in paths:
        log = _select(path, [*_read_questions(path, task)], filter)
        questions += log
        labels += _find_labels(path, log, target)
    logits = [_normalise(question, normalise) for question in questions]
    if target == "auto" and (wrong := _contradicted(questions, labels, logits, metric)):
        text = f"the logged {metric} {wrong.logged[metric]:d} does not follow from the lengths"
        raise InvalidInput(f"{wrong.where}: {text}. Leave normalise out.", parameter="normalise")
    name = _common_model(paths) if model is None else model
    return Samples(
        tasks=as_task_names([question.task for question in questions]),
        ids=_unique_ids(questions),
        labels=np.array(labels, dtype=np.int64),
        scores=[function(row[None], "logits")[0] for row in logits],
        choices=[q.choices or tuple(map(str, range(len(q.values)))) for q in questions],
        model=None if name is None else name_model(name, normalise),
        score=str(function),
    )


def name_model(name: str, normalise: str) -> str:
    """Return the name of a model with the normalisation, which changes scores too."""
    per = f", log-likelihoods per {normalise.removesuffix('s')}"
    return name if normalise == "none" else name + per


# The accuracy that the harness computes from log-likelihoods divided in each way.
_METRICS = {"none": "acc", "characters": "acc_norm", "bytes": "acc_bytes"}
_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?)")


@dataclass(frozen=True)
class _Question:
    """A question of a log; ``readings`` has the right choice by position and by text."""

    where: str
    id: str
    filter: str
    task: str | int
    values: tuple[float, ...]
    choices: tuple[str, ...] | None
    readings: dict[str, int | None]
    logged: dict[str, bool]


def _find_logs(paths: PathLike | Iterable[PathLike]) -> list[Path]:
    """Return the logs at some paths; of a folder, all that the harness wrote into it."""
    logs: list[Path] = []
    for path in map(Path, [paths] if isinstance(paths, str | os.PathLike) else paths):
        ends = ("samples_*.jsonl", "samples_*.jsonl.gz")
        logs += sorted(f for end in ends for f in path.rglob(end)) if path.is_dir() else [path]
    if not logs:
        rule = "paths must name or hold samples_*.jsonl of 'lm_eval --log_samples'"
        raise InvalidInput(f"{rule}, got {paths}.")
    return logs


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def _common_model(paths: Sequence[Path]) -> str | None:
    """Return the model of all logs that name one; raise if they are of several."""
    models = {model: path for path in paths if (model := _read_model(path)) is not None}
    if len(models) > 1:
        (first, path), (second, other), *_ = models.items()
        raise InvalidInput(f"{path} is of model {first!r}, and {other} of {second!r}. Pass one.")
    return next(iter(models), None)


def _read_model(path: Path) -> str | None:
    """Return the model of a log, from the file ``results_DATE.json`` beside it if there is one."""
    if not (match := _NAME.fullmatch(_stem(path))):
        return None
    try:
        results = json.loads(path.with_name(f"results_{match['date']}.json").read_bytes())
        name = results["model_name"]
    except (LookupError, OSError, RecursionError, TypeError, ValueError):
        return None
    return name if isinstance(name, str) and name else None


def _read_questions(path: Path, field: str | None) -> Iterator[_Question]:
    """Yield the questions of a log, whose task is in a field such as ``doc.subject``."""
    match = _NAME.fullmatch(_stem(path))
    task = match["task"] if match else _stem(path)
    for line, text in _read_lines(path):
        where = f"{path}, line {line}"
        try:
            yield _parse_question(parse(text), where, task, field)
        except InvalidInput as error:
            raise InvalidInput(f"{where}: {error}", parameter=error.parameters) from None
        except Exception as error:  # whatever other texts, types and numbers raise
            why = f"is not a sample of lm-evaluation-harness ({type(error).__name__}: {error})"
            raise InvalidInput(f"{where}: {why}.") from error


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers."""
    try:
        check_unpacked(path)
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield from ((line, text) for line, text in enumerate(file, 1) if text.strip())
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInput(f"{path} is not a whole gzip file ({error}). Copy it again.") from error


def _parse_question(record: dict[str, Any], where: str, task: str, field: str | None) -> _Question:
    values = _read_log_likelihoods(record.get("filtered_resps", record.get("resps")))
    choices = _read_choices(record.get("arguments"), len(values))
    if "acc_mutual_info" in record:  # the choices follow once more, without the prompt
        values, choices = values[: len(values) // 2], choices and choices[: len(values) // 2]
    return _Question(
        where,
        f"{task}/{_as_name('doc_id', record['doc_id'])}",
        str(record.get("filter", "none")),
        task if field is None else _read_field(record, field),
        values,
        choices,
        _read_target(record["target"], len(values), choices),
        {name: bool(record[name]) for name in _METRICS.values() if record.get(name) in (0, 1)},
    )


def _read_log_likelihoods(responses: Any) -> tuple[float, ...]:
    values = tuple(_log_likelihood(entry) for entry in responses)
    is_number = [value < math.inf for value in values]  # neither NaN nor infinity
    if len(values) < 2 or not all(is_number) or max(values) == -math.inf:
        rule = "must hold a log-likelihood of each choice (multiple_choice): numbers, not all -inf"
        raise InvalidInput(f"{rule}, got {brief(responses)}.")
    return values


def _log_likelihood(entry: Any) -> float:
    """Return the number of ``[number, is_greedy]``, which the harness writes as texts."""
    while isinstance(entry[0], list):
        entry = entry[0]  # of repeated requests, the first
    if not isinstance(entry, list) or len(entry) != 2:
        raise ValueError
    return float(entry[0])


def _read_choices(arguments: Any, count: int) -> tuple[str, ...] | None:
    """Return the text of each choice; before 0.4.3 the harness logged requests as plain lists."""
    if not arguments:
        return None
    is_named, positions = isinstance(arguments, dict), range(count)
    requests = [arguments[f"gen_args_{i}"] if is_named else arguments[i] for i in positions]
    texts = [request["arg_1"] if is_named else request[1] for request in requests]
    "".join(texts).encode()  # refuses lone surrogates, which no file of sets can hold
    if len(arguments) != count:
        raise InvalidInput(f"'arguments' must have {count} choices, got {brief(arguments)}.")
    if len(set(texts)) == 1:
        raise InvalidInput("its choices differ in the prompt, and not in the text after it.")
    delimiter = min((text[: len(text) - len(text.lstrip())] for text in texts), key=len)
    cut = len(delimiter) if all(text.startswith(delimiter) for text in texts) else 0
    return tuple(text[cut:] for text in texts)


def _read_target(target: Any, count: int, choices: tuple[str, ...] | None) -> dict[str, int | None]:
    """Return the right choice, if the target is its position, and if it is its text."""
    text = str(target).strip()
    is_index = text in map(str, range(count)) and not isinstance(target, bool)
    plain = [choice.strip() for choice in choices or ()]
    by_text = plain.index(text) if text in plain else None
    if not is_index and by_text is None:
        rule = f"is not a position among {count} choices, nor one of {brief(plain)}"
        raise InvalidInput(f"its target {brief(target)} {rule}.")
    return {"index": int(text) if is_index else None, "text": by_text}


def _read_field(record: Any, field: str) -> str | int:
    """Return the value at a dotted path."""
    for key in field.split("."):
        if not isinstance(record, dict) or key not in record:
            text = f"has no field {key!r}, as {keyword('task', field)} asks, in {brief(record)}."
            raise InvalidInput(text, parameter="task")
        record = record[key]
    return _as_name(field, record)


def _as_name(field: str, value: Any) -> str | int:
    if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
        return value
    raise InvalidInput(f"{field} must be a text or a whole number, got {brief(value)}.")


def _select(path: Path, questions: list[_Question], wanted: str | None) -> list[_Question]:
    """Return each question once: from the given filter, or from all filters if they agree."""
    filters = list(dict.fromkeys(question.filter for question in questions))
    if not questions or (wanted is not None and wanted not in filters):
        have = f" of filter {wanted!r}, only of {', '.join(filters)}" if questions else ""
        raise InvalidInput(f"{path} holds no sample{have}.", parameter="filter")
    if wanted is not None:
        return [question for question in questions if question.filter == wanted]
    first: dict[str, _Question] = {}
    for question in questions:
        other = first.setdefault(question.id, question)
        if other.filter != question.filter and other.values != question.values:
            text = f"{question.where}: filter {question.filter!r} and {other.where} differ. Pass"
            raise InvalidInput(f"{text} {keyword('filter', other.filter)}.", parameter="filter")
    return [question for question in questions if question.filter == first[question.id].filter]


def _unique_ids(questions: Sequence[_Question]) -> list[str]:
    """Return the names of the questions; raise if one occurs twice."""
    seen: dict[str, str] = {}
    for question in questions:
        if seen.setdefault(question.id, question.where) != question.where:
            text = f"question {question.id!r} is in {seen[question.id]} already"
            raise InvalidInput(f"{question.where}: {text}; pass one log of each task and model.")
    return list(seen)


def _find_labels(path: Path, questions: Sequence[_Question], target: str) -> list[int]:
    """Return the right choices, read as positions or as texts, whichever the log confirms."""
    names = ("index", "text") if target == "auto" else (target,)
    given = [[question.readings[name] for question in questions] for name in names]
    readings = [[i for i in labels if i is not None] for labels in given if None not in labels]
    if not readings:
        rule = f"{path}: its targets are not all {' nor all '.join(names)}"
        raise InvalidInput(f"{rule}.", parameter="target")
    if target != "auto":
        return readings[0]
    values = [np.array(question.values) for question in questions]
    wrong = [_contradicted(questions, labels, values, "acc") for labels in readings]
    confirmed = [labels for labels, fault in zip(readings, wrong, strict=True) if fault is None]
    if confirmed and all(labels == confirmed[0] for labels in confirmed):
        return confirmed[0]
    why = f"{path}: its targets are positions and texts of choices at once, and no acc tells which"
    if not confirmed and wrong[0] is not None:
        why = f"{wrong[0].where}: the logged acc does not follow from log-likelihoods and target"
    raise InvalidInput(f"{why}. Pass target='index' or target='text'.", parameter="target")


def _contradicted(
    questions: Sequence[_Question], labels: Sequence[int], values: Sequence[Floats], metric: str
) -> _Question | None:
    """Return a question whose logged accuracy does not follow from its label and values."""
    for question, label, row in zip(questions, labels, values, strict=True):
        is_right = int(np.argmax(row)) == label
        if question.logged.get(metric, is_right) != is_right:
            return question
    return None


def _normalise(question: _Question, normalise: str) -> Floats:
    """Return the log-likelihood of each choice, divided by its length if asked for."""
    values, texts = np.array(question.values), question.choices or ()
    if normalise == "none":
        return values
    lengths = [len(t) if normalise == "characters" else len(t.encode()) for t in texts]
    if not lengths or 0 in lengths:
        text = f"{keyword('normalise', normalise)} needs the text of every choice"
        raise InvalidInput(f"{question.where}: {text}.", parameter="normalise")
    return np.asarray(values / np.array(lengths))

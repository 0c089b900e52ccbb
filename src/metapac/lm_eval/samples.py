"""Scores from the sample logs of lm-evaluation-harness: questions with choices, by task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from metapac import _checks, _ids
from metapac._types import Array, Counts, Floats, PathLike
from metapac.base import ThresholdSets
from metapac.exceptions import InvalidInput, Parameter
from metapac.lm_eval._labels import METRICS, check_lengths, find_labels, normalise_lengths
from metapac.lm_eval._log import Question, find_logs, read_model, read_questions, task_of_file
from metapac.scoring.functions import ScoreFunction, as_score_function


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

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.lm_eval import Samples
    >>> samples = Samples(
    ...     tasks=np.array(["law", "law"]),
    ...     ids=["mmlu_law/0", "mmlu_law/1"],
    ...     labels=np.array([1, 0]),
    ...     scores=[np.array([0.2, 0.8]), np.array([0.5, 0.3, 0.2])],
    ...     choices=[("no", "yes"), ("A", "B", "C")],
    ... )
    >>> samples.true_scores.tolist()
    [0.8, 0.5]
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
        Score function, as in `metapac.scoring.score_tasks`. A probability is the softmax of the
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
    >>> from metapac.lm_eval import read_samples
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
    _checks.check_one_of("normalise", normalise, tuple(METRICS))
    _checks.check_one_of("target", target, ("auto", "index", "text"))
    function = as_score_function(score, "logits")
    logs = [_read_log(path, task, normalise, target, filter) for path in find_logs(paths)]
    questions = [(log, question) for log in logs for question in log.questions]
    found = _common_model([log.path for log in logs])
    name = found if model is None else model
    return Samples(
        tasks=_ids.as_task_names(
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
    """Return the name of a model with the normalisation, which changes scores like another model.

    Parameters
    ----------
    name : str
        Name of the model.
    normalise : {"none", "characters", "bytes"}
        What log-likelihoods are divided by.

    Returns
    -------
    str
        The name, such as "pythia-70m, log-likelihoods per byte".
    """
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
        have = f" of filter {wanted!r}, only of {_checks.listed(filters)}" if questions else ""
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
                "{}, line {}: filter {!r} leaves other log-likelihoods than {!r} in line {}. "
                "Choose one with {}.",
                path,
                question.line,
                question.filter,
                other.filter,
                other.line,
                Parameter("filter", other.filter),
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

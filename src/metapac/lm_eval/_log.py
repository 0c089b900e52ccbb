"""One sample log of lm-evaluation-harness: its lines, and the question that each holds."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from metapac._checks import brief, listed
from metapac._files import check_unpacked
from metapac._types import PathLike
from metapac.exceptions import InvalidInput, Parameter

MAX_LINE = 2**24  # bytes; a question with a long prompt has a few hundred thousand
_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(\.\d+)?)")
_METRICS = ("acc", "acc_norm", "acc_bytes")


class Question(NamedTuple):
    """A question of a log.

    Attributes
    ----------
    line : int
        Line of the log, from 1.
    id : str or int
        Its ``doc_id``.
    filter : str
        The filter that its responses went through.
    task : str or int or None
        Value of the field that was asked for.
    log_likelihoods : tuple of float
        Log-likelihood of each choice.
    choices : tuple of str or None
        Text of each choice, without the delimiter before it; None if it was not logged.
    by_index, by_text : int or None
        The right choice, if the target is its position, and if it is its text.
    logged : dict from str to bool
        Whether the most likely choice is right, as the harness found it, by metric.
    """

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


def _parse(where: str, text: bytes) -> dict[str, Any]:
    try:
        record = json.loads(text)
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
    asked = Parameter("task", field)
    for key in field.split("."):
        if not isinstance(value, dict) or key not in value:
            have = f" It has {listed([repr(k) for k in value])}." if isinstance(value, dict) else ""
            raise InvalidInput("{}: has no field {!r}, as {} asks.{}", where, key, asked, have)
        value = value[key]
    if _is_name(value):
        return value
    raise InvalidInput(
        "{}: {} must name a field that holds a text or a whole number, got {}.",
        where,
        asked,
        brief(value),
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

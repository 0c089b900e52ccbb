"""Calibrated predictors of every kind, read from their promise files."""

from __future__ import annotations

from typing import Any

from metapac import _document
from metapac._columns import check_columns
from metapac._types import PathLike
from metapac.base import FORMAT
from metapac.calibration import PS, MetaPS
from metapac.context import Context
from metapac.exceptions import BadArtefact, InvalidInput
from metapac.meta_cp.estimator import MetaCP

_KINDS: dict[str, Any] = {kind._kind: kind for kind in (MetaPS, PS, MetaCP)}


def load(path: PathLike) -> Any:
    """Return the calibrated predictor that ``save`` or ``metapac calibrate`` wrote.

    The thresholds of `MetaPS` are recomputed from the evidence in the file and compared with those
    that it states. The sentence is worded anew by this version.

    Parameters
    ----------
    path : str or path
        Promise file.

    Returns
    -------
    MetaPS, PS or MetaCP
        The calibrated predictor.

    Raises
    ------
    BadArtefact
        If the file is not a promise file, was edited or damaged, or needs a newer metapac.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from metapac import PS, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "promise.json"
    ...     PS(epsilon=0.1, delta=0.1).calibrate([0.5] * 50).save(path)
    ...     load(path).threshold_
    0.5
    """
    body = _document.read(path, FORMAT)
    try:
        parameters = _document.decode_parameters(body["parameters"])
        predictor: Any = _KINDS[body["kind"]](**parameters)
        predictor._restore(body)
        check_columns(body.get("columns"), getattr(predictor, "classes_", None))
        predictor.context_ = Context.from_json(body.get("context"))
        tasks = getattr(predictor, "tasks_", ())
        predictor.context_.check_calibration_tasks(tasks, allow=["task-names"])
        name, evident = predictor._encoded_result()
        stated = body[name]
    except InvalidInput as error:
        raise _document.inconsistent(path, FORMAT, error) from error
    if stated != evident:
        raise BadArtefact(
            f"{path} states {name} {stated}, but its evidence gives {evident}. Calibrate again."
        )
    return predictor

"""Calibrated predictors of every kind, read from their promise files."""

from __future__ import annotations

from typing import Any

from metapac import _document
from metapac._types import PathLike
from metapac.base import FORMAT
from metapac.calibration import PS, MetaPS
from metapac.exceptions import BadArtefact
from metapac.meta_cp.estimator import MetaCP

_KINDS: dict[str, Any] = {kind._kind: kind for kind in (MetaPS, PS, MetaCP)}


def load(path: PathLike) -> Any:
    """Return the calibrated predictor that ``save`` or ``metapac calibrate`` wrote.

    The thresholds of `MetaPS` are recomputed from the evidence in the file and compared with those
    that it states.

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
        name, evident = predictor._encoded_result()
        stated = body[name]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BadArtefact(
            f"{path} is not a complete promise file ({type(error).__name__}: {error}). "
            "Save the calibrated predictor again."
        ) from error
    if stated != evident:
        raise BadArtefact(
            f"{path} states {name} {stated}, but its evidence gives {evident}. Calibrate again."
        )
    return predictor

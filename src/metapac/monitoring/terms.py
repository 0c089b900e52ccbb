"""The parameters of a monitored guarantee, and the checksum that identifies it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from metapac import _checks, _document, _ids
from metapac.base import Calibrated
from metapac.calibration import MetaPS
from metapac.context import Context
from metapac.exceptions import InvalidInput, Parameter
from metapac.guarantee import Epsilon


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Parameters of a monitored guarantee, and the false-alarm probability.

    Attributes
    ----------
    promise : str
        The guarantee in one sentence.
    checksum : str
        Checksum of its parameters, thresholds and calibration tasks, but not of its wording.
    epsilon : float or mapping from class to float
        Miss rate that it allows on a task.
    alpha : float
        Fraction of new tasks that may exceed it.
    delta : float or None
        Failure probability of the guarantee; None if it is in expectation.
    classes : tuple or None
        With a guarantee per class, the classes.
    min_examples : int
        Tasks with fewer examples are left out; with a guarantee per class, fewer of the class.
    false_alarm : float
        Probability of ever raising an alarm if the guarantee is true.
    unit, example : str
        What a task and an example are called.
    again : bool or None
        Whether tasks of earlier batches count again; None until the first such task has come.
    """

    promise: str
    checksum: str
    epsilon: Epsilon
    alpha: float
    delta: float | None
    classes: tuple[Any, ...] | None
    min_examples: int
    false_alarm: float
    unit: str = "task"
    example: str = "example"
    again: bool | None = None

    @classmethod
    def from_promise(cls, promise: Calibrated, false_alarm: float, min_examples: int) -> Terms:
        """Return the terms of a calibrated predictor.

        Parameters
        ----------
        promise : MetaPS
            The calibrated predictor.
        false_alarm : float
            False-alarm probability.
        min_examples : int
            Size below which a task is left out, if the guarantee leaves out no more.

        Returns
        -------
        Terms
            The terms.

        Raises
        ------
        InvalidInput
            If its guarantee is not about tasks, or a number is out of range.
        """
        promise.check_calibrated()
        if not isinstance(promise, MetaPS):
            raise InvalidInput(
                "{} must be a guarantee about tasks, that of MetaPS, got {}: it limits no share of "
                "tasks, so no number of bad tasks would contradict it. Calibrate with MetaPS.",
                Parameter("promise"),
                type(promise).__name__,
            )
        least = _checks.as_whole_number("min_examples", min_examples, minimum=0)
        about = promise.context_
        return cls(
            promise=promise.promise_,
            checksum=_checksum(promise),
            epsilon=promise.guarantee_.epsilon,
            alpha=promise.guarantee_.alpha,
            delta=promise.guarantee_.delta,
            classes=promise.classes_,
            min_examples=max(least, promise.min_examples),
            false_alarm=_checks.as_probability("false_alarm", false_alarm),
            unit=about.unit,
            example=about.example,
        )

    @property
    def rates(self) -> list[float]:
        """Miss rate allowed for each class, or for all together."""
        if self.classes is None:
            return [float(self.epsilon)]  # type: ignore[arg-type]  # a mapping only with classes
        if isinstance(self.epsilon, Mapping):
            return [float(self.epsilon[label]) for label in self.classes]
        return [float(self.epsilon)] * len(self.classes)

    @property
    def context(self) -> Context:
        """What a task and an example are called, as a context."""
        return Context(unit=self.unit, example=self.example)

    @property
    def limit(self) -> float:
        """Wealth at which the alarm is raised."""
        return 1 / self.false_alarm

    def to_json(self) -> dict[str, Any]:
        """Return the terms as JSON can hold them.

        Returns
        -------
        dict
            The terms.
        """
        classes = None if self.classes is None else _ids.as_json_labels(self.classes)
        epsilon = _document.encode_parameters({"epsilon": self.epsilon})
        return asdict(self) | epsilon | {"classes": classes}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Terms:
        """Return the terms in a state file.

        Parameters
        ----------
        body : mapping
            What ``to_json`` returned, which satisfies its JSON Schema.

        Returns
        -------
        Terms
            The terms.

        Raises
        ------
        InvalidInput
            If classes and miss rates do not fit together.
        """
        epsilon = _document.decode_parameters({"epsilon": body["epsilon"]})["epsilon"]
        classes = None if body["classes"] is None else _ids.as_classes(body["classes"])
        if isinstance(epsilon, Mapping) and [*epsilon] != [*(classes or ())]:
            raise InvalidInput("epsilon and classes must name the same classes.")
        return cls(**{**body, "epsilon": epsilon, "classes": classes})


def _checksum(promise: MetaPS) -> str:
    """Return a checksum of a guarantee that does not depend on its wording or file version.

    A promise file that is written again, in the words of a newer version, is the same guarantee.
    """
    name, result = promise._encoded_result()
    levels = _document.encode_parameters(promise._guarantee_params())
    tasks = [str(task) for task in promise.tasks_.tolist()]
    return _document.checksum({"levels": levels, name: result, "tasks": tasks})

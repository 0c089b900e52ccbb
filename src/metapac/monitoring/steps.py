"""What a monitor knows after each task."""

from __future__ import annotations

from typing import Any, NamedTuple


class Step(NamedTuple):
    """A task that was counted, and what is known after it.

    Attributes
    ----------
    task : str or int
        The task.
    batch : str or None
        The batch that it came with.
    examples : int
        Number of its labelled examples.
    missed : int
        Number of them whose set misses the true label.
    violated : bool
        Whether its miss rate is above epsilon, with 95% confidence for this task alone.
    wealth : float
        Wealth of the bets against the guarantee; it starts at 1.
    lower, upper : float
        Bounds of the share of tasks whose miss rate exceeds epsilon. With a guarantee per class,
        of the class with the largest share.

    Examples
    --------
    >>> from metapac.monitoring import Step
    >>> step = Step("ohio", "2026-01", 100, 23, True, 1.9, 0.0, 1.0)
    >>> step.missed / step.examples
    0.23
    """

    task: str | int
    batch: str | None
    examples: int
    missed: int
    violated: bool
    wealth: float
    lower: float
    upper: float


class Added(NamedTuple):
    """The tasks that were passed to a monitor: counted or not.

    Attributes
    ----------
    steps : list of Step
        The tasks that were counted, in order.
    known : list
        Tasks that were counted before, and not again.
    overlap : tuple
        Tasks left out because they were used for calibration or training, are pilot tasks, or
        belong to a cluster that was used for calibration or counted before.
    left_out : int
        Number of tasks left out because they have too few examples.

    Examples
    --------
    >>> from metapac.monitoring import Added
    >>> added = Added(steps=[], known=["ohio"], overlap=(), left_out=0)
    >>> f"{len(added.steps)} counted, {len(added.known)} counted before"
    '0 counted, 1 counted before'
    """

    steps: list[Step]
    known: list[Any]
    overlap: tuple[Any, ...]
    left_out: int


class Power(NamedTuple):
    """What an alarm takes, if all new tasks had one miss rate and were as large as those counted.

    Attributes
    ----------
    miss_rate : float
        Twice epsilon.
    reach : float or None
        Lowest miss rate at which an alarm is likely within 1,000 tasks; None if none is.
    examples : int or None
        If twice epsilon is not enough, the number of examples in each task with which it would be;
        None if it is enough, or if a million examples are not.

    Examples
    --------
    >>> from metapac.monitoring.betting import Watch
    >>> Watch(epsilon=0.1, alpha=0.1, false_alarm=0.01).find_power([8, 8, 8])
    Power(miss_rate=0.2, reach=0.21, examples=12)
    """

    miss_rate: float
    reach: float | None
    examples: int | None

    @property
    def can_tell(self) -> bool:
        """Whether tasks like these raise an alarm if all of them miss twice epsilon."""
        return self.reach is not None and self.reach <= self.miss_rate

"""A pool of domains with classes of their own, such as alphabets with their letters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from metapac._checks import as_whole_number
from metapac._types import Seed
from metapac.exceptions import Message, Parameter
from metapac.tasks import _checks
from metapac.tasks.class_pool import ClassPool, make_task
from metapac.tasks.drawing import DrawnTasks, Ids, count_noun, draw_positions, positions_by_id
from metapac.tasks.group_pool import name_task
from metapac.tasks.seeds import spawn_seed
from metapac.tasks.settings import Choice, Settings
from metapac.tasks.task import Task


class DomainPool:
    """Classes within domains, such as letters within alphabets; a task stays in one domain.

    A task draws its domain first, then classes of that domain, then examples. Tasks of one domain
    depend on each other. For a guarantee on new domains, take one task of each domain, or pass the
    domains as ``clusters`` to `MetaPS.calibrate`.

    Parameters
    ----------
    x : array_like, shape (n, ...)
        Examples: a NumPy array, a memory-mapped array, a torch tensor or a `LazyArray`.
    y : array_like, shape (n,)
        Class of each example, all strings or all integers. Classes of different domains are
        different, even if they have the same name.
    domains : array_like, shape (n,)
        Domain of each example, all strings or all integers.
    name : str, default "pool"
        Name of the pool.

    Attributes
    ----------
    names : list
        The domains, sorted.
    positions : list of ndarray
        Positions of the examples of each domain.
    classes : list of list
        The classes of each domain, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.tasks import DomainPool
    >>> letters = ["a", "b", "c"] * 8                                   # 4 of each in each alphabet
    >>> pool = DomainPool(np.arange(24.0), letters, np.repeat(["Greek", "Latin"], 12))
    >>> pool
    <DomainPool 'pool': 2 domains, 6 classes, 24 examples>
    >>> [(task.name, task.domain) for task in pool.tasks(ways=2, shots=1, queries=2, rng=0)]
    [('Greek', 'Greek'), ('Latin', 'Latin')]
    """

    unit = "domain"

    def __init__(self, x: Any, y: Ids, domains: Ids, *, name: str = "pool") -> None:
        self.x = _checks.as_examples("x", x)
        self.y = _checks.as_ids("y", y)
        self.domains = _checks.as_ids("domains", domains)
        self.name = name
        _checks.check_same_rows("y", self.y, "x", self.x)
        _checks.check_same_rows("domains", self.domains, "x", self.x)
        self.names, self.positions = positions_by_id(self.domains)
        by_class = [positions_by_id(self.y[members]) for members in self.positions]
        self.classes = [names for names, _ in by_class]
        self._members = [
            [members[inside] for inside in positions]
            for members, (_, positions) in zip(self.positions, by_class, strict=True)
        ]

    def tasks(
        self,
        count: int | None = None,
        *,
        ways: Choice,
        shots: Choice,
        queries: Choice,
        rng: Seed,
        name: str | None = None,
    ) -> Sequence[Task]:
        """Return one task of each domain, or tasks of domains drawn with replacement.

        Task i does not depend on ``count``, nor on the order in which tasks are accessed.

        Parameters
        ----------
        count : int, optional
            Number of tasks, each of a random domain; by default one task of each domain.
        ways : int or sequence of int
            Number of classes in a task. A sequence lists the choices, of which each task draws one
            with equal probability, as in `ClassPool.tasks`.
        shots : int or sequence of int
            Number of support examples of each class, or the choices.
        queries : int or sequence of int
            Number of query examples of each class, or the choices.
        rng : int, numpy.random.Generator or None
            Seed.
        name : str, optional
            Prefix of the names of these tasks, as in ``"name-Greek#3"``; none by default. Tasks of
            several calls need different prefixes to be scored together.

        Returns
        -------
        sequence of Task
            The tasks, each drawn when it is accessed. ``task.domain`` is its domain.

        Raises
        ------
        InvalidInput
            If a domain has fewer than ``ways`` classes, or a class too few examples.
        """
        total = len(self.names) if count is None else as_whole_number("count", count, minimum=0)
        settings = Settings.read(ways, shots, queries)
        _checks.check_domains(max(settings.ways), self.names, self.classes)
        needed = Message("{} + {}", Parameter("shots"), Parameter("queries"))
        for domain, names, members in zip(self.names, self.classes, self._members, strict=True):
            labelled = [f"{domain}/{name}" for name in names]
            _checks.check_sizes("class", labelled, members, needed, settings.largest)
        draw = partial(self._task, count is None, settings, name)
        return DrawnTasks(total, draw, spawn_seed(rng))

    def as_class_pool(self) -> ClassPool:
        """Return a pool of all classes whose tasks mix domains, for training.

        Returns
        -------
        ClassPool
            A pool on the same data, with classes such as ``"Greek/a"``.

        Examples
        --------
        >>> from metapac.tasks import DomainPool
        >>> DomainPool([0.0, 1.0], ["a", "a"], ["Greek", "Latin"]).as_class_pool().names
        ['Greek/a', 'Latin/a']
        """
        pairs = zip(self.domains.tolist(), self.y.tolist(), strict=True)
        pool = ClassPool(self.x, [f"{domain}/{name}" for domain, name in pairs], name=self.name)
        _checks.check_joint_names(len(pool.names), sum(map(len, self.classes)))
        return pool

    def _task(
        self,
        in_order: bool,
        settings: Settings,
        prefix: str | None,
        i: int,
        rng: np.random.Generator,
    ) -> Task:
        domain = i if in_order else int(rng.integers(len(self.names)))
        ways, shots, queries = settings.draw(rng)
        classes = rng.choice(len(self.classes[domain]), ways, replace=False)
        members = self._members[domain]
        drawn = np.stack([draw_positions(members[c], shots + queries, rng) for c in classes])
        names = [self.classes[domain][c] for c in classes]
        task_name = name_task(self.names[domain], None if in_order else i, prefix)
        return make_task(task_name, self.x, drawn, shots, names, self.names[domain])

    def __repr__(self) -> str:
        classes = [name for names in self.classes for name in names]
        counts = count_noun(self.names, "domain"), count_noun(classes, "class", "es")
        return f"<DomainPool {self.name!r}: {', '.join(counts)}, {count_noun(self.y, 'example')}>"

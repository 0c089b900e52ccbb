"""Linear heads on vectors, fitted to many support sets at once, and their rounding error.

Every head is linear in the vector, up to a number that all labels share: prototypes because
-|q - p|^2 = 2 q.p - |p|^2 - |q|^2, ridge and logistic regression by definition. All arithmetic is
in float64. A bound on the error of a logit comes with each head: u = 2^-53 is the unit of
rounding, a sum of ``terms`` products of lengths a and b is off by at most ``terms`` u a b, and
``UNIT`` = 8 u leaves room for the constants.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metapac._types import Doubles

UNIT = 2.0**-50


@dataclass(frozen=True, eq=False)
class LinearHead:
    """Logits ``(q - centre) . weights + bias`` of T tasks, and a bound on their rounding error.

    Parameters
    ----------
    centre : ndarray, shape (t, 1, d)
        Subtracted from each vector.
    weights : ndarray, shape (t, classes, d)
        One row for each label.
    bias : ndarray, shape (t, classes)
        ``-inf`` for labels absent from the support set.
    error : ndarray, shape (t,)
        Bound on the error of a logit where ``q`` is the centre.
    error_slope : ndarray, shape (t,)
        How much it grows with the length of ``q - centre``.
    curvature : float, default 0.0
        Multiple of ``|q - centre|^2`` subtracted from all logits of an example.
    unit : bool, default False
        Whether vectors are scaled to length 1 first.
    """

    centre: Doubles
    weights: Doubles
    bias: Doubles
    error: Doubles
    error_slope: Doubles
    curvature: float = 0.0
    unit: bool = False

    def logits(self, query: Doubles) -> tuple[Doubles, Doubles]:
        """Return the logits of vectors, and a bound on the error of each.

        Parameters
        ----------
        query : ndarray, shape (t, q, d)
            Vectors.

        Returns
        -------
        logits : ndarray, shape (t, q, classes)
            The logits.
        error : ndarray, shape (t, q)
            Bound on the error of a logit, apart from a number that all labels share.
        """
        vectors = to_unit_length(query) if self.unit else query - self.centre  # (T, Q, d)
        squares = np.einsum("tqd,tqd->tq", vectors, vectors)  # (T, Q)
        logits = vectors @ self.weights.mT + self.bias[:, None]
        curve = self.curvature * squares  # (T, Q)
        error = self.error[:, None] + self.error_slope[:, None] * np.sqrt(squares)
        # All labels share the curve, but not the rounding of the difference.
        return logits - curve[:, :, None], error + UNIT * curve


@dataclass(frozen=True, eq=False)
class SupportSets:
    """Support sets of T tasks, all of one size.

    Parameters
    ----------
    vectors : ndarray, shape (t, s, d)
        Support vectors.
    one_hot : ndarray, shape (t, s, classes)
        1 where a vector has a label, else 0.
    """

    vectors: Doubles
    one_hot: Doubles

    @property
    def rounding(self) -> float:
        """Error of the longest sum, relative to the lengths of its factors: ``terms`` units."""
        _, size, width = self.vectors.shape
        return UNIT * float(size + width + 8)

    def means(self, centre: Doubles | float = 0.0) -> Doubles:
        """Return the mean of each label's vectors.

        Parameters
        ----------
        centre : ndarray, shape (t, 1, d), default 0.0
            Subtracted from the vectors first.

        Returns
        -------
        ndarray, shape (t, classes, d)
            The means; zeros for labels absent from the support set.
        """
        counts = np.maximum(self.one_hot.sum(1), 1.0)  # (T, classes)
        return np.asarray(self.one_hot.mT @ (self.vectors - centre) / counts[:, :, None])

    def centre(self) -> tuple[Doubles, Doubles]:
        """Return the mean of each support set, and its rounding error.

        Far from the origin, the rounding error of the mean is proportional to its size. The mean
        of the centred vectors corrects it.

        Returns
        -------
        centre : ndarray, shape (t, 1, d)
            The mean, rounded.
        shift : ndarray, shape (t, 1, d)
            The correction.
        """
        centre = self.vectors.mean(1, keepdims=True)
        return centre, (self.vectors - centre).mean(1, keepdims=True)

    def mask_absent(self, bias: Doubles) -> Doubles:
        """Return the bias with ``-inf`` for labels absent from the support set.

        Parameters
        ----------
        bias : ndarray, shape (t, classes)
            Bias of each label.

        Returns
        -------
        ndarray, shape (t, classes)
            The masked bias.
        """
        return np.where(self.one_hot.any(1), bias, -np.inf)


def to_unit_length(vectors: Doubles) -> Doubles:
    """Return vectors of length 1; a vector of zeros stays as it is.

    Parameters
    ----------
    vectors : ndarray, shape (..., d)
        Vectors.

    Returns
    -------
    ndarray, shape (..., d)
        The scaled vectors.
    """
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)


def fit_euclidean(support: SupportSets, temperature: float) -> LinearHead:
    """Return heads whose logits are minus the squared distance to each label's mean.

    Parameters
    ----------
    support : SupportSets
        The support sets.
    temperature : float
        Number that the logits are divided by.

    Returns
    -------
    LinearHead
        The heads.

    Notes
    -----
    Vectors are centred at the mean of the support set, which changes no distance. Products with
    the prototypes then have the size of the distances, however far from the origin the vectors
    lie, and the error of a logit is at most terms u (2 |q| r + r^2) with r the largest length.
    """
    centre = support.vectors.mean(1, keepdims=True)  # (T, 1, d)
    prototypes = support.means(centre)  # (T, classes, d)
    reach = np.linalg.norm(support.vectors - centre, axis=-1).max(1)  # (T,)
    squares = np.einsum("tcd,tcd->tc", prototypes, prototypes)
    scale = support.rounding / temperature
    return LinearHead(
        centre,
        2 * prototypes / temperature,
        support.mask_absent(-squares / temperature),
        error=scale * reach**2,
        error_slope=scale * reach,
        curvature=1 / temperature,
    )


def fit_cosine(support: SupportSets, temperature: float) -> LinearHead:
    """Return heads whose logits are the cosine with each label's mean.

    Parameters
    ----------
    support : SupportSets
        The support sets.
    temperature : float
        Number that the logits are divided by.

    Returns
    -------
    LinearHead
        The heads.

    Notes
    -----
    A mean of length m of vectors up to length r is off by terms u r, hence its direction by
    terms u r / m. No cosine is off by more than 2.
    """
    prototypes = support.means()
    lengths = np.linalg.norm(prototypes, axis=-1)  # (T, classes)
    reach = np.linalg.norm(support.vectors, axis=-1).max(1, keepdims=True)  # (T, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(support.one_hot.any(1), reach / lengths, 0.0).max(1)  # (T,)
    error = np.fmin(support.rounding * (1 + spread), 2.0) / temperature
    return LinearHead(
        np.zeros_like(support.vectors[:, :1]),
        to_unit_length(prototypes) / temperature,
        support.mask_absent(np.zeros(lengths.shape)),
        error=error,
        error_slope=np.zeros_like(error),
        unit=True,
    )


def fit_ridge(support: SupportSets, penalty: float, temperature: float) -> LinearHead:
    """Return heads that regress label indicators on centred vectors, with a squared penalty.

    Parameters
    ----------
    support : SupportSets
        The support sets.
    penalty : float
        Multiple of the squared weights that is added to the squared errors; not on the intercept.
    temperature : float
        Number that the logits are divided by.

    Returns
    -------
    LinearHead
        The heads.

    Notes
    -----
    The weights are Z' a with (Z Z' + penalty) a = Y, or w with (Z' Z + penalty) w = Z' Y; the
    smaller system is solved. Its matrix is off by terms u |Z|^2 and its inverse is at most
    1 / penalty, hence the solution a by terms u (|Z|^2 + penalty) |a| / penalty, and w likewise.
    """
    centre, shift = support.centre()
    z = support.vectors - centre - shift  # (T, S, d)
    shares = support.one_hot.mean(1)  # (T, classes)
    targets = support.one_hot - shares[:, None]  # (T, S, classes)
    size = np.linalg.norm(z, axis=(1, 2))  # (T,)
    stiffness = (size**2 + penalty) / penalty
    if z.shape[1] <= z.shape[2]:
        dual = np.linalg.solve(_penalised(z @ z.mT, penalty), targets)  # (T, S, classes)
        weights = dual.mT @ z  # (T, classes, d)
        scale = size * np.linalg.norm(dual, axis=(1, 2))
    else:
        weights = np.linalg.solve(_penalised(z.mT @ z, penalty), z.mT @ targets).mT
        scale = np.linalg.norm(weights, axis=(1, 2))
        scale += size * np.linalg.norm(targets, axis=(1, 2)) / (size**2 + penalty)
    return LinearHead(
        centre,
        weights / temperature,
        support.mask_absent((shares - times_shift(weights, shift)) / temperature),
        error=np.full(len(z), support.rounding / temperature),
        error_slope=support.rounding * (1 + stiffness) * scale / temperature,
    )


def times_shift(weights: Doubles, shift: Doubles) -> Doubles:
    """Return the product of the weights of each label with the shift of the centre.

    Parameters
    ----------
    weights : ndarray, shape (t, classes, d)
        Weights.
    shift : ndarray, shape (t, 1, d)
        The shift; see `SupportSets.centre`.

    Returns
    -------
    ndarray, shape (t, classes)
        The products.
    """
    return np.asarray(np.einsum("tcd,tud->tc", weights, shift))


def _penalised(gram: Doubles, penalty: float) -> Doubles:
    return np.asarray(gram + penalty * np.eye(gram.shape[-1]))

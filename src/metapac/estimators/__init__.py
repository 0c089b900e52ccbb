"""Classifiers and regressors with a guarantee for new groups, with the scikit-learn interface.

They wrap any estimator with ``fit`` and ``predict``. scikit-learn is imported only if the estimator
comes from it, or if it calls these classes.
"""

from __future__ import annotations

from metapac.estimators.classifier import MetaPSClassifier
from metapac.estimators.regressor import MetaPSRegressor

__all__ = ["MetaPSClassifier", "MetaPSRegressor"]

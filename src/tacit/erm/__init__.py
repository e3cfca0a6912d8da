"""Private empirical risk minimisation: estimators in scikit-learn's shape, with proofs."""

from .linear import PrivateLogisticRegression, PrivateSVC
from .regression import PrivateLinearRegression, PrivateRidge

__all__ = ["PrivateLinearRegression", "PrivateLogisticRegression", "PrivateRidge", "PrivateSVC"]

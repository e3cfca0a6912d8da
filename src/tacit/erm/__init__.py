"""Private empirical risk minimisation: estimators in scikit-learn's shape, with proofs."""

from .additive import PrivateAdditiveTrees
from .bayes import PrivateGaussianNB
from .clusters import PrivateKMeans
from .components import PrivatePCA
from .custom import PrivateERM
from .linear import PrivateLogisticRegression, PrivateSVC
from .local import PrivateLocalRegression
from .regression import PrivateLinearRegression, PrivateRidge
from .scaling import PrivateStandardScaler
from .search import PrivateGridSearchCV

__all__ = [
    "PrivateAdditiveTrees",
    "PrivateERM",
    "PrivateGaussianNB",
    "PrivateGridSearchCV",
    "PrivateKMeans",
    "PrivateLinearRegression",
    "PrivateLocalRegression",
    "PrivateLogisticRegression",
    "PrivatePCA",
    "PrivateRidge",
    "PrivateSVC",
    "PrivateStandardScaler",
]

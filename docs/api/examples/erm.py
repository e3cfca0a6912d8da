# %% PrivateLogisticRegression PrivateSVC PrivateERM PrivateGaussianNB PrivateAdditiveTrees
import numpy as np

from tacit.erm import PrivateAdditiveTrees, PrivateERM, PrivateGaussianNB, PrivateLogisticRegression, PrivateSVC

x = np.random.default_rng(0).normal(size=(2000, 3))
y = (x @ [2.0, -1.0, 0.5] > 0).astype(int)
public = {"classes": [0, 1], "random_state": 0}
for model in (
    PrivateLogisticRegression(1.0, norm_bound=4.0, **public),
    PrivateSVC(1.0, norm_bound=4.0, **public),
    PrivateERM(epsilon=1.0, norm_bound=4.0, **public),
    PrivateGaussianNB(1.0, norm_bound=4.0, **public),
    PrivateAdditiveTrees(1.0, bounds=([-4.0] * 3, [4.0] * 3), **public),
):
    print(type(model).__name__, model.fit(x, y).bound_.epsilon)

# %% PrivateLinearRegression PrivateRidge PrivateLocalRegression
import numpy as np

from tacit.erm import PrivateLinearRegression, PrivateLocalRegression, PrivateRidge

x = np.random.default_rng(0).normal(size=(2000, 3))
y = x @ [2.0, -1.0, 0.5]
public = {"target_range": (-8.0, 8.0), "norm_bound": 4.0, "random_state": 0}
for model in (PrivateLinearRegression(1.0, **public), PrivateRidge(1.0, **public), PrivateLocalRegression(4.0, **public)):
    print(type(model).__name__, model.fit(x, y).bound_.epsilon)

# %% PrivateKMeans PrivatePCA PrivateStandardScaler
import numpy as np

from tacit.erm import PrivateKMeans, PrivatePCA, PrivateStandardScaler

x = np.random.default_rng(0).normal(size=(2000, 3))
print(PrivateKMeans(2, 1.0, norm_bound=4.0, random_state=0).fit(x).bound_.epsilon)
print(PrivatePCA(2, 1.0, norm_bound=4.0, random_state=0).fit(x).bound_.epsilon)
print(PrivateStandardScaler(1.0, bounds=([-4.0] * 3, [4.0] * 3), random_state=0).fit(x).bound_.epsilon)

# %% PrivateGridSearchCV
import numpy as np

from tacit.erm import PrivateGridSearchCV, PrivateLogisticRegression

x = np.random.default_rng(0).normal(size=(500, 3))
y = (x @ [2.0, -1.0, 0.5] > 0).astype(int)
model = PrivateLogisticRegression(norm_bound=4.0, classes=[0, 1], method="output")
found = PrivateGridSearchCV(model, {"regularization": ["auto", 0.01]}, epsilon=4.0, random_state=1).fit(x, y)
print(found.best_params_, found.bound_.epsilon)

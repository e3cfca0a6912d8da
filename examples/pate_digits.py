"""PATE on handwritten digits: 40 teachers, noisy votes on public pictures, and a student that was never near the data.

    python -m examples.pate_digits

1,200 pictures are private and 597 public. The claim holds whatever the private pictures are; `answers` caps how many
queries the teachers answer. Epsilon is large here because 40 teachers are few: see docs/pate.md.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import tacit
from tacit.pate import ConfidentGNMax


def main() -> tacit.PATE:
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype(np.float32)
    private, public = slice(0, 1200), slice(1200, None)
    run = tacit.PATE(
        LogisticRegression(max_iter=200),
        teachers=40,
        aggregator=ConfidentGNMax(threshold=24, noise_select=20, noise_answer=6),
        queries=300,
        answers=120,
        delta=1e-5,
        classes=range(10),
        choose="spread",
        random_state=0,  # an experiment: leave it out for a release
    )
    run.fit(x[private], y[private], x[public])
    print(f"epsilon at most {run.bound_.epsilon:.2f} at delta {run.bound_.delta:g}")
    print(f"answered {run.answered_} of {run.design_.queries} queries")
    rest = np.setdiff1d(np.arange(597), run.queries_) + 1200
    print(f"the student is right on {np.mean(run.predict(x[rest]) == y[rest]):.1%} of public pictures it never saw")
    print(run.evidence().sentence)
    return run


if __name__ == "__main__":
    main()

"""Answers and receipts: the same after a trip through JSON, and what they say about themselves."""

import numpy as np
import pytest

from tacit.core import Adjacency, Answer, BadInput, Bound, Receipt, Side
from tacit.core.events import DiscreteLaplace

SPENT = Bound(1.0, 0.0, Side.UPPER, 1.0, "sum", Adjacency.ADD_REMOVE)
RECEIPT = Receipt(3, "ab12", SPENT, 0.5)
VALUES = [7, -(2**80), 0.1, None, True, "b", ("a", "b"), {"a": 3, ("x", 1): 0.25}, np.array([1, 2, -3]), np.eye(2) / 3]
VALUES += [
    np.array(["a", "bc", "\udc80"]),
    np.array([1, 10**500, None, "b", ("a", 2), b"x"], dtype=object),
    -(10**9000),
]


def answer(value=7, **changed):
    return Answer(value, DiscreteLaplace(1.0), "laplace", **{"error": 3.0, **changed})


@pytest.mark.parametrize("value", VALUES, ids=[type(value).__name__ + str(i) for i, value in enumerate(VALUES)])
def test_an_answer_is_the_same_after_json(value):
    made = answer(value, receipt=RECEIPT, notes=("a note",), randomness="seeded", adjacency="replace")
    again = Answer.from_json(made.text())
    np.testing.assert_array_equal(again.value, value)
    assert type(again.value) is type(value)
    assert again.text() == made.text()
    assert (again.event, again.receipt, again.adjacency) == (made.event, RECEIPT, Adjacency.REPLACE)


def test_arrays_keep_type_and_bits():
    made = np.array([[0.1, -0.0], [5e-324, 1e300]])
    again = Answer.from_json(answer(made).text()).value
    assert again.dtype == made.dtype
    assert again.tobytes() == made.tobytes()


def test_what_an_answer_says():
    assert "within 3 at confidence 0.95" in repr(answer())
    assert "error depends on the data" in repr(answer(error=None, notes=("error depends on the data",)))
    assert "none was charged" in answer()._repr_html_()
    assert "0.5" in answer(receipt=RECEIPT)._repr_html_()
    assert "<script" not in answer("<script>")._repr_html_()


def test_bad_answers_are_refused():
    for changed in ({"trust": "nobody"}, {"confidence": 1.0}, {"adjacency": "friends"}):
        with pytest.raises(BadInput):
            answer(**changed)
    for text in ("[]", '{"schema": "tacit.event/1"}', "{"):
        with pytest.raises(BadInput):
            Answer.from_json(text)

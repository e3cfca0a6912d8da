"""Ledgers for tests: one that only charges, one that also keeps answers and knows its neighbours."""

from tacit.core import Adjacency, Bound, BudgetExceeded, Mismatch, Receipt, Side


class Plain:
    """Charges a list, and refuses after `most` charges."""

    def __init__(self, most=100):
        self.most, self.charged, self.asked = most, {}, []

    def charge(self, event, *, key, purpose="", analyst=""):
        if self.charged.setdefault(key, event) != event:
            raise Mismatch("The key was charged for another event.")
        if len(self.charged) > self.most:
            del self.charged[key]
            raise BudgetExceeded(1.0, 0.0)
        self.asked.append((key, purpose, analyst))
        spent = Bound(1.0, 0.0, Side.UPPER, 1.0, "sum", Adjacency.ADD_REMOVE)
        return Receipt(len(self.charged), "head", spent, float(self.most - len(self.charged)))


class Keeping(Plain):
    """Keeps the first answer of every key."""

    def __init__(self, most=100, adjacency="add-remove"):
        super().__init__(most)
        self.adjacency, self.unit, self.answers = Adjacency.of(adjacency), "person", {}

    def stored(self, key):
        return self.answers.get(key)

    def store(self, key, answer):
        return self.answers.setdefault(key, answer)

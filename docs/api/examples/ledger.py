# %% Chain Entry
import tacit
from tacit.events import Laplace

ledger = tacit.Ledger.create("clinic.db", epsilon=1.0, delta=0.0, unit="record")
receipt = ledger.charge(Laplace(10.0), key="count of May", purpose="monthly report")
for entry in ledger.entries():
    print(entry.seq, entry.purpose, entry.key, entry.event)
chain = ledger.verify(receipt)  # every hash is recomputed; the receipt shows a rollback
print(chain.ok, chain.entries, chain.problem)

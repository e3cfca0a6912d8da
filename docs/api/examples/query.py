# %% count sum mean variance users Answer Price Query
import pandas as pd

import tacit
from tacit.query import count, mean, sum, users, variance

shop = pd.DataFrame({"person": [k % 500 for k in range(1000)], "spent": [float(k % 90) for k in range(1000)]})
table = tacit.Table(shop, unit="person", max_rows=2)
query = table.aggregate(
    rows=count(), people=users(), total=sum("spent", (0, 90)), average=mean("spent", (0, 90)),
    spread=variance("spent", (0, 90)),
)
print(query.preview(epsilon=2.0).error)  # reads and charges nothing
print(query.release(epsilon=2.0, rng=1))

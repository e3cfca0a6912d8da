# %% load NAMES Records
from tacit.data import NAMES, load

print(sorted(NAMES))
digits = load("digits")
print(digits.x.shape, digits.y.max())

# %% read_table columns_of Table labels
from pathlib import Path

from tacit.data import columns_of, labels, read_table

Path("people.csv").write_text("age,ill\n40,no\n51,yes\n")
print(columns_of(Path("people.csv")).columns.keys())
found = read_table(Path("people.csv"), {"ill": ["no", "yes"]}, label="ill")
print(found["x"], found["y"])

# %% infer is_frame table
import pandas as pd

from tacit.data import infer, is_frame, table

people = pd.DataFrame({"age": [40, 51, 62], "ill": ["no", "yes", "no"]})
print(is_frame(people), table(people).rows)
schema = infer(people, label="ill", ranges={"age": (0, 120)}, words={"ill": ["no", "yes"]})
print(schema.derived)  # nothing was read off the data but the kinds

"""All attacks, one sentence each."""

import sys
from pathlib import Path

from . import NAMES, shown

for name in NAMES:
    print(f"{name}: {shown(name, Path(sys.argv[1])).sentence}")

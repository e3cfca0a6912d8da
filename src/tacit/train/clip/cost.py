r"""Which of the two forms of a squared norm is cheaper, from sizes alone.

With T positions and a weight of p x d, per example and group:

    inner products   2 T^2 (p + d) operations in float64, and the weighted sum is one product of 2 T p d
    written out      2 T p d operations that replace that product, and about three passes over p d numbers

The first extra cost is counted in operations, the second in bytes moved; the ratio of the two speeds is the machine's.
"""

from __future__ import annotations

# Float operations in the time one byte is moved: measured 52 GFLOP/s against 11 GB/s on one core of an AMD EPYC,
# 400 TFLOP/s against 4 TB/s on a large GPU. Numbers beyond the room are charged more, to keep them out of memory.
# They set speed only: both forms give the same norm.
FLOPS_PER_BYTE = {"cpu": 5.0, "cuda": 100.0}
PASSES = 3.0
BYTES = 4.0
FLOAT64 = 2.4
ROOM = 2.0**27
CROWDED = 8.0


def inner_is_cheaper(positions: int, rows: int, columns: int, count: int = 1, device: str = "cpu") -> bool:
    """Whether inner products of length-T sequences cost less than writing p x d numbers out, `count` times each."""
    inner = 2.0 * positions**2 * (rows + columns) * (FLOAT64 if device == "cpu" else 1.0)
    written = PASSES * BYTES * rows * columns * FLOPS_PER_BYTE.get(device, FLOPS_PER_BYTE["cpu"])
    if count * rows * columns * BYTES > ROOM:
        written *= CROWDED
    return inner < written

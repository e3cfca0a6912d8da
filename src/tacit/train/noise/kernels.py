"""Kernels for NVIDIA GPUs: the noise of `gaussian`, the keys of `derive` and the fingerprints of `fingerprint`.

Only finished numbers are written to memory: one thread computes a ChaCha20 block of angles and the two blocks of radii
that belong to it, 32 normal numbers. Each kernel is compared with the eager code of its module on the device before it
is used.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .fingerprint import FIRST, blocks
from .joined import TILE, Joined

ROWS = TILE // 16
"""Threads that work together: one warp, since larger tiles leave more of a small piece unused."""


def noise(
    rows: Tensor,
    key: Tensor,
    first: int,
    pairs: int,
    scale: float,
    share: float = 0.0,
    nonce: tuple[int, int] = (0, 0),
) -> None:
    """rows <- share * rows + scale * noise, as `gaussian.eager` has it."""
    pieces, count = rows.shape
    tiles, keyed = triton.cdiv(pairs, 16 * ROWS), key.dim() == 2
    with torch.cuda.device_of(rows):
        _pieces[(pieces * tiles,)](
            rows, key, first, pairs, tiles, count, scale, share, *nonce, ROWS=ROWS, ADD=share != 0.0, KEYED=keyed,
            num_warps=1,
        )  # fmt: skip


@triton.jit(do_not_specialize=["first", "tiles", "nonce", "number"])
def _pieces(  # type: ignore[no-untyped-def]
    rows, key, first, pairs, tiles, count, scale, share, nonce, number,
    ROWS: tl.constexpr, ADD: tl.constexpr, KEYED: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    piece, tile = program // tiles, program % tiles
    if KEYED:
        key += 8 * piece
        start = first + piece * 0
    else:
        start = first + piece * (3 * pairs // 16)
    cosines, sines = _normal(key, start, pairs, tile, nonce, number, scale, ROWS)
    pair = tile * (16 * ROWS) + tl.arange(0, 16 * ROWS)
    _put(rows + piece * count, pair, (pair < pairs) & (pair < count), cosines, share, ADD)
    _put(rows + piece * count, pair + pairs, (pair < pairs) & (pair + pairs < count), sines, share, ADD)


def noise_into(joined: Joined, key: Tensor, pairs: int, last: int, scale: float, share: float) -> None:
    """joined <- share * joined + scale * noise: pieces of `pairs` pairs, the last one of `last`."""
    pieces, tiles = joined.count // (2 * pairs), triton.cdiv(pairs, TILE)
    with torch.cuda.device_of(key):
        _into[(pieces * tiles + triton.cdiv(last, TILE),)](
            joined.places, joined.starts, joined.owners, key, joined.count, pairs, tiles, last, pieces, scale, share,
            ROWS=ROWS, num_warps=1,
        )  # fmt: skip


@triton.jit(do_not_specialize=["count", "tiles", "last", "pieces"])
def _into(  # type: ignore[no-untyped-def]
    places, starts, owners, key, count, pairs, tiles, last, pieces, scale, share, ROWS: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    piece, tile = program // tiles, program % tiles
    own = tl.where(piece < pieces, pairs, last)
    cosines, sines = _normal(key, piece * (3 * pairs // 16), own, tile, piece * 0, piece * 0, scale, ROWS)
    first, left = piece * 2 * pairs + tile * (16 * ROWS), own - tile * (16 * ROWS)
    _spread(places, starts, owners, first, left, count, cosines, share, ROWS)
    _spread(places, starts, owners, first + own, left, count, sines, share, ROWS)


@triton.jit
def _spread(places, starts, owners, first, left, count, made, share, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Write entries from `first` of the whole on, at most `left` of them, to the arrays that they belong to."""
    lane = tl.arange(0, 16 * ROWS)
    end = tl.minimum(tl.minimum(left, 16 * ROWS), count - first)
    owner = tl.load(owners + tl.minimum(first, count - 1) // (16 * ROWS))
    start = tl.load(starts + owner) - first
    while start < end:
        after = tl.load(starts + owner + 1) - first
        array = tl.load(places + owner).to(tl.pointer_type(tl.float32)) - start
        here = (lane >= tl.maximum(start, 0).to(tl.int32)) & (lane < tl.minimum(after, end).to(tl.int32))
        _put(array, lane, here, made, share, True)
        owner += 1
        start = after


@triton.jit
def _normal(key, start, pairs, tile, nonce, number, scale, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Scaled cosines and sines of some pairs of the piece whose stream starts at block `start`."""
    block = tile * ROWS + tl.arange(0, ROWS)
    a = _stream(key, start + 2 * block, nonce, number)
    b = _stream(key, start + 2 * block + 1, nonce, number)
    turns = _stream(key, start + pairs // 8 + block, nonce, number)
    radii = (
        _radius(a[0], a[1]), _radius(a[2], a[3]), _radius(a[4], a[5]), _radius(a[6], a[7]),
        _radius(a[8], a[9]), _radius(a[10], a[11]), _radius(a[12], a[13]), _radius(a[14], a[15]),
        _radius(b[0], b[1]), _radius(b[2], b[3]), _radius(b[4], b[5]), _radius(b[6], b[7]),
        _radius(b[8], b[9]), _radius(b[10], b[11]), _radius(b[12], b[13]), _radius(b[14], b[15]),
    )  # fmt: skip
    radius = _sixteen(radii, ROWS) * scale
    cosine, sine = _turned(_sixteen(turns, ROWS))
    return cosine * radius, sine * radius


@triton.jit
def _put(row, place, mask, made, share, ADD: tl.constexpr):  # type: ignore[no-untyped-def]
    if ADD:
        made += share * tl.load(row + place, mask=mask, other=0.0)
    tl.store(row + place, made, mask=mask)


@triton.jit
def _radius(low, high):  # type: ignore[no-untyped-def]
    r"""sqrt(-2 ln u), u = n / 2^54 with n odd: the midpoints of 2^53 intervals of (0, 1).

    To the rounding of float32, without float64: n = 2^k m with m in [sqrt(1/2), sqrt(2)), ln u = (k - 54) ln 2 + ln m;
    where u > sqrt(1/2) m = u, and m - 1 is made of 2^54 - n. ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.1716, by
    its series; what is left out is less than 2 s^11 / 11 (1 - s^2) < 8e-10.
    """
    number = (high.to(tl.int64) << 22) + ((low >> 11).to(tl.int64) << 1) + 1
    near = high >= 3037000500
    value = tl.where(near, 18014398509481984 - number, number).to(tl.float32)
    power = (value.to(tl.int32, bitcast=True) - 1060439283) >> 23
    mantissa = (value.to(tl.int32, bitcast=True) - (power << 23)).to(tl.float32, bitcast=True)
    above = tl.where(near, value * -5.551115123125783e-17, mantissa - 1.0)
    twos = tl.where(near, 0, power - 54).to(tl.float32)
    s = above / (2.0 + above)
    s2 = s * s
    series = 1.0 + s2 * (1 / 3 + s2 * (1 / 5 + s2 * (1 / 7 + s2 * (1 / 9))))
    return tl.sqrt(-2.0 * (twos * 0.6931471805599453 + 2.0 * s * series))


@triton.jit
def _turned(word):  # type: ignore[no-untyped-def]
    """Cosine and sine of 2 pi word / 2^32: its quarter turn, and the rest x of at most pi / 4 by Taylor's series.

    What follows in them is at most x^10 / 10! < 3e-8 and x^11 / 11! < 2e-9.
    """
    quarter = (word + 536870912) >> 30
    x = (word - (quarter << 30)).to(tl.int32, bitcast=True).to(tl.float32) * 1.4629180792671596e-09
    x2 = x * x
    even = 1.0 + x2 * (-1 / 2 + x2 * (1 / 24 + x2 * (-1 / 720 + x2 * (1 / 40320))))
    odd = x + x * x2 * (-1 / 6 + x2 * (1 / 120 + x2 * (-1 / 5040 + x2 * (1 / 362880))))
    swapped = (quarter & 1) == 1
    cosine, sine = tl.where(swapped, odd, even), tl.where(swapped, even, odd)
    return tl.where(((quarter + 1) & 2) == 2, -cosine, cosine), tl.where((quarter & 2) == 2, -sine, sine)


@triton.jit
def _sixteen(v, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Sixteen values of every thread, laid out contiguously."""
    a0, a1, a2, a3 = tl.join(v[0], v[8]), tl.join(v[1], v[9]), tl.join(v[2], v[10]), tl.join(v[3], v[11])
    a4, a5, a6, a7 = tl.join(v[4], v[12]), tl.join(v[5], v[13]), tl.join(v[6], v[14]), tl.join(v[7], v[15])
    b0, b1, b2, b3 = tl.join(a0, a4), tl.join(a1, a5), tl.join(a2, a6), tl.join(a3, a7)
    c0, c1 = tl.join(b0, b2), tl.join(b1, b3)
    return tl.reshape(tl.join(c0, c1), (16 * ROWS,))


@triton.jit
def _stream(key, counter, nonce, number):  # type: ignore[no-untyped-def]
    """Block number `counter` of the key stream: sixteen words."""
    zero = (counter * 0).to(tl.uint32)
    k0, k1, k2, k3 = zero + _word(key), zero + _word(key + 1), zero + _word(key + 2), zero + _word(key + 3)
    k4, k5, k6, k7 = zero + _word(key + 4), zero + _word(key + 5), zero + _word(key + 6), zero + _word(key + 7)
    low, high = counter.to(tl.uint32), (counter >> 32).to(tl.uint32)
    x0, x1, x2, x3 = zero + 0x61707865, zero + 0x3320646E, zero + 0x79622D32, zero + 0x6B206574
    s0, s1, s2, s3 = x0, x1, x2, x3
    x4, x5, x6, x7, x8, x9, x10, x11 = k0, k1, k2, k3, k4, k5, k6, k7
    n0, n1 = zero + nonce.to(tl.uint32), zero + number.to(tl.uint32)
    x12, x13, x14, x15 = low, high, n0, n1
    for _ in range(10):
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    return (
        x0 + s0, x1 + s1, x2 + s2, x3 + s3, x4 + k0, x5 + k1, x6 + k2, x7 + k3,
        x8 + k4, x9 + k5, x10 + k6, x11 + k7, x12 + low, x13 + high, x14 + n0, x15 + n1,
    )  # fmt: skip


@triton.jit
def _word(place):  # type: ignore[no-untyped-def]
    return tl.load(place).to(tl.uint32, bitcast=True)


@triton.jit
def _quarter(a, b, c, d):  # type: ignore[no-untyped-def]
    a = a + b
    d = _rotated(d ^ a, 16)
    c = c + d
    b = _rotated(b ^ c, 12)
    a = a + b
    d = _rotated(d ^ a, 8)
    c = c + d
    b = _rotated(b ^ c, 7)
    return a, b, c, d


@triton.jit
def _rotated(word, amount: tl.constexpr):  # type: ignore[no-untyped-def]
    return (word << amount) | (word >> (32 - amount))


def derive(seen: Tensor, keys: Tensor, found: Tensor) -> None:
    """Eight words of key from words that were seen, as `derive.eager` has it."""
    with torch.cuda.device_of(seen):
        _derive[(1,)](seen, seen.numel(), keys, found, LANES=512, num_warps=16)


@triton.jit(do_not_specialize=["count"])
def _derive(seen, count, keys, found, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    a, b, c, d = _none(LANES), _none(LANES), _none(LANES), _none(LANES)
    for start in range(0, count, 3 * LANES):
        place = start + 3 * tl.arange(0, LANES)
        first = tl.load(seen + place, mask=place < count, other=0)
        second = tl.load(seen + place + 1, mask=place + 1 < count, other=0)
        third = tl.load(seen + place + 2, mask=place + 2 < count, other=0)
        made = _stream(keys, _long(place // 3, first), second, third)
        here = place < count
        a, b = a ^ tl.where(here, made[0], 0), b ^ tl.where(here, made[1], 0)
        c, d = c ^ tl.where(here, made[2], 0), d ^ tl.where(here, made[3], 0)
    made = _stream(keys + 8, _long(tl.xor_sum(a, 0), tl.xor_sum(b, 0)), tl.xor_sum(c, 0), tl.xor_sum(d, 0))
    for word in tl.static_range(8):
        tl.store(found + word, made[word].to(tl.int32, bitcast=True))


@triton.jit
def _none(LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    return tl.zeros((LANES,), dtype=tl.uint32)


@triton.jit
def _long(low, high):  # type: ignore[no-untyped-def]
    return low.to(tl.uint32).to(tl.int64) | (high.to(tl.uint32).to(tl.int64) << 32)


def fingerprint(joined: Joined, keys: Tensor, found: Tensor) -> None:
    """Four words for each part, as `fingerprint.eager` has it: its keys, then all parts at once."""
    parts, count = joined.parts.shape[1], blocks(joined)
    made = torch.empty(16 * count, dtype=torch.int32, device=keys.device)
    with torch.cuda.device_of(keys):
        _words[(triton.cdiv(count, ROWS),)](keys, FIRST, count, made, ROWS=ROWS, num_warps=1)
        if parts:
            _fingerprint[(parts,)](
                joined.places, joined.parts, parts, made.view(torch.int64), found.view(torch.int64),
                LANES=joined.lanes, num_warps=8,
            )  # fmt: skip


@triton.jit(do_not_specialize=["first", "count"])
def _words(key, first, count, found, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Blocks of the stream from `first` on."""
    program = tl.program_id(0).to(tl.int64)
    block = program * ROWS + tl.arange(0, ROWS)
    made = _sixteen(_stream(key, first + block, program * 0, program * 0), ROWS)
    place = program * (16 * ROWS) + tl.arange(0, 16 * ROWS)
    tl.store(found + place, made.to(tl.int32, bitcast=True), mask=place < 16 * count)


@triton.jit(do_not_specialize=["count"])
def _fingerprint(places, parts, count, keys, found, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    part, lane = tl.program_id(0), tl.arange(0, LANES)
    length = tl.load(parts + 2 * count + part).to(tl.int32)
    array = tl.load(places + tl.load(parts + part)).to(tl.pointer_type(tl.int32)) + tl.load(parts + count + part)
    rows = keys + 4 * LANES
    a, b = tl.zeros((LANES,), dtype=tl.int64), tl.zeros((LANES,), dtype=tl.int64)
    for start in tl.range(0, length, LANES, loop_unroll_factor=4):
        word = tl.load(array + start + lane, mask=start + lane < length, other=0).to(tl.uint32, bitcast=True)
        a += word.to(tl.int64) * tl.load(rows)
        b += word.to(tl.int64) * tl.load(rows + 1)
        rows += 2
    tl.store(found + 2 * part, _columns(a, keys, lane, LANES))
    tl.store(found + 2 * part + 1, _columns(b, keys + 2 * LANES, lane, LANES))


@triton.jit
def _columns(sums, keys, lane, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    low, high = sums.to(tl.uint32).to(tl.int64), (sums >> 32).to(tl.uint32).to(tl.int64)
    return tl.sum(low * tl.load(keys + lane) + high * tl.load(keys + LANES + lane), 0)

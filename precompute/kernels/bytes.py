"""Kernels over runs of bytes: loads and stores at any place, a seeded hash, equality, a hash table from runs to ids."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from precompute.kernels import bare, inlined, kernel

_PRIME_A = np.uint64(0x9E3779B97F4A7C15)
_PRIME_B = np.uint64(0xD6E8FEB86659FD93)


def _loader(llvm_type: ir.Type, numba_type: Any) -> Any:
    """An intrinsic `load(buf u8[], at) -> value` that reads little-endian at any alignment, unchecked."""

    @intrinsic
    def load(typingctx: Any, buf: Any, at: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            proxy: Any = cgutils.create_struct_proxy
            array = proxy(signature.args[0])(context, builder, value=args[0])
            address = builder.gep(array.data, [args[1]])
            instruction = builder.load(builder.bitcast(address, ir.PointerType(llvm_type)))
            instruction.align = 1
            return instruction

        return numba_type(buf, types.intp), codegen

    return load


@intrinsic
def store_u64(typingctx: Any, buf: Any, at: Any, word: Any) -> Any:
    """`store_u64(buf u8[], at, word)` writes eight bytes, little-endian, at any alignment, unchecked."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        proxy: Any = cgutils.create_struct_proxy
        array = proxy(signature.args[0])(context, builder, value=args[0])
        address = builder.gep(array.data, [args[1]])
        instruction = builder.store(args[2], builder.bitcast(address, ir.PointerType(ir.IntType(64))))
        instruction.align = 1
        return context.get_dummy_value()

    return types.void(buf, types.intp, types.uint64), codegen


load_u64 = _loader(ir.IntType(64), types.uint64)
load_f64 = _loader(ir.DoubleType(), types.float64)


@inlined
def _mix(h, word):
    h = (h ^ word) * _PRIME_A
    return h ^ (h >> np.uint64(29))


@bare
def hash_run(buf, start, length, seed):
    """Seeded 64-bit hash of buf[start:start+length]; the same on every machine."""
    h = _mix(np.uint64(seed) + _PRIME_B, np.uint64(length))
    at = start
    end = start + length
    while at + 8 <= end:
        h = _mix(h, load_u64(buf, at))
        at += 8
    tail = np.uint64(0)
    shift = np.uint64(0)
    while at < end:
        tail |= np.uint64(buf[at]) << shift
        shift += np.uint64(8)
        at += 1
    h = _mix(h, tail)
    h = (h ^ (h >> np.uint64(32))) * _PRIME_B
    h = (h ^ (h >> np.uint64(32))) * _PRIME_B
    return h ^ (h >> np.uint64(32))


@kernel
def hash_runs(buf, start, length, seed):
    """Hashes uint64[n] of n runs of `buf`."""
    out = np.empty(len(start), np.uint64)
    for i in range(len(start)):
        out[i] = hash_run(buf, start[i], length[i], seed)
    return out


@bare
def same_run(a, a_start, b, b_start, length):
    """Whether two runs of `length` bytes are equal."""
    at = 0
    while at + 8 <= length:
        if load_u64(a, a_start + at) != load_u64(b, b_start + at):
            return False
        at += 8
    while at < length:
        if a[a_start + at] != b[b_start + at]:
            return False
        at += 1
    return True


@kernel
def find_runs(slots, known_runs, hashes, starts, lengths, arena, buf, start, length, seed):
    """Index of each run of `buf` among the known runs, -1 where it is none of them.

    Senders repeat their series in one order, so the run after the last one found is tried first.

    slots     int32[2^k], open addressing by the hash's low bits; -1 is free
    known_runs  how many runs the columns hold; a slot that names a later one is passed over (the table may
              grow while this runs)
    hashes    uint64[m], starts int64[m], lengths int32[m]: the known runs, which lie in `arena` u8[]
    start, length  int64[n]: the runs asked for
    """
    out = np.empty(len(start), np.int32)
    mask = np.uint64(len(slots) - 1)
    guess = -1
    for i in range(len(start)):
        guess += 1
        alike = 0 < guess < known_runs and lengths[guess] == length[i]
        if alike and same_run(arena, starts[guess], buf, start[i], length[i]):
            out[i] = guess
            continue
        h = hash_run(buf, start[i], length[i], seed)
        slot = h & mask
        out[i] = -1
        while slots[slot] >= 0:
            known = slots[slot]
            alike = known < known_runs and hashes[known] == h and lengths[known] == length[i]
            if alike and same_run(arena, starts[known], buf, start[i], length[i]):
                out[i] = known
                break
            slot = (slot + np.uint64(1)) & mask
        guess = out[i]
    return out


@bare
def place_runs(slots, hashes, first, count):
    """Put known runs `first` to `count - 1` into the table; there must be room."""
    mask = np.uint64(len(slots) - 1)
    for run in range(first, count):
        slot = hashes[run] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = run


@bare
def gather_runs(arena, starts, lengths, picks, out, out_starts):
    """Copy the picked runs of `arena` one after another into `out`, at `out_starts` int64[n]."""
    for i in range(len(picks)):
        run = picks[i]
        at = out_starts[i]
        for k in range(lengths[run]):
            out[at + k] = arena[starts[run] + k]


@kernel
def first_of_equal_runs(buf, start, length, seed):
    """For each of n runs of `buf` the index of the first run that equals it, int64[n]."""
    size = 16
    while size < 2 * len(start):
        size *= 2
    slots = np.full(size, -1, np.int64)
    mask = np.uint64(size - 1)
    out = np.empty(len(start), np.int64)
    for i in range(len(start)):
        slot = hash_run(buf, start[i], length[i], seed) & mask
        while slots[slot] >= 0:
            known = slots[slot]
            if length[known] == length[i] and same_run(buf, start[known], buf, start[i], length[i]):
                break
            slot = (slot + np.uint64(1)) & mask
        if slots[slot] < 0:
            slots[slot] = i
        out[i] = slots[slot]
    return out


@bare
def _field(buf, at, end, tag):
    """(length, start) of the field with this tag at `at`; its start is -1 where there is none that fits."""
    if at >= end or buf[at] != tag:
        return np.int64(0), np.int64(-1)
    size = np.int64(0)
    for shift in range(0, 35, 7):
        at += 1
        if at >= end:
            break
        size |= np.int64(buf[at] & 127) << shift
        if buf[at] < 128:
            return (size, at + 1) if at + 1 + size <= end else (size, np.int64(-1))
    return np.int64(0), np.int64(-1)


@kernel
def count_labels(buf, start, length):
    """How many labels each canonical run holds, int64[n]; -1 where the bytes are no such run."""
    out = np.zeros(len(start), np.int64)
    for i in range(len(start)):
        at = start[i]
        end = at + length[i]
        while at < end:
            size, at = _field(buf, at, end, 0x0A)
            if at < 0:
                break
            name, name_at = _field(buf, at, at + size, 0x0A)
            value, value_at = _field(buf, name_at + name, at + size, 0x12) if name_at >= 0 else (name, name_at)
            if value_at < 0 or value_at + value != at + size:
                at = np.int64(-1)
                break
            at += size
            out[i] += 1
        if at < 0:
            out[i] = -1
    return out


@kernel
def label_spans(buf, start, length, labels):
    """(starts, lengths) int64[2 * labels] of names and values in turn, of all labels of n canonical runs.

    labels: how many there are, by `count_labels`.
    """
    starts = np.empty(2 * labels, np.int64)
    lengths = np.empty(2 * labels, np.int64)
    k = 0
    for i in range(len(start)):
        at = start[i]
        end = at + length[i]
        while at < end:
            _, at = _field(buf, at, end, 0x0A)
            for tag in (0x0A, 0x12):
                size, at = _field(buf, at, end, tag)
                starts[k] = at
                lengths[k] = size
                at += size
                k += 1
    return starts, lengths

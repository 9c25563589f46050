"""Kernels over runs of bytes: unaligned loads, a seeded hash, equality, and a hash table from runs to ids."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

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


load_u64 = _loader(ir.IntType(64), types.uint64)
load_f64 = _loader(ir.DoubleType(), types.float64)


@njit(nogil=True, cache=True, inline="always")
def _mix(h, word):
    h = (h ^ word) * _PRIME_A
    return h ^ (h >> np.uint64(29))


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def hash_runs(buf, start, length, seed):
    """Hashes uint64[n] of n runs of `buf`."""
    out = np.empty(len(start), np.uint64)
    for i in range(len(start)):
        out[i] = hash_run(buf, start[i], length[i], seed)
    return out


@njit(nogil=True, cache=True)
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


@njit(nogil=True, cache=True)
def find_runs(slots, known_runs, hashes, starts, lengths, arena, buf, start, length, seed):
    """Index of each run of `buf` among the known runs, -1 where it is none of them.

    slots     int32[2^k], open addressing by the hash's low bits; -1 is free
    known_runs  how many runs the columns hold; a slot that names a later one is passed over (the table may
              grow while this runs)
    hashes    uint64[m], starts int64[m], lengths int32[m]: the known runs, which lie in `arena` u8[]
    start, length  int64[n]: the runs asked for
    """
    out = np.empty(len(start), np.int32)
    mask = np.uint64(len(slots) - 1)
    for i in range(len(start)):
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
    return out


@njit(nogil=True, cache=True)
def place_runs(slots, hashes, first, count):
    """Put known runs `first` to `count - 1` into the table; there must be room."""
    mask = np.uint64(len(slots) - 1)
    for run in range(first, count):
        slot = hashes[run] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = run


@njit(nogil=True, cache=True)
def gather_runs(arena, starts, lengths, picks, out, out_starts):
    """Copy the picked runs of `arena` one after another into `out`, at `out_starts` int64[n]."""
    for i in range(len(picks)):
        run = picks[i]
        at = out_starts[i]
        for k in range(lengths[run]):
            out[at + k] = arena[starts[run] + k]

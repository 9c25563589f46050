"""A Summary as bytes, and back.

An envelope (precompute/sketches/envelope.py) whose header holds the groups' keys and the accumulators' names and
versions. Bytes of another version, of the format or of an accumulator, are refused.
"""

from typing import Any

import numpy as np

from precompute.errors import BlobError
from precompute.sketches.base import Array
from precompute.sketches.bytes import check_state
from precompute.sketches.columns import check_offsets
from precompute.sketches.envelope import Envelope
from precompute.sketches.registry import accumulator
from precompute.summaries import GroupKey, Summary

ENVELOPE = Envelope(b"ASUM", 1, "a summary")
OWN = {"ends_ms": "<i8", "row_off": "<i8", "group": "<i4", "seen": "<i8", "plan": "<i8", "flags": "|u1"}


def to_bytes(summary: Summary) -> bytes:
    """The Summary, checked and compressed; the same Summary gives the same bytes."""
    versions = {name: accumulator(name).version for name in summary.states}
    return ENVELOPE.wrap({"keys": summary.keys, "accumulators": versions}, _columns(summary))


def from_bytes(blob: bytes) -> Summary:
    """The Summary that `to_bytes` was given. Raises BlobError for anything else."""
    header, columns = ENVELOPE.unwrap(blob)
    try:
        keys = tuple(_key(key) for key in header["keys"])
        versions = {str(name): int(version) for name, version in dict(header["accumulators"]).items()}
    except (KeyError, TypeError, ValueError) as e:
        raise BlobError("the header of a summary is not whole") from e
    own = {name: columns.pop(name, None) for name in OWN}
    if any(a is None or a.dtype.str != OWN[name] for name, a in own.items()):
        raise BlobError("a summary's columns are not those of its version")
    states = _states(columns, versions)
    summary = Summary(keys=keys, states=states, **own)  # type: ignore[arg-type]
    _check(summary)
    for name, version in versions.items():
        check_state(name, version, states[name], summary.rows)
    return summary


def _columns(summary: Summary) -> dict[str, Array]:
    columns: dict[str, Array] = {name: getattr(summary, name) for name in OWN}
    for name, state in summary.states.items():
        columns |= {f"{name}/{c.name}": state[c.name] for c in accumulator(name).columns}
    return columns


def _states(columns: dict[str, Array], names: dict[str, int]) -> dict[str, dict[str, Array]]:
    """The columns by accumulator and by name."""
    states: dict[str, dict[str, Array]] = {name: {} for name in names}
    for full, column in columns.items():
        name, _, own = full.rpartition("/")
        if name not in states:
            raise BlobError("a summary's columns are not those of its version")
        states[name][own] = column
    return states


def _key(key: list[Any]) -> GroupKey:
    if all(isinstance(part, str) for part in key):
        return tuple(key)
    return tuple((str(name), str(value)) for name, value in key)


def _check(summary: Summary) -> None:
    """Raise BlobError unless panes, rows and keys fit each other."""
    panes, rows = summary.panes, summary.rows
    if {len(summary.seen), len(summary.plan), len(summary.flags), len(summary.row_off) - 1} != {panes}:
        raise BlobError("a summary's panes do not fit each other")
    check_offsets(summary.row_off)
    if summary.row_off[-1] != rows or bool((np.diff(summary.ends_ms) <= 0).any()):
        raise BlobError("a summary's rows do not fit its panes")
    if rows and not 0 <= summary.group.min() <= summary.group.max() < len(summary.keys):
        raise BlobError("a summary's groups have no keys")

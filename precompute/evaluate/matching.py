"""Vector matching: which rows of two vectors belong together, by signature.

A row's signature is the values of the labels that `on` names, or of all labels but those that `ignoring` names and
the metric's name. Between vectors one side has at most one row of each signature at a step (the "one" side); with
group_right that is the left one.
"""

from dataclasses import dataclass

import numpy as np

from precompute.errors import ExecutionError
from precompute.evaluate.expr import Matching, plain_label, quoted
from precompute.evaluate.limits import Budget
from precompute.evaluate.values import Frame, Vector, common_symbols
from precompute.kernels import joins as kernel
from precompute.kernels.labels import group_rows
from precompute.labels import METRIC_NAME, Labels
from precompute.samples import I32, I64, Bool

_NOT_UNIQUE = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"


def signatures(matching: Matching, left: Vector, right: Vector) -> tuple[I32, I32, int]:
    """Numbers of the rows' signatures, int32[n] of each side, and how many there are."""
    names = signature_names(matching, {*left.frame.names, *right.frame.names})
    symbols = common_symbols((left.frame, right.frame))
    codes = np.concatenate((left.frame.spread(names, symbols), right.frame.spread(names, symbols)))
    signature, first = group_rows(np.ascontiguousarray(codes))
    return signature[: len(left)], signature[len(left) :], len(first)


def signature_names(matching: Matching, names: set[str]) -> list[str]:
    """The labels of a signature, of those that there are; sorted."""
    if matching.on:
        return sorted(names & set(matching.labels))
    return sorted(names - {METRIC_NAME, *matching.labels})


@dataclass(frozen=True)
class Sides:
    """The sides of a match, their rows' signatures, and how many signatures there are."""

    many: Vector
    one: Vector
    many_signature: I32
    one_signature: I32
    count: int

    def check(self, matching: Matching) -> None:
        """Raises ExecutionError where a signature is not unique on a side, at a step, that must have it once."""
        if _repeats(self.one_signature):
            live = np.ones(self.one.present.shape[1], np.bool_) if matching.fills else self.many.present.any(axis=0)
            a, b = kernel.first_clash(self.one_signature, self.one.present & live, self.count)
            if a >= 0:
                raise ExecutionError(_duplicates(matching, self.one.frame.labels(a), self.one.frame.labels(b)))
        if not matching.group and _repeats(self.many_signature):
            counted = self.many.present if matching.fill_right is not None else self.many.present & self.many_met()
            if kernel.clash(self.many_signature, counted, self.count):
                raise ExecutionError(_NOT_UNIQUE)

    def many_met(self) -> Bool:
        """At which steps each row of the many side has a partner, bool[n, s]."""
        one: Bool = kernel.there(self.one_signature, self.one.present, self.count)
        return one[self.many_signature]

    def one_met(self) -> Bool:
        """At which steps each row of the one side has a partner, bool[n, s]."""
        many: Bool = kernel.there(self.many_signature, self.many.present, self.count)
        return many[self.one_signature]

    def pairs(self, include: tuple[str, ...], budget: Budget) -> tuple[I64, Vector, I64]:
        """Rows of the many side, and the rows of the returned vector that each is paired with.

        That vector is the one side, rows made one that are equal in signature and in the labels to include.
        """
        partner, signature = self._partners(include)
        order = np.argsort(signature, kind="stable")
        firsts = np.searchsorted(signature[order], self.many_signature, "left")
        counts = np.searchsorted(signature[order], self.many_signature, "right") - firsts
        budget.cells(int(counts.sum()), self.many.present.shape[1])
        rows = np.repeat(np.arange(len(self.many)), counts)
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, partner, order[np.repeat(firsts, counts) + nth]

    def _partners(self, include: tuple[str, ...]) -> tuple[Vector, I32]:
        codes = self.one.frame.spread(include, self.one.frame.symbols)
        keys = np.concatenate((self.one_signature[:, None], codes), axis=1)
        key, first = group_rows(np.ascontiguousarray(keys))
        if len(first) == len(self.one):
            return self.one, self.one_signature
        values, present = kernel.merged(key, self.one.values, self.one.present, len(first))
        return Vector(self.one.frame.take(first), values, present, self.one.shard[first]), self.one_signature[first]


def _repeats(signature: I32) -> bool:
    return len(signature) > 0 and bool(np.bincount(signature).max() > 1)


def included(frame: Frame, include: tuple[str, ...], other: Frame, rows: I64) -> Frame:
    """The frame with the labels `include` as row `rows[i]` of the other frame has them."""
    if not include:
        return frame
    symbols = common_symbols((frame, other))
    names = tuple(sorted({*frame.names, *include}))
    codes = frame.spread(names, symbols)
    codes[:, [names.index(name) for name in include]] = other.spread(include, symbols)[rows]
    return Frame(names, codes, symbols)


def _duplicates(matching: Matching, a: Labels, b: Labels) -> str:
    side = "left" if matching.group == "right" else "right"
    wanted = signature_names(matching, {name for name, _ in a})
    group = labels_text(tuple((name, value) for name, value in a if name in wanted))
    first, second = sorted((labels_text(a), labels_text(b)))
    return (
        f"found duplicate series for the match group {group} on the {side} hand-side of the operation: "
        f"[{first}, {second}];many-to-many matching not allowed: matching labels must be unique on one side"
    )


def labels_text(labels: Labels) -> str:
    """A label set as Prometheus' messages have it."""
    return "{" + ", ".join(f"{plain_label(name)}={quoted(value)}" for name, value in labels) + "}"

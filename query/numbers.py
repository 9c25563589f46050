"""Floats as Go writes them."""

import math
from decimal import Decimal


def plain(value: float) -> str:
    """Without an exponent, shortest that reads back the same (strconv's format 'f')."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return f"{Decimal(repr(value)):f}".removesuffix(".0")


def general(value: float) -> str:
    """With an exponent below 1e-4 and from 1e6 on (fmt's %v)."""
    if not math.isfinite(value) or value == 0 or 1e-4 <= abs(value) < 1e6:
        return plain(value)
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    power = len(digits) - 1 + int(exponent)
    text = "".join(map(str, digits))
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{'-' if value < 0 else ''}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02}"

"""Numbers as Go writes and reads them, where labels and notes carry them."""

import math
import re
from decimal import Decimal

_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.ASCII | re.IGNORECASE
)
_HEX = re.compile(
    r"[+-]?0x_?(?:[0-9a-f][0-9a-f_]*(?:\.[0-9a-f_]*)?|\.[0-9a-f][0-9a-f_]*)p[+-]?[0-9]+", re.ASCII | re.IGNORECASE
)


def go_float(text: str) -> float | None:
    """What strconv.ParseFloat reads; None where it fails: too large a number, blanks, other digits than ASCII's."""
    if _FLOAT.fullmatch(text):
        value = float(text)
        return None if math.isinf(value) and "inf" not in text.lower() else value
    if len(text) < 1000 and _HEX.fullmatch(text) and "__" not in text:
        try:
            return float.fromhex(text.replace("_", ""))
        except (OverflowError, ValueError):
            return None
    return None


def go_g(value: float) -> str:
    """`%g`: the shortest digits, with an exponent below 1e-4 and from 1e+06 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(float(value))).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, first = "".join(map(str, digits)), len(digits) - 1 + exponent
    if value == 0:
        return "-0" if sign else "0"
    if -4 <= first < 6:
        return ("-" if sign else "") + f"{abs(Decimal(repr(float(value)))).normalize():f}"
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if first < 0 else '+'}{abs(first):02d}"


def go_f(value: float) -> str:
    """`%f`: six digits after the point."""
    return f"{value:f}" if math.isfinite(value) else go_g(value)


def open_metrics(value: float) -> str:
    """The same with `.0` behind a whole number, as OpenMetrics asks of `le` and `quantile`."""
    text = go_g(value)
    return text if not math.isfinite(value) or "e" in text or "." in text else text + ".0"

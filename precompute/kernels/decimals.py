"""Decimal texts as float64, correctly rounded.

Up to 19 digits w and a power of ten: the float nearest to w × 10^q. Small ones are exact in one operation
(Clinger, "How to read floating point numbers accurately", PLDI 1990); the others are multiplied by 128 bits of 5^q
(Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience 51(8), 2021, sections 5 to 8).
What these do not decide is told, and is for a slower reader.
"""

import numpy as np

from precompute.kernels import bare

VALUE, UNDECIDED, NO_NUMBER = 0, 1, 2
"""What `read_decimal` found: a value; a number that it cannot round surely, or one too large; something else."""

_LEAST, _MOST = -342, 308
"""Powers of ten of which the table has a power of five: below, every 64-bit number is 0, above, infinite."""


def _power_of_five(q: int) -> int:
    """The 128 leading bits of 5^q: cut off, but rounded up where a product with them can be exact and q is negative."""
    if q >= 0:
        power: int = 5**q
        return power << 128 - power.bit_length() if power.bit_length() <= 128 else power >> power.bit_length() - 128
    power = 5**-q
    return (1 << power.bit_length() + 127) // power + int(q >= -27)


_FIVES = [_power_of_five(q) for q in range(_LEAST, _MOST + 1)]
_HIGH = np.array([five >> 64 for five in _FIVES], np.uint64)
_LOW = np.array([five & (1 << 64) - 1 for five in _FIVES], np.uint64)
_TENS = np.array([10.0**k for k in range(23)])
_HALF, _ONE, _NINE = np.uint64(0xFFFFFFFF), np.uint64(1), np.uint64(9)


@bare
def _product(a, b):
    """(high, low) uint64 halves of a × b."""
    bits = np.uint64(32)
    a_low, a_high, b_low, b_high = a & _HALF, a >> bits, b & _HALF, b >> bits
    low, crossed, other = a_low * b_low, a_high * b_low, a_low * b_high
    middle = (low >> bits) + (crossed & _HALF) + (other & _HALF)
    high = a_high * b_high + (crossed >> bits) + (other >> bits) + (middle >> bits)
    return high, (middle << bits) | (low & _HALF)


@bare
def _leading_zeros(word):
    """Of a word that is not 0."""
    count = np.int64(0)
    for shift in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(64 - shift) == np.uint64(0):
            word <<= np.uint64(shift)
            count += shift
    return count


@bare
def _from_bits(bits, view_bits, view_value):
    view_bits[0] = bits
    return view_value[0]


@bare
def nearest(w, q, view_bits, view_value):
    """(what was found, w × 10^q rounded to even): w uint64, q int64.

    view_bits uint64[1], view_value float64[1]: one piece of memory, to work in.
    """
    if w == np.uint64(0):
        return VALUE, 0.0
    if w <= np.uint64(1 << 53) and -22 <= q <= 22:
        return VALUE, np.float64(w) * _TENS[q] if q >= 0 else np.float64(w) / _TENS[-q]
    if q < _LEAST:
        return VALUE, 0.0
    if q > _MOST:
        return UNDECIDED, 0.0
    zeros = _leading_zeros(w)
    w <<= np.uint64(zeros)
    high, low = _product(w, _HIGH[q - _LEAST])
    if high & np.uint64(0x1FF) == np.uint64(0x1FF):
        more, _ = _product(w, _LOW[q - _LEAST])
        low += more
        if low < more:
            high += _ONE
    if low == np.uint64(0xFFFFFFFFFFFFFFFF) and not -27 <= q <= 55:
        return UNDECIDED, 0.0
    return _rounded(high, low, q, zeros, view_bits, view_value)


@bare
def _rounded(high, low, q, zeros, view_bits, view_value):
    """The product's leading 54 bits, rounded to 53, with their exponent."""
    upper = high >> np.uint64(63)
    shift = upper + _NINE
    mantissa = high >> shift
    # floor(q × log2(10)), with the bias of float64
    exponent = ((np.int64(217706) * q) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if exponent <= 0:
        if exponent < -62:
            return VALUE, 0.0
        mantissa >>= np.uint64(1 - exponent)
        mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
        # one that rounds up to 2^52 has become a normal number, which these bits then are
        return VALUE, _from_bits(mantissa, view_bits, view_value)
    if low <= _ONE and -4 <= q <= 23 and mantissa & np.uint64(3) == _ONE and mantissa << shift == high:
        # exactly between two floats: to the even one
        mantissa &= ~_ONE
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    if mantissa >= np.uint64(1 << 53):
        mantissa = np.uint64(1 << 52)
        exponent += 1
    if exponent >= 0x7FF:
        return UNDECIDED, 0.0
    bits = (mantissa & np.uint64((1 << 52) - 1)) | (np.uint64(exponent) << np.uint64(52))
    return VALUE, _from_bits(bits, view_bits, view_value)


@bare
def _is_digit(char):
    return 48 <= char <= 57


@bare
def _word_at(text, at, end, first, second, third):
    """Whether text[at:end] is these three letters."""
    return end - at == 3 and text[at] == first and text[at + 1] == second and text[at + 2] == third


@bare
def read_decimal(text, at, end, view_bits, view_value):
    """(what was found, value) of text[at:end], uint8[]: `-1.5e-7`, `NaN`, `+Inf`; a sign may stand before all but NaN.

    As JSON's numbers, but zeros may lead and digits may lack on one side of the point. Views as in `nearest`.
    """
    negative = at < end and text[at] == 45
    if _word_at(text, at, end, 78, 97, 78):
        return VALUE, np.nan
    if at < end and (text[at] == 45 or text[at] == 43):
        at += 1
    if _word_at(text, at, end, 73, 110, 102):
        return VALUE, -np.inf if negative else np.inf
    w, q = np.uint64(0), np.int64(0)
    digits, kept, point, cut = 0, 0, False, False
    while at < end and (_is_digit(text[at]) or (text[at] == 46 and not point)):
        if text[at] == 46:
            point = True
        else:
            digits += 1
            digit = np.uint64(text[at] - 48)
            if kept < 19:
                w = w * np.uint64(10) + digit
                # zeros that lead take no room
                kept += kept > 0 or digit > np.uint64(0)
                q -= point
            else:
                cut = cut or digit > np.uint64(0)
                q += not point
        at += 1
    if digits == 0:
        return NO_NUMBER, 0.0
    power, at = _exponent(text, at, end)
    if at != end:
        return NO_NUMBER, 0.0
    found, value = nearest(w, q + power, view_bits, view_value)
    if cut and found == VALUE:
        found, next_value = nearest(w + _ONE, q + power, view_bits, view_value)
        if next_value != value:
            found = UNDECIDED
    return found, -value if negative else value


@bare
def _exponent(text, at, end):
    """The exponent that may stand at `at`, and where it ends; -1 where it has no digits."""
    if at >= end or (text[at] != 101 and text[at] != 69):
        return np.int64(0), at
    at += 1
    negative = at < end and text[at] == 45
    if at < end and (text[at] == 45 or text[at] == 43):
        at += 1
    power, first = np.int64(0), at
    while at < end and _is_digit(text[at]):
        # beyond, all is 0 or infinite
        power = min(power * 10 + (np.int64(text[at]) - 48), np.int64(1 << 40))
        at += 1
    return (-power if negative else power), at if at > first else np.int64(-1)

"""Elementary functions with the same bits on every machine, on float64 arrays.

The last bit of numpy's own depends on the processor's SIMD and on the C library. These are made of additions,
multiplications, divisions, square roots and powers of two alone, which IEEE 754 defines to the last bit. Errors are a
few units in the last place, of sine and cosine below 2**20 in absolute value; tests/host/test_exact.py has them.
"""

import math
from collections.abc import Callable

import numpy as np

Array = np.ndarray
BLOCK = 8192  # elements: what a function keeps between its steps stays in the cache

LN2_HIGH = float.fromhex("0x1.62e42feep-1")  # 33 bits, so that its products with exponents are exact
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
LN2 = math.log(2.0)
_SQRT_HALF_BITS = int(np.array(math.sqrt(0.5)).view(np.int64))
# Half of pi in three parts of 33 bits.
HALF_PI = (float.fromhex("0x1.921fb544p+0"), float.fromhex("0x1.0b4611a6p-34"), float.fromhex("0x1.3198a2e037073p-69"))

_EXP = [1.0 / math.factorial(n) for n in range(2, 14)]  # (e**r - 1 - r) / r**2
_LOG = [2.0 / n for n in range(3, 25, 2)]  # (log((1 + s) / (1 - s)) - 2 s) / s**3, in s**2
_SIN = [(-1.0) ** n / math.factorial(2 * n + 1) for n in range(1, 10)]  # (sin(r) - r) / r**3, in r**2
_COS = [(-1.0) ** n / math.factorial(2 * n) for n in range(1, 10)]  # (cos(r) - 1) / r**2, in r**2
_ATAN = [(-1.0) ** n / (2 * n + 1) for n in range(1, 12)]  # (atan(r) - r) / r**3, in r**2


def ceil_log2(x: float) -> int:
    """The smallest n with x <= 2**n, for finite x > 0: a logarithm might be a bit beside a whole number."""
    significand, exponent = math.frexp(x)
    return exponent - (significand == 0.5)


def floor_log2(x: float) -> int:
    """The largest n with 2**n <= x, for finite x > 0."""
    return math.frexp(x)[1] - 1


def _in_blocks(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The function on arrays of any shape, a block after the other, without warnings."""

    def whole(x: Array) -> Array:
        x = np.asarray(x, np.float64)
        with np.errstate(all="ignore"):
            if x.size <= BLOCK:
                return np.asarray(function(x.reshape(-1))).reshape(x.shape)
            flat, y = x.reshape(-1), np.empty(x.size)
            for k in range(0, x.size, BLOCK):
                y[k : k + BLOCK] = function(flat[k : k + BLOCK])
            return y.reshape(x.shape)

    whole.__doc__ = function.__doc__
    return whole


def _polynomial(x: Array, coefficients: list[float]) -> Array:
    """coefficients[0] + x * (coefficients[1] + ...)."""
    y = x * coefficients[-1]
    y += coefficients[-2]
    for c in coefficients[-3::-1]:
        y *= x
        y += c
    return y


def _power_of_two(n: Array) -> Array:
    """2.0**n for int64 n in -1022..1023, by its bits."""
    return ((n + 1023) << 52).view(np.float64)


def _exp_parts(x: Array) -> tuple[Array, Array]:
    """(n, e**r - 1) with x = n log(2) + r and |r| <= log(2) / 2, for finite x; NaN has n = 0."""
    n = np.rint(x * (1.0 / LN2))
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    rest = _polynomial(r, _EXP)
    rest *= r * r
    rest += r
    return np.nan_to_num(n, copy=False).astype(np.int64), rest


@_in_blocks
def exp(x: Array) -> Array:
    n, rest = _exp_parts(np.clip(x, -760.0, 720.0))
    half = n >> 1  # 2**n alone may be too large, or a denormal that rounds twice
    rest += 1.0
    rest *= _power_of_two(half)
    rest *= _power_of_two(n - half)
    return rest


@_in_blocks
def expm1(x: Array) -> Array:
    """e**x - 1."""
    n, rest = _exp_parts(np.clip(x, -60.0, 720.0))
    # 2**n (1 + rest - 2**-n), put together from the largest parts.
    half = n >> 1
    y = ((1.0 - _power_of_two(-np.minimum(n, 1000))) + rest) * _power_of_two(half) * _power_of_two(n - half)
    return np.where(x == 0, x, y)


@_in_blocks
def log(x: Array) -> Array:
    """Natural logarithm: -infinity of 0, NaN of what is negative."""
    good = (x > 0) & (x < np.inf)
    small = x < 2.0**-1000
    if small.any():
        y = log_of_normal(np.where(small, x * 2.0**100, x), np.where(small, 100, 0))
    else:
        y = log_of_normal(x)
    return y if good.all() else np.where(good, y, np.where(x == 0, -np.inf, np.where(x > 0, x, np.nan)))


def log_of_normal(x: Array, less: Array | int = 0) -> Array:
    """Logarithm of x / 2**less, as `log` gives it, for float64 numbers that are positive, finite and no denormals."""
    b = x.view(np.int64)
    # The significand in sqrt(1/2)..sqrt(2), and its exponent.
    exponent = b - _SQRT_HALF_BITS
    exponent >>= 52
    m = (b - (exponent << 52)).view(np.float64)
    e = (exponent - less).astype(np.float64)
    s = m - 1.0
    m += 1.0
    s /= m
    square = s * s
    rest = _polynomial(square, _LOG)
    square *= s
    rest *= square
    np.multiply(e, LN2_LOW, out=m)
    rest += m
    s *= 2.0
    rest += s
    e *= LN2_HIGH
    e += rest
    return e


def log1p(x: Array) -> Array:
    """log(1 + x)."""
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        u = 1.0 + x
        # What 1 + x rounds away, the quotient gives back (W. Kahan; HP-15C Advanced Functions Handbook, 1982).
        exact = (u == 1.0) | ~np.isfinite(u) | (u <= 0)
        y = log(u) * (x / np.where(exact, 1.0, u - 1.0))
        return np.where(u == 1.0, x, np.where(exact, log(u), y))


def sinh(x: Array) -> Array:
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        e = expm1(np.minimum(np.abs(x), 700.0))
        far = exp(np.abs(x) - LN2)
        return np.copysign(np.where(np.abs(x) < 700.0, 0.5 * (e + e / (e + 1.0)), far), x)


def cosh(x: Array) -> Array:
    x = np.abs(np.asarray(x, np.float64))
    with np.errstate(all="ignore"):
        e = exp(np.minimum(x, 700.0))
        return np.where(x < 700.0, 0.5 * (e + 1.0 / e), exp(x - LN2))


def tanh(x: Array) -> Array:
    x = np.asarray(x, np.float64)
    t = expm1(2.0 * np.minimum(np.abs(x), 30.0))
    return np.copysign(t / (t + 2.0), x)


def asinh(x: Array) -> Array:
    a = np.abs(np.asarray(x, np.float64))
    with np.errstate(all="ignore"):
        near = log1p(a + a * (a / (1.0 + np.sqrt(1.0 + a * a))))
        return np.copysign(np.where(a < 1e8, near, log(a) + LN2), x)


def acosh(x: Array) -> Array:
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        t = x - 1.0
        return np.where(x < 1.0, np.nan, np.where(x < 1e8, log1p(t + np.sqrt(t * (x + 1.0))), log(x) + LN2))


def atanh(x: Array) -> Array:
    a = np.abs(np.asarray(x, np.float64))
    with np.errstate(all="ignore"):
        return np.copysign(0.5 * log1p(2.0 * a / (1.0 - a)), x)


@_in_blocks
def atan(x: Array) -> Array:
    a = np.abs(x)
    inverse = a > 1.0
    r = np.where(inverse, 1.0 / a, a)
    for _ in range(2):  # half the angle, twice: at most tan(pi / 16) is left
        r = r / (1.0 + np.sqrt(1.0 + r * r))
    square = r * r
    y = 4.0 * (r + r * square * _polynomial(square, _ATAN))
    return np.copysign(np.where(inverse, (HALF_PI[0] - y) + HALF_PI[1], y), x)


def asin(x: Array) -> Array:
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        return atan(x / np.sqrt((1.0 - x) * (1.0 + x)))


def acos(x: Array) -> Array:
    x = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        return 2.0 * atan(np.sqrt((1.0 - x) / (1.0 + x)))


def _quarters(x: Array) -> tuple[Array, Array, Array]:
    """(which quarter of the circle, sine and cosine of what is left of the angle)."""
    x = np.where(np.isfinite(x), x, np.nan)
    n = np.rint(x * (0.5 / HALF_PI[0] * 2.0))
    r = x
    for part in HALF_PI:
        r = r - n * part
    square = r * r
    sine = r + r * square * _polynomial(square, _SIN)
    return np.mod(n, 4.0), sine, 1.0 + square * _polynomial(square, _COS)


def _turned(quarter: Array, sine: Array, cosine: Array) -> Array:
    y = np.where(np.mod(quarter, 2.0) == 0, sine, cosine)
    return np.where(np.mod(quarter, 4.0) >= 2, -y, y)


@_in_blocks
def sin(x: Array) -> Array:
    return _turned(*_quarters(x))


@_in_blocks
def cos(x: Array) -> Array:
    quarter, sine, cosine = _quarters(x)
    return _turned(quarter + 1.0, sine, cosine)


@_in_blocks
def tan(x: Array) -> Array:
    quarter, sine, cosine = _quarters(x)
    return _turned(quarter, sine, cosine) / _turned(quarter + 1.0, sine, cosine)


def _erf_rows() -> Array:
    """Taylor coefficients of the error function about 0, 1/8 ... 6: [terms, nodes]."""
    x = np.arange(49) / 8.0
    square, term = x * x, x.copy()
    total = x.copy()
    for n in range(1, 160):  # 2 / sqrt(pi) exp(-x**2) times the sum of 2**n x**(2n+1) / (1 * 3 * ... * (2n+1))
        term *= square * (2.0 / (2 * n + 1))
        total += term
    slope = 2.0 / math.sqrt(math.pi) * exp(-square)
    rows, before = [slope * total, slope], np.zeros_like(x)
    for n in range(1, 14):  # g = erf' has g' = -2 x g
        before, slope = slope, -2.0 * (x * slope + before) / n
        rows.append(slope / (n + 1))
    return np.stack(rows)


_ERF = _erf_rows()


@_in_blocks
def erf(x: Array) -> Array:
    a = np.minimum(np.abs(x), 6.0)
    node = np.rint(np.nan_to_num(a) * 8.0)
    h, k = a - node * 0.125, node.astype(np.int64)
    y = _ERF[-1][k]
    for row in _ERF[-2::-1]:
        y *= h
        y += row[k]
    return np.copysign(np.minimum(y, 1.0), x)


def power(x: Array, y: Array | float) -> Array:
    """x**y. Whole numbers below 1024 are multiplied out, halves are square roots: what is exact stays so."""
    x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
    with np.errstate(all="ignore"):
        whole = np.floor(np.where(np.abs(y) < 1024.0, y, 0.0))
        rest = y - whole
        result = _times(x, np.abs(whole))
        result = np.where(whole < 0, 1.0 / result, result)
        fraction = np.where(rest == 0.5, np.sqrt(x), exp(rest * log(x)))
        fraction = np.where(np.isnan(x), x, fraction)
        # 0 and infinity go by the sign of the whole exponent; so do whole ones too large to be multiplied out.
        fraction = np.where((x < 0) & (y == np.rint(y)), exp(rest * log(np.abs(x))) * _sign(y), fraction)
        edge = (x == 0) | np.isinf(x)
        by_sign = np.where(y == 0, 1.0, np.where((y > 0) == (x == 0), 0.0, np.inf))
        by_sign = np.where((np.signbit(x)) & (y == np.rint(y)) & (_sign(y) < 0), -by_sign, by_sign)
        y = np.where(np.isnan(y), y, np.where(edge, by_sign, np.where(rest == 0, result, result * fraction)))
        return np.where(x == 1.0, 1.0, y)


def _sign(y: Array) -> Array:
    """Sign of a negative number's power: -1 if the exponent is odd."""
    return np.where(np.mod(y, 2.0) == 1.0, -1.0, 1.0)


def _times(x: Array, n: Array) -> Array:
    """x**n for whole n in 0..1024."""
    result, square = np.ones_like(x), x.copy()
    for k in range(11):
        odd = np.mod(np.floor(n / 2.0**k), 2.0) == 1.0
        result = np.where(odd, result * square, result)
        square = square * square
    return result

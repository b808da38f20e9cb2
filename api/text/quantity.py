"""Converts Kubernetes quantities to integers and back: milli-units for CPU, whole units otherwise, rounded up.

Quantities are parsed once on input; internally, resources are ints. The grammar is Kubernetes': a decimal number with a binary
(Ki..Ei), decimal (n, u, m, k..E) or exponent suffix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from api.errors import InvalidQuantity

_FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([eE][+-]?\d+)|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?", re.ASCII)
_SCALE = {
    **{s: Fraction(10) ** e for s, e in zip("num", (-9, -6, -3), strict=True)},
    **{s: Fraction(1000) ** i for i, s in enumerate("kMGTPE", 1)},
    **{f"{s}i": Fraction(1024) ** i for i, s in enumerate("KMGTPE", 1)},
}
_ALLOWED = "must be a quantity such as 2, 500m, 1.5, 64Gi or 1e3"
# Far beyond any real amount; without these limits a few bytes of text would keep a process busy for hours.
_LONGEST = 64
_LARGEST_EXPONENT = 99
_BINARY = ("memory", "ephemeral-storage", "hugepages-")
LARGEST = 2**63 - 1
CPU = "cpu"
PODS = "pods"

Resources = dict[str, int]


@lru_cache(maxsize=65536)
def parse(text: str | int | float) -> Fraction:
    """Returns the exact value. Raises InvalidQuantity for malformed text."""
    given = str(text)
    match = _FORM.fullmatch(given) if len(given) <= _LONGEST else None
    if match is None:
        raise InvalidQuantity("quantity", text, _ALLOWED)
    sign, number, exponent, suffix = match.groups()
    if exponent and abs(int(exponent[1:])) > _LARGEST_EXPONENT:
        raise InvalidQuantity("quantity", text, _ALLOWED)
    value = Fraction(number)
    if exponent:
        value *= Fraction(10) ** int(exponent[1:])
    elif suffix:
        value *= _SCALE[suffix]
    return -value if sign == "-" else value


@lru_cache(maxsize=65536)
def to_milli(text: str | int | float) -> int:
    """Returns the amount in thousandths, rounded away from zero, as the API server stores it.

    Amounts beyond 64 bits are clamped to the largest 64-bit integer, as in Kubernetes. Raises InvalidQuantity.
    """
    value = parse(text) * 1000
    whole = min(LARGEST * 1000, -(-abs(value.numerator) // value.denominator))
    return whole if value >= 0 else -whole


def whole(resource: str, milli: int) -> int:
    """Returns thousandths as the internal integer: milli-units for cpu, whole units otherwise, rounded away from zero."""
    if resource == CPU:
        return max(-LARGEST, min(LARGEST, milli))
    return -(-milli // 1000) if milli >= 0 else milli // 1000


def to_int(resource: str, text: str | int | float) -> int:
    """Returns the amount as an integer: milli-units for cpu, whole units otherwise; fractions round away from zero.

    Amounts beyond 64 bits are clamped to the largest 64-bit integer, as in Kubernetes. Raises InvalidQuantity.
    """
    return whole(resource, to_milli(text))


def parse_milli(amounts: Mapping[str, str | int | float] | None, field: str = "resources") -> Resources:
    """Returns a ResourceList in thousandths. Raises InvalidQuantity with `field[resource]`."""
    out: Resources = {}
    for name, text in (amounts or {}).items():
        try:
            out[name] = to_milli(text)
        except InvalidQuantity as bad:
            raise InvalidQuantity(f"{field}[{name}]", bad.given, bad.allowed) from None
    return out


def parse_list(amounts: Mapping[str, str | int | float] | None, field: str = "resources") -> Resources:
    """Returns a ResourceList as integers. Raises InvalidQuantity with `field[resource]`."""
    return in_whole(parse_milli(amounts, field))


def in_whole(milli: Mapping[str, int]) -> Resources:
    """Returns a ResourceList of thousandths in the internal integers."""
    return {name: whole(name, amount) for name, amount in milli.items()}


def _scaled(value: int, base: int, suffixes: str, tail: str) -> str:
    step = 0
    while value and value % base == 0 and step < len(suffixes):
        value //= base
        step += 1
    return f"{value}{suffixes[step - 1] + tail if step else ''}"


def to_text(resource: str, amount: int) -> str:
    """Formats an integer amount as a canonical quantity: `1500m`, `2`, `64Gi`, `5k`."""
    if resource == CPU:
        if amount % 1000:
            return f"{amount}m"
        amount //= 1000
    elif resource.startswith(_BINARY) and abs(amount) >= 1024:
        return _scaled(amount, 1024, "KMGTPE", "i")
    return _scaled(amount, 1000, "kMGTPE", "")


def to_precise_text(resource: str, amount: float) -> str:
    """Formats an amount that may be a fraction (cpu in milli-units), with six digits or more: `1500m`, `8`, `12345678n`."""
    units = Fraction(amount) / (1000 if resource == CPU else 1)
    scaled = round(units * 10**9)
    suffixes = ["n", "u", "m", ""]
    while len(suffixes) > 1 and (scaled % 1000 == 0 or abs(scaled) >= 10**9):
        scaled = round(Fraction(scaled, 1000))
        suffixes.pop(0)
    return f"{scaled}{suffixes[0]}"


def to_texts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Formats integer amounts as a ResourceList."""
    return {name: to_text(name, amount) for name, amount in amounts.items()}

"""The list of all kernels. A kernel is one row (`base.Kernel`) in the file of its family."""

from collections.abc import Collection
from importlib import import_module

from mica.errors import MicaError
from mica.kernels.base import Kernel
from mica.kernels.custom import CUSTOM as CUSTOM

# The files of `firmware/mica/fallback`, which has those of plain int8 networks, have these names too.
_FAMILIES = """
conv dense pool elementwise softmax movement resize reduce norm recurrent tabular vectors audio pcen axes attention wide
"""
FAMILIES: dict[str, tuple[Kernel, ...]] = {
    name: import_module(f"{__name__}.{name}").KERNELS for name in _FAMILIES.split()
}
KERNELS = tuple(sorted((k for rows in FAMILIES.values() for k in rows), key=lambda k: k.id))

KERNEL_BY_NAME = {k.name: k for k in (*KERNELS, CUSTOM)}
KERNEL_BY_ID = {k.id: k for k in (*KERNELS, CUSTOM)}

# What else a firmware may leave out, by the same switch (toolchain/contents.py says which models need it):
# kernels/picture.c, binding/raw.c, vocabularies, strips, weights of 4 bits, kernels/learn.c and pdm.c,
# the ways of convolutions three wide (isa/armv6m/conv2d_paired.c and conv2d_winograd.c).
# Of depthwise convolutions: loops along a line, and c32's code beside the 3x3 loops of armv6m.
PICTURE, RAW, TOKENS, STRIPS, CODES4, LINES, WINDOWS, LEARN, PDM = (
    "picture",
    "raw",
    "tokens",
    "strips",
    "codes4",
    "lines",
    "windows",
    "learn",
    "pdm",
)
THREES = ("paired", "winograd")
PARTS = (*(k.name for k in KERNELS), PICTURE, RAW, TOKENS, STRIPS, CODES4, LINES, WINDOWS, LEARN, PDM, *THREES)


def left_out(kept: Collection[str] | None) -> tuple[str, ...]:
    """Return PARTS without those kept, none where that is None. Raises MicaError for one that is no part."""
    if unknown := sorted(set(kept or ()) - set(PARTS)):
        raise MicaError(f"{unknown[0]} is no kernel")
    return tuple(part for part in PARTS if kept is not None and part not in kept)


# Kernels whose output may lie exactly on an input of the same size. Everywhere else outputs and inputs share no byte.
IN_PLACE = tuple(k.name for k in KERNELS if k.in_place)

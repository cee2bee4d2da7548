"""The list of all kernels. A kernel is one row (`base.Kernel`) in the file of its family."""

from mica.kernels import (
    attention,
    audio,
    axes,
    conv,
    custom,
    dense,
    elementwise,
    movement,
    norm,
    pcen,
    pool,
    recurrent,
    reduce,
    resize,
    softmax,
    tabular,
    vectors,
    wide,
)
from mica.kernels.base import Kernel

# The files of `firmware/mica/fallback` have these names too.
FAMILIES: dict[str, tuple[Kernel, ...]] = {
    family.__name__.rpartition(".")[2]: family.KERNELS
    for family in (
        *(conv, dense, pool, elementwise, softmax, movement, resize, reduce, norm, recurrent, tabular, vectors),
        *(audio, pcen, axes, attention, wide),
    )
}
KERNELS = tuple(sorted((k for rows in FAMILIES.values() for k in rows), key=lambda k: k.id))
CUSTOM = custom.CUSTOM

KERNEL_BY_NAME = {k.name: k for k in (*KERNELS, CUSTOM)}
KERNEL_BY_ID = {k.id: k for k in (*KERNELS, CUSTOM)}

# What else a firmware may leave out, by the same switch (toolchain/contents.py says which models need it): kernels/picture.c,
# binding/raw.c, vocabularies, strips, weights of 4 bits, fast loops of depthwise convolutions that are not 3x3, kernels/learn.c and pdm.c.
PICTURE, RAW, TOKENS, STRIPS, CODES4, LINES, LEARN, PDM = (
    "picture",
    "raw",
    "tokens",
    "strips",
    "codes4",
    "lines",
    "learn",
    "pdm",
)
PARTS = (*(k.name for k in KERNELS), PICTURE, RAW, TOKENS, STRIPS, CODES4, LINES, LEARN, PDM)

# Kernels whose output may lie exactly on an input of the same size. Everywhere else outputs and inputs share no byte.
IN_PLACE = tuple(k.name for k in KERNELS if k.in_place)

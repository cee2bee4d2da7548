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

# What else a firmware may leave out, by the same switch: kernels/picture.c, which models with pictures need, and kernels/learn.c.
PICTURE = "picture"
LEARN = "learn"
PARTS = (*(k.name for k in KERNELS), PICTURE, LEARN)

# Kernels whose output may lie exactly on an input of the same size. Everywhere else outputs and inputs share no byte.
IN_PLACE = tuple(k.name for k in KERNELS if k.in_place)

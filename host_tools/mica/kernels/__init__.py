"""What a step of each kernel is: one row a kernel (`base.Kernel`), one file a family, and here the only list of them."""

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
    "conv": conv.KERNELS,
    "dense": dense.KERNELS,
    "pool": pool.KERNELS,
    "elementwise": elementwise.KERNELS,
    "softmax": softmax.KERNELS,
    "movement": movement.KERNELS,
    "resize": resize.KERNELS,
    "reduce": reduce.KERNELS,
    "norm": norm.KERNELS,
    "recurrent": recurrent.KERNELS,
    "tabular": tabular.KERNELS,
    "vectors": vectors.KERNELS,
    "audio": audio.KERNELS,
    "pcen": pcen.KERNELS,
    "axes": axes.KERNELS,
    "attention": attention.KERNELS,
    "wide": wide.KERNELS,
}
KERNELS = tuple(sorted((k for rows in FAMILIES.values() for k in rows), key=lambda k: k.id))
CUSTOM = custom.CUSTOM

KERNEL_BY_NAME = {k.name: k for k in (*KERNELS, CUSTOM)}
KERNEL_BY_ID = {k.id: k for k in (*KERNELS, CUSTOM)}

# What else a firmware may leave out, by the same switch: kernels/picture.c, which models with pictures need.
PICTURE = "picture"
PARTS = (*(k.name for k in KERNELS), PICTURE)

# Kernels whose output may lie exactly on an input of the same size. Everywhere else outputs and inputs share no byte.
IN_PLACE = tuple(k.name for k in KERNELS if k.in_place)

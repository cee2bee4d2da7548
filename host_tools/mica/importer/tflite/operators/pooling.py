"""Pools, NHWC here. The padding of an average pool does not count.

AVERAGE_POOL_2D(x), MAX_POOL_2D   =>   AveragePool(x) {ties_down}, MaxPool, activation
L2_POOL_2D(x)                     =>   Sqrt(AveragePool(x * x))

LiteRT takes the mean of the integers themselves, and rounds one half-way between two away from zero; mica has the mean of
integers less the zero point, and one way. `ties_down` is the way that is right for negative means: most of them, where zero
is at the low end, as behind a Relu.
"""

from mica.importer.tflite.net import TO_NCHW, TO_NHWC, Grid8, Net
from mica.importer.tflite.operators.convolution import window
from mica.importer.tflite.operators.form import Form, Op


def _pool(net: Net, op: Op) -> None:
    x = op.i(0)
    if net.tensor(x).data is not None:
        raise ValueError("its input is constant")
    kernel = (op.integer("filter_height"), op.integer("filter_width"))
    strides, _, pads = window(net, op, x, kernel)
    kind = "MaxPool" if op.kind == "MAX_POOL_2D" else "AveragePool"
    y = net.transpose(net.x(x), TO_NCHW)
    if op.kind == "L2_POOL_2D":
        y = net.node("Mul", [y, y])
    attrs: dict[str, object] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    grid = net.grids.get(x)
    if op.kind == "AVERAGE_POOL_2D" and grid is not None and grid == net.grid(op.y, like=x) and _mostly_negative(grid):
        attrs["ties_down"] = 1
    y = net.transpose(net.node(kind, [y], **attrs), TO_NHWC)
    if op.kind == "L2_POOL_2D":
        y = net.node("Sqrt", [y])
    net.done(op.y, net.activation(y, op["activation"]), like=x)


def _mostly_negative(grid: Grid8) -> bool:
    return grid.dtype == "int8" and grid.zero_point < -64


FORMS = {
    "AVERAGE_POOL_2D": Form(_pool, "Pool2DOptions"),
    "L2_POOL_2D": Form(_pool, "Pool2DOptions"),
    "MAX_POOL_2D": Form(_pool, "Pool2DOptions"),
}

"""Pools and pictures in another size, NHWC here. The padding of an average pool does not count.

AVERAGE_POOL_2D(x), MAX_POOL_2D   =>   AveragePool(x) {ties_down}, MaxPool, activation
L2_POOL_2D(x)                     =>   Sqrt(AveragePool(x * x))
RESIZE_BILINEAR(x, size), RESIZE_NEAREST_NEIGHBOR   =>   Resize, linear or nearest

LiteRT takes the mean of the integers themselves, and rounds one half-way between two away from zero; mica has the mean
of integers less the zero point, and one way. `ties_down` is the way that is right for negative means: most of them,
where zero is at the low end, as behind a Relu.
"""

from mica.importer.tflite.net import TO_NCHW, TO_NHWC, Net
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
    same = grid is not None and grid == net.grid(op.y, like=x)
    if op.kind == "AVERAGE_POOL_2D" and grid is not None and same and grid.dtype == "int8" and grid.zero_point < -64:
        attrs["ties_down"] = 1
    y = net.transpose(net.node(kind, [y], **attrs), TO_NHWC)
    if op.kind == "L2_POOL_2D":
        y = net.node("Sqrt", [y])
    net.done(op.y, net.activation(y, op["activation"]), like=x)


def _resize(net: Net, op: Op) -> None:
    xs, ys = net.shape(op.i(0)), net.shape(op.y)
    if len(xs) != 4 or len(ys) != 4 or xs[0] != ys[0] or xs[3] != ys[3] or min(ys) < 1:
        raise ValueError(f"from {list(xs)} to {list(ys)}")
    if net.data(op.i(1), "a size").reshape(-1).tolist() != list(ys[1:3]):
        raise ValueError("a size other than the output's")
    linear = op.kind == "RESIZE_BILINEAR"
    places = "align_corners" if op["align_corners"] else "half_pixel" if op["half_pixel_centers"] else "asymmetric"
    nearest = "floor" if places == "asymmetric" else "round_prefer_ceil"
    size = net.numbers([xs[0], xs[3], *ys[1:3]])
    y = net.node(
        "Resize",
        [net.transpose(net.x(op.i(0)), TO_NCHW), "", "", size],
        mode="linear" if linear else "nearest",
        coordinate_transformation_mode=places,
        nearest_mode=nearest,
    )
    net.done(op.y, net.transpose(y, TO_NHWC), like=op.i(0))


FORMS = {
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), Form(_pool, "Pool2DOptions")),
    "RESIZE_BILINEAR": Form(_resize, "ResizeBilinearOptions", (2, 2)),
    "RESIZE_NEAREST_NEIGHBOR": Form(_resize, "ResizeNearestNeighborOptions", (2, 2)),
}

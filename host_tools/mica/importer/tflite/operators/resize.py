"""Pictures in another size, NHWC here.

RESIZE_BILINEAR(x, size), RESIZE_NEAREST_NEIGHBOR   =>   Resize, linear or nearest
"""

from mica.importer.tflite.net import TO_NCHW, TO_NHWC, Net
from mica.importer.tflite.operators.form import Form, Op


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
    "RESIZE_BILINEAR": Form(_resize, "ResizeBilinearOptions", (2, 2)),
    "RESIZE_NEAREST_NEIGHBOR": Form(_resize, "ResizeNearestNeighborOptions", (2, 2)),
}

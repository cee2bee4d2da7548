"""Features of different size get scales of their own, where the samples show that one scale for all would lose some.

FullyConnected(x, w, b)    =>   FullyConnected(Features(x), w * half, b + w @ middle), Features(x) = (x - middle) / half

x: an input [1, F] that matrix products alone read, or what a Features makes of one, or an AxisFeatures of a window;
middle and half: of what the samples hold of each feature. Inputs on a grid that int8 holds (grey values, counts)
stay as they are.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from mica.ir.forest import Forest
from mica.ir.graph import Graph, Node
from mica.quantise.calibrate import Samples
from mica.quantise.ranges import grid
from mica.reference import axes

APART = 8.0  # features may be this many times narrower than the range of all before they get scales of their own
NARROW = 0.1  # this share of the features has to be so narrow: one that hardly changes in the samples is no reason
LEAST = 32  # samples, by which the range of a single feature can be told


def balance(g: Graph, samples: Samples, kept: Collection[str] = ()) -> Graph:
    """A core graph, changed where it loses features. kept: inputs that must not change (states)."""
    for name in g.inputs:
        v = g.value(name)
        row = v.quant is None and v.dtype == "float32" and len(v.shape) in (1, 2) and v.size == v.shape[-1] > 1
        if name in kept or not row:
            continue
        readers = g.consumers().get(name, [])
        if len(readers) == 1 and readers[0].op == "Features":
            _narrow(g, name, readers[0], samples)
        elif readers and name not in g.outputs and all(product(g, n) and n.inputs[0] == name for n in readers):
            _narrow(g, name, None, samples)
    for node in [n for n in g.nodes if n.op == "AxisFeatures"]:
        _narrow_axes(g, node, samples)
    return g


def _narrow_axes(g: Graph, made: Node, samples: Samples) -> None:
    """The features of a window, which Reshapes lay out."""
    y, n = made.outputs[0], made.attrs["front_end"].axes * made.attrs["front_end"].each
    readers = g.consumers().get(y, [])
    bound = g.value(y).quant is not None
    while len(readers) == 1 and readers[0].op == "Reshape" and y not in g.outputs:
        y = readers[0].outputs[0]
        readers, bound = g.consumers().get(y, []), bound or g.value(y).quant is not None
    products = all(product(g, r) and r.inputs[0] == y and g.value(r.inputs[1]).shape[-1] == n for r in readers)
    forests = all(r.op == "Trees" for r in readers) and g.value(y).shape[-1] == n
    if bound or y in g.outputs or not readers or not (products or forests):
        return
    front_end, name = made.attrs["front_end"], made.inputs[0]
    factor, shift = (np.asarray(g.data(i), np.float64) for i in made.inputs[1:])
    x = np.stack([axes.features(front_end, s[name]).reshape(-1) for s in samples]) * factor + shift
    low, high = x.min(axis=0), x.max(axis=0)
    middle, half = (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)
    if forests:
        for node in readers:
            node.attrs["forest"] = asking(node.attrs["forest"], middle, half)
    else:
        scaled(g, readers, middle, half)
    constants = {"factor": factor / half, "shift": (shift - middle) / half}
    made.inputs = [name, *(g.new_const(f"{y}.{what}", a) for what, a in constants.items())]


def asking(f: Forest, middle: np.ndarray, half: np.ndarray) -> Forest:
    """A forest of x as one of (x - middle) / half."""
    at = np.maximum(f.column, 0)
    return replace(f, threshold=np.where(f.column >= 0, (f.threshold - middle[at]) / half[at], f.threshold))


def scaled(g: Graph, readers: Sequence[Node], middle: np.ndarray, half: np.ndarray) -> None:
    """Products of x become those of (x - middle) / half; of each channel,
    where a DepthwiseConv2d has one weight for each."""
    for node in readers:
        w, b = (np.asarray(g.data(i), np.float64) for i in node.inputs[1:])
        middle, half = (a if w.ndim == 2 else a.reshape(w.shape) for a in (middle, half))
        more = [math.fsum(row.reshape(-1)) for row in w * middle]
        made = ((w * half).astype(np.float32), (b + more).astype(np.float32))
        node.inputs[1:] = [g.new_const(f"{i}.balanced", a) for i, a in zip(node.inputs[1:], made, strict=True)]


def product(g: Graph, n: Node) -> bool:
    """Return True for a product of real weights."""
    return n.op == "FullyConnected" and all(g.is_const(i) for i in n.inputs[1:]) and "weight_steps" not in n.attrs


def _narrow(g: Graph, name: str, features: Node | None, samples: Samples) -> None:
    x = np.stack([np.asarray(s[name], np.float64).reshape(-1) for s in samples])
    factor, shift, missing = np.ones(x.shape[1]), np.zeros(x.shape[1]), np.full(x.shape[1], np.nan)
    y = name
    if features is not None:
        factor, shift, missing = (np.asarray(g.data(i), np.float64) for i in features.inputs[1:])
        y = features.outputs[0]
        x = np.where(np.isnan(x), missing, x * factor + shift)
    elif len(x) < LEAST or not np.isfinite(x).all() or grid(s[name] for s in samples) is not None:
        return
    readers = g.consumers().get(y, [])
    if y in g.outputs or not readers or not all(product(g, n) and n.inputs[0] == y for n in readers):
        return
    low, high = x.min(axis=0), x.max(axis=0)
    wide = max(float(high.max()), 0.0) - min(float(low.min()), 0.0)
    some = high > low
    if not some.any() or wide <= APART * float(np.quantile((high - low)[some], NARROW)):
        return
    middle, half = (low + high) / 2, np.where(some, (high - low) / 2, 1.0)
    scaled(g, readers, middle, half)
    constants = {"factor": factor / half, "shift": (shift - middle) / half, "missing": (missing - middle) / half}
    if features is None:
        y = g.new_value(f"{name}.features", g.value(name).shape)
        features = Node("Features", y, [name], [y])
        g.nodes.insert(0, features)
        for node in readers:
            node.inputs[0] = y
    features.inputs = [name, *(g.new_const(f"{y}.{what}", a) for what, a in constants.items())]

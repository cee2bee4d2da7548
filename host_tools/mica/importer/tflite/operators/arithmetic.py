"""Functions of several tensors, element by element; shapes broadcast as numpy's.

ADD, SUB, MUL, DIV (x, y)     =>   the same, activation
SQUARED_DIFFERENCE(x, y)      =>   d = Sub(x, y); Mul(d, d), d rounded to the range that x and y allow
FLOOR_DIV, FLOOR_MOD (x, y)   =>   q = Floor(Div(x, y)); Sub(x, Mul(q, y)); of integers r = Mod(x, y); Div(Sub(x, r), y)
NOT_EQUAL(x, y)               =>   Not(Equal(x, y))
"""

from mica.importer.tflite import schema
from mica.importer.tflite.net import Grid8, Net
from mica.importer.tflite.operators.form import Form, Op

OPERATORS = {name.upper(): name for name in ("Add", "Div", "Equal", "Greater", "Less", "Mul", "Pow", "PRelu", "Sub")}
OPERATORS |= {"ADD_N": "Sum", "GREATER_EQUAL": "GreaterOrEqual", "LESS_EQUAL": "LessOrEqual", "LOGICAL_AND": "And"}
OPERATORS |= {"LOGICAL_OR": "Or", "MAXIMUM": "Max", "MINIMUM": "Min", "SELECT": "Where", "SELECT_V2": "Where"}


def _several(net: Net, op: Op) -> None:
    y = net.node(OPERATORS[op.kind], [net.x(i) for i in op.inputs])
    code = op.options.get("activation", 0)
    positive = schema.ACTIVATIONS.get(int(code), "") in ("RELU", "RELU6")
    net.done(op.y, net.activation(y, code), positive=positive)


def _squared_difference(net: Net, op: Op) -> None:
    a, b = (net.x(i) for i in op.inputs)
    d = net.rounded(net.node("Sub", [a, b]), _difference(net, op))
    net.done(op.y, net.node("Mul", [d, d]), positive=True)


def _difference(net: Net, op: Op) -> Grid8 | None:
    grids = [net.grid(i) for i in op.inputs]
    if None in grids:
        return None
    a, b = (g for g in grids if g is not None)
    low, high = min(a.low - b.high, 0.0), max(a.high - b.low, 0.0)
    if net.wide:
        return Grid8(max(-low, high) / 32767, 0, "int16")
    scale = (high - low) / 255
    return Grid8(scale, round(-128 - low / scale))


def _floor_division(net: Net, op: Op) -> None:
    a, b = (net.x(i) for i in op.inputs)
    if net.tensor(op.y).dtype in ("int32", "int64"):
        y = net.node("Mod", [a, b])
        y = y if op.kind == "FLOOR_MOD" else net.node("Div", [net.node("Sub", [a, y]), b])
        net.done(op.y, y)
        return
    y = net.node("Floor", [net.node("Div", [a, b])])
    if op.kind == "FLOOR_MOD":
        y = net.node("Sub", [a, net.node("Mul", [y, b])])
    net.done(op.y, y)


def _not_equal(net: Net, op: Op) -> None:
    net.done(op.y, net.node("Not", [net.node("Equal", [net.x(i) for i in op.inputs])]))


FORMS = {
    **{name: Form(_several, "", (2, 2)) for name in OPERATORS},
    **{name: Form(_several, f"{OPERATORS[name]}Options", (2, 2)) for name in ("ADD", "DIV", "MUL", "SUB")},
    "ADD_N": Form(_several, "", (1, 64)),
    "FLOOR_DIV": Form(_floor_division, "", (2, 2)),
    "FLOOR_MOD": Form(_floor_division, "", (2, 2)),
    "NOT_EQUAL": Form(_not_equal, "", (2, 2)),
    "SELECT": Form(_several, "", (3, 3)),
    "SELECT_V2": Form(_several, "", (3, 3)),
    "SQUARED_DIFFERENCE": Form(_squared_difference, "", (2, 2)),
}

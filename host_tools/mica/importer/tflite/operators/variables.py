"""Variables, which streaming models keep earlier inputs in; each is a state that lives from run to run, 0 at first.

VAR_HANDLE names a variable, READ_VARIABLE and ASSIGN_VARIABLE move its tensor   =>   no node: the state,
        or what was assigned
CALL_ONCE runs a graph that gives variables their first tensors                  =>   nothing, where these are 0
"""

import numpy as np

from mica.importer.tflite import schema
from mica.importer.tflite.flatbuffer import Table
from mica.importer.tflite.model import Tensor
from mica.importer.tflite.net import Net, Variable
from mica.importer.tflite.operators.form import Form, Op
from mica.printable import printable


def _name(options: Table | None) -> str:
    """Handles of one name are handles of one variable."""
    parts = [] if options is None else [options.text(slot) for slot in schema.VAR_HANDLE.values()]
    return "/".join(part for part in parts if part)


def _call_once(net: Net, op: Op) -> None:
    for graph in net.model.once:
        names: dict[int, str] = {}
        for each in graph.operators:
            if each.kind == "VAR_HANDLE" and each.outputs:
                names[each.outputs[0]] = _name(each.options)
            elif each.kind == "ASSIGN_VARIABLE" and len(each.inputs) == 2 and each.inputs[0] in names:
                _begin(names[each.inputs[0]], graph.tensors[each.inputs[1]])
            else:
                raise ValueError(f"{printable(each.kind)} in the graph that it runs; mica's states begin at 0")


def _begin(name: str, t: Tensor) -> None:
    """Raises ValueError where a variable does not begin with zeros."""
    zero = 0 if t.grid is None else t.grid.zero_point
    if t.data is None or np.any(t.data != zero):
        what = "computed" if t.data is None else "not 0"
        raise ValueError(f"the first value of the variable '{printable(name)}' is {what}; mica's states begin at 0")


def _handle(net: Net, op: Op) -> None:
    net.handles[op.y] = _name(op.operator.options)


def _variable(net: Net, op: Op, tensor: int) -> Variable:
    """The variable of an operator's handle, with the shape and type of `tensor`."""
    if op.i(0) not in net.handles:
        raise ValueError("a handle that no VAR_HANDLE makes")
    name, t = net.handles[op.i(0)], net.tensor(tensor)
    grid = net.grid(tensor)
    found = net.variables.setdefault(name, Variable(t.shape, t.dtype, grid))
    if (found.shape, found.dtype, found.grid) != (t.shape, t.dtype, grid):
        raise ValueError(
            f"the variable '{printable(name)}' is {found.dtype} {list(found.shape)} and {t.dtype} {list(t.shape)}, "
            "or has two scales"
        )
    return found


def _read(net: Net, op: Op) -> None:
    variable = _variable(net, op, op.y)
    if not variable.now:
        variable.now, variable.behind = net.add_state(net.name(op.y), variable.shape, variable.grid)
    net.real[op.y] = variable.now
    net.shapes[variable.now] = variable.shape
    if variable.grid is not None:
        net.grids[op.y] = variable.grid


def _assign(net: Net, op: Op) -> None:
    _variable(net, op, op.i(1)).now = net.x(op.i(1))


FORMS = {
    "ASSIGN_VARIABLE": Form(_assign, "", (2, 2), (0, 0)),
    "CALL_ONCE": Form(_call_once, "", (0, 0), (0, 0)),
    "READ_VARIABLE": Form(_read),
    "VAR_HANDLE": Form(_handle, "", (0, 0)),
}

"""Facts of a packed model for the report page, one dictionary: `mica report --json` prints it, the page shows it."""

from collections.abc import Mapping, Sequence
from typing import Any

from mica.boards import BoardSpec, load_board
from mica.cost.prediction import Prediction, predict
from mica.cost.table import Table
from mica.file.codec import ModelFile, TensorRecord
from mica.printable import attributes
from mica.report import arena_chart, front_end

BOARDS = (
    "RPI_PICO",
    "RPI_PICO2",
    "ESP32_GENERIC_C3",
)  # where none is named: one of each instruction set that mica is fast on


def facts(model: ModelFile, data: bytes, boards: Sequence[str] = BOARDS) -> dict[str, Any]:
    """Return those of the file `data`, decoded as `model`. boards: whose costs are predicted. Raises MicaError for
    one that is not known.

    Keys: name, size, version, arena_bytes, scratch_want, scratch_min, state_bytes, macs, weight_bytes, inputs,
    outputs (name, shape, dtype, scale, zero_point), layers (name, kernel, inputs (`_made_by`), output, macs,
    weight_bytes, live_bytes), peak_step, front_end (`front_end.facts`), strips ([first layer, layers, calls]),
    boards (`_costs`), metadata.
    """
    chart = arena_chart.chart(model)
    tensors = model.tensors
    made_by = _made_by(model)
    return {
        "name": model.metadata.get("name", "model"),
        "size": len(data),
        "version": ".".join(str(v) for v in model.version),
        **attributes(model, "arena_bytes scratch_want scratch_min state_bytes"),
        "macs": sum(s.macs for s in model.steps),
        "weight_bytes": sum(b.nbytes for s in model.steps for b in s.blobs.values()),
        "inputs": [_tensor(tensors[i]) for i in model.inputs],
        "outputs": [_tensor(tensors[i]) for i in model.outputs],
        "layers": [
            {
                **attributes(s, "name kernel"),
                "inputs": made_by[k],
                "output": _tensor(tensors[s.outputs[0]]),
                "macs": s.macs,
                "weight_bytes": sum(b.nbytes for b in s.blobs.values()),
                "live_bytes": chart.in_use(k),
            }
            for k, s in enumerate(model.steps)
        ],
        "peak_step": chart.steps[chart.peak] if chart.steps else None,
        "front_end": front_end.facts(model),
        "strips": [[s.first, s.steps, len(s.calls)] for s in model.strips],
        "boards": [_costs(predict(model, data, board, Table.read()), board) for board in map(load_board, boards)],
        "metadata": dict(model.metadata),
    }


def _made_by(model: ModelFile) -> list[list[str]]:
    """For each step the names of the tensors it reads, by the name under which their bytes were made: what only changes
    a shape is no step, and gives bytes another name."""
    made = [model.tensors[i] for i in model.inputs]
    found = []
    for s in model.steps:
        names = []
        for i in s.inputs:
            t = model.tensors[i]
            held = [m for m in made if m.space == t.space and m.offset <= t.offset < m.offset + m.bytes]
            names.append(t.name if t in made or not held else held[-1].name)
        found.append(names)
        made += [model.tensors[i] for i in s.outputs]
    return found


def _tensor(t: TensorRecord) -> dict[str, Any]:
    return {"name": t.name, "shape": list(t.dims), **attributes(t, "dtype scale zero_point")}


def _costs(p: Prediction, board: BoardSpec) -> dict[str, Any]:
    """board, core, fits, reasons, unit, total, milliseconds, and flash_milliseconds of them (None where nothing was
    measured), layers: cost of each or None."""
    time: Mapping[str, Any] = p.time or {}
    return {
        **attributes(p, "board fits reasons"),
        "core": board.core,
        **{key: time.get(key) for key in ("unit", "total", "milliseconds", "flash_milliseconds")},
        "layers": [layer["cost"] for layer in p.layers],
    }

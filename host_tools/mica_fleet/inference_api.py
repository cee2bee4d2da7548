"""Open Inference Protocol v2 over HTTP, without the HTTP: a request's body to samples' bytes, and answers to a body.

    {"id": "1", "inputs": [{"name": "x", "shape": [2, 8, 8, 1], "datatype": "FP32", "data": [...]}],
    "outputs": [{"name": "y"}]}

An input comes as FP32, which is quantised here as a board would, or in the integers of its tensor (INT8 mostly). Where
all come in integers the answers are integers too: the tensors' own bytes. A model whose first dimension is 1 takes any
number of samples in it. The binary extension is Triton's: tensors' bytes behind the JSON, whose length the header
Inference-Header-Content-Length tells.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mica.errors import MicaError
from mica.file.codec import DTYPE_NUMPY, ModelFile, TensorRecord
from mica.format import output_groups
from mica.format.values import quantise_input
from mica_fleet import request_json
from mica_fleet.links import joined, split

LENGTH = "Inference-Header-Content-Length"
MOST_SAMPLES = 1024  # of one request
_NUMBER = 24  # bytes of a number in JSON
_LARGEST = 12 << 20  # bytes of numbers in a body, or in an answer
_DATATYPES = {"int8": "INT8", "uint8": "UINT8", "int16": "INT16", "int32": "INT32", "float32": "FP32"}


class ApiError(Exception):
    """An error that a client gets: an HTTP status, and one line."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def _wrong(text: str) -> ApiError:
    return ApiError(400, text)


@dataclass(frozen=True)
class Call:
    """One request. `samples`: the inputs of each, as they lie in the tensors.
    `binary`: the outputs that are to be in binary; None in `outputs`: all that there are."""

    samples: list[bytes]
    raw: bool
    batched: bool
    id: str | None = None
    outputs: list[str] | None = None
    binary: dict[str, bool] = field(default_factory=dict)
    binary_default: bool = False


def takes_batches(model: ModelFile) -> bool:
    tensors = [model.tensors[t] for t in [*model.inputs, *model.outputs]]
    return all(len(t.dims) > 1 and t.dims[0] == 1 for t in tensors) and all(
        j.shape[:1] == (1,) for j in output_groups.read(model)
    )


def output_bytes(model: ModelFile) -> int:
    """Count the bytes of a sample's answer in JSON, at most."""
    return _NUMBER * sum(math.prod(model.tensors[t].dims) for t in model.outputs)


def _input_bytes(model: ModelFile) -> int:
    return _NUMBER * sum(math.prod(model.tensors[t].dims) for t in model.inputs)


def most_samples(model: ModelFile) -> int:
    """Return how many samples one request may have."""
    if not takes_batches(model):
        return 1
    return max(1, min(MOST_SAMPLES, _LARGEST // max(_input_bytes(model), output_bytes(model))))


def largest_body(model: ModelFile) -> int:
    """Bytes of a request that this model can need."""
    return most_samples(model) * _input_bytes(model) + request_json.AROUND


def metadata(name: str, model: ModelFile) -> dict[str, Any]:
    """Answer to GET /v2/models/NAME. `parameters` hold each tensor's scale and zero point."""
    batched = takes_batches(model)

    def shape(dims: Sequence[int]) -> list[int]:
        return [-1, *dims[1:]] if batched else list(dims)

    def own(t: TensorRecord) -> dict[str, Any]:
        return {"datatype": _DATATYPES[t.dtype], "scale": float(t.scale), "zero_point": int(t.zero_point)}

    tensors = [model.tensors[t] for t in model.inputs]
    inputs = [{"name": t.name, "datatype": "FP32", "shape": shape(t.dims), "parameters": own(t)} for t in tensors]
    outputs = [{"name": j.name, "datatype": "FP32", "shape": shape(j.shape)} for j in output_groups.read(model)]
    return {"name": name, "versions": ["1"], "platform": "mica", "inputs": inputs, "outputs": outputs}


def parse(model: ModelFile, body: bytes | bytearray, length: str | None) -> Call:
    """`length`: the header LENGTH, where there is one. Raises ApiError."""
    request, arrays, at = _request(body, length)
    given: dict[str, np.ndarray] = {}
    raw = True
    by_name = {model.tensors[t].name: model.tensors[t] for t in model.inputs}
    most = most_samples(model)
    for entry in request["inputs"]:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise _wrong("an input has no name")
        name = entry["name"]
        tensor = by_name.get(name)
        if tensor is None or name in given:
            raise _wrong(
                f"input {name[:64]!r} is {'there twice' if name in given else 'none of ' + ', '.join(by_name)}"
            )
        n = _samples(entry.get("shape"), tensor, most)
        datatype, own = entry.get("datatype"), _DATATYPES[tensor.dtype]
        if datatype not in ("FP32", own):
            raise _wrong(f"input {name!r}: datatype {str(datatype)[:20]!r}; expected FP32 or {own}")
        dtype = np.dtype("<f4" if datatype == "FP32" else DTYPE_NUMPY[tensor.dtype])
        count = n * math.prod(tensor.dims)
        size = _parameter(entry, "binary_data_size")
        if size is not None:
            if type(size) is not int or size != count * dtype.itemsize or at + size > len(body):
                raise _wrong(f"input {name!r}: binary_data_size is {str(size)[:20]}, which is not that of its shape")
            values = np.frombuffer(
                body, dtype, count, at
            ).copy()  # a view of a bytearray would keep it from being cleared
            at += size
        else:
            values = _numbers(arrays.get(str(entry.get("data"))), name, count, dtype)
        if not np.isfinite(values).all():
            raise _wrong(f"input {name!r}: a number is not finite")
        values = values.reshape(n, *tensor.dims)
        if datatype == "FP32":
            raw = raw and own == "FP32"
            values = np.stack([quantise_input(v, tensor) for v in values])
        given[name] = values
    if len(given) != len(by_name):
        raise _wrong(f"inputs are missing: {', '.join(sorted(set(by_name) - set(given)))}")
    if at != len(body):
        raise _wrong(f"{len(body) - at} bytes of the body belong to no input")
    counts = {len(v) for v in given.values()}
    if len(counts) != 1:
        raise _wrong("the inputs have different numbers of samples")
    samples = [joined([given[name][i] for name in by_name]) for i in range(counts.pop())]
    raw = raw and any(t.dtype != "float32" for t in by_name.values())
    return _with_outputs(model, request, samples, raw, takes_batches(model))


def _request(
    body: bytes | bytearray, length: str | None
) -> tuple[dict[str, Any], Mapping[str, request_json.Numbers], int]:
    """The request, the numbers of its inputs by their places in it, and where its JSON ends."""
    end = len(body)
    if length is not None:
        if not length.isascii() or not length.isdigit() or len(length) > 12 or int(length) > len(body):
            raise _wrong(f"{LENGTH} is {length[:20]!r}, of a body of {len(body)} bytes")
        end = int(length)
    try:
        request, arrays = request_json.read(body, end)
    except request_json.TooMuch as e:
        raise _wrong(str(e)) from None
    except (ValueError, RecursionError):
        raise _wrong("the body is no JSON") from None
    if not isinstance(request, dict) or not isinstance(request.get("inputs"), list):
        raise _wrong('the body has no list "inputs"')
    return request, arrays, end


def _samples(shape: Any, tensor: TensorRecord, most: int) -> int:
    dims = list(tensor.dims)
    if isinstance(shape, list) and all(type(d) is int for d in shape):
        if shape == dims:
            return 1
        if most > 1 and shape[1:] == dims[1:] and 1 <= shape[0] <= most:
            return int(shape[0])
    expected = f"[1 to {most}, {', '.join(map(str, dims[1:]))}]" if most > 1 else str(dims)
    raise _wrong(f"input {tensor.name!r}: shape {str(shape)[:64]}; expected {expected}")


def _numbers(data: request_json.Numbers | None, name: str, n: int, dtype: np.dtype) -> np.ndarray:
    try:
        if data is None:
            raise ValueError
        values = data.read(n)
    except ValueError:
        raise _wrong(f"input {name!r}: data is not {n} numbers") from None
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return values.astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    if not ((values >= low) & (values <= high) & (values == np.rint(values))).all():
        raise _wrong(f"input {name!r}: data are not whole numbers from {low} to {high}")
    return values.astype(dtype)


def _parameter(entry: Mapping[str, Any], key: str) -> Any:
    parameters = entry.get("parameters")
    return parameters.get(key) if isinstance(parameters, dict) else None


def _with_outputs(model: ModelFile, request: Mapping[str, Any], samples: list[bytes], raw: bool, batched: bool) -> Call:
    names = _output_names(model, raw)
    request_id = request.get("id")
    if request_id is not None and not isinstance(request_id, str):
        raise _wrong("the id is no text")
    desired = request.get("outputs")
    if desired is not None and not (
        isinstance(desired, list) and desired and all(isinstance(o, dict) and o.get("name") in names for o in desired)
    ):
        raise _wrong(f"outputs: expected of {', '.join(names)}")
    if desired is not None and len({o["name"] for o in desired}) != len(desired):
        raise _wrong("outputs: one is there twice")
    default = _parameter(request, "binary_data_output") is True
    outputs = [o["name"] for o in desired] if desired is not None else None
    binary = {
        o["name"]: _parameter(o, "binary_data") is True
        for o in desired or ()
        if _parameter(o, "binary_data") is not None
    }
    return Call(samples, raw, batched, request_id, outputs, binary, default)


def _output_names(model: ModelFile, raw: bool) -> list[str]:
    return [model.tensors[t].name for t in model.outputs] if raw else [j.name for j in output_groups.read(model)]


def answer(name: str, model: ModelFile, call: Call, answers: Sequence[bytes]) -> tuple[bytes, dict[str, str]]:
    """Body and headers. `answers`: of each sample, the outputs as they lie in the tensors."""
    results = [split(model, model.outputs, data) for data in answers]
    if call.raw:
        arrays = {model.tensors[t].name: [r[i] for r in results] for i, t in enumerate(model.outputs)}
    else:
        arrays = {j.name: [output_groups.joined(model, j, r) for r in results] for j in output_groups.read(model)}
    described: list[str] = []
    tail: list[bytes] = []
    for key in call.outputs if call.outputs is not None else arrays:
        values = np.concatenate(arrays[key]) if call.batched else arrays[key][0]
        values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        datatype = _DATATYPES[values.dtype.name]
        entry: dict[str, Any] = {"name": key, "shape": list(values.shape), "datatype": datatype}
        if call.binary.get(key, call.binary_default):
            entry["parameters"] = {"binary_data_size": values.nbytes}
            tail.append(values.tobytes())
            described.append(json.dumps(entry))
        else:
            described.append(f'{json.dumps(entry)[:-1]}, "data": [{_text(values)}]}}')
    said = {"model_name": name, "model_version": "1"} | ({"id": call.id} if call.id is not None else {})
    head = f'{json.dumps(said)[:-1]}, "outputs": [{", ".join(described)}]}}'.encode()
    if not tail:
        return head, {"Content-Type": "application/json"}
    return b"".join([head, *tail]), {"Content-Type": "application/octet-stream", LENGTH: str(len(head))}


def _text(values: np.ndarray) -> str:
    """Numbers in JSON. Some thousand at once: other threads have their turn between them."""
    flat = values.reshape(-1)
    return ", ".join(json.dumps(flat[i : i + 4096].tolist())[1:-1] for i in range(0, flat.size, 4096))


def check(model: ModelFile, name: str) -> None:
    """Raises MicaError where a model cannot be served."""
    if model.state_bytes:
        raise MicaError(f"{name}: a model with state goes on from sample to sample", todo="run it on one board")

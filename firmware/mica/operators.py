"""Steps that run in MicroPython: in place of kernels that this firmware lacks, or at the user's wish.

    mica.register("conv2d", f)   # from now on f(inputs, outputs, attributes) computes every conv2d of models loaded
                                 after

`inputs` and `outputs` are tuples of Tensor; `attributes` is a dict: the parameters of the step by name,
its constants by name as memoryviews of the file, and "layout", how the weights lie (host_tools/mica/format/SPEC.md).
An operator of the user's own, which `mica pack --custom` has put into a file, is registered by its name,
and has the attributes that its ONNX node has:

    def cube(inputs, outputs, attributes):
        gain = attributes.get("gain", 1.0)
        outputs[0].store([gain * v**3 for v in inputs[0].load()])

    mica.register("Cube", cube)

    step = operators.Step(m, 3)                        # what a step's record says; m is a _mica.Model
    m.replace(3, operators.fallback(step))             # a function without arguments that computes it
"""

from mica.fields import KERNELS

_CUSTOM = "custom_s8"
_CODES4 = 3


class Tensor:
    """A tensor of a step: `data` is a memoryview of its elements where they lie, real = scale * (q - zero_point)."""

    def __init__(self, model: _mica.Model, index: int, writable: bool) -> None:
        t = model.tensor(index)
        self.name: str = t.name
        self.dtype: str = t.dtype
        self.shape: tuple[int, ...] = t.shape
        self.scale: float = t.scale
        self.zero_point: int = t.zero_point
        self.data: memoryview = model.tensor_view(index, writable)
        self._place = model, index

    def load(self) -> list[float]:
        """Return the elements as a list of real numbers."""
        model, index = self._place
        return model.load(index)

    def store(self, values: Any) -> None:
        """Quantise real numbers into the tensor: as a model's inputs are, so the host gives the same integers."""
        model, index = self._place
        model.store(index, values)


class Codes:
    """Rows of 4-bit codes, to be read like rows of int8 weights: of each four weights the first byte has 0 and 2."""

    def __init__(self, table: memoryview, pairs: memoryview) -> None:
        self._table = table
        self._pairs = pairs  # behind the table

    def __getitem__(self, i: int) -> int:
        pair = self._pairs[16 + (i >> 2) * 2 + (i & 1)]
        return self._table[pair >> 4 if i & 2 else pair & 15]


class Step:
    """A step as its record has it: x, y (Tensors), params (by name), constants.
    Nothing of it is checked but tensors."""

    def __init__(self, model: _mica.Model, index: int) -> None:
        s = model.step_info(index)
        self._model = model
        self.index = index
        self.name: str = s.name
        self.kernel: str = s.kernel
        self.layout: int = s.layout
        self.x: tuple[Tensor, ...] = tuple(Tensor(model, t, False) for t in s.inputs)
        self.y: Tensor = Tensor(model, s.outputs[0], True)
        begin = KERNELS.find("\n" + s.kernel + " ") + 1
        words = KERNELS[begin : KERNELS.find("\n", begin)].split()
        bar = words.index("|")
        self._constants = words[2:bar]
        self._layouts = int(words[1])  # a bit for each that the kernel reads
        params = model.step_params(index)
        self.params: dict[str, int] = {name: params[i] for i, name in enumerate(words[bar + 1 :])}

    def want(self, sound: bool, text: str) -> None:
        """Raise ValueError with `text` unless `sound`: the file is wrong."""
        if not sound:
            raise ValueError(f"step {self.index} ({self.name}): {self.kernel}: {text}; pack the model again")

    def within(self, name: str, low: int, high: int) -> int:
        """Return the parameter `name`, which has to be in [low, high]."""
        v = self.params[name]
        self.want(low <= v <= high, f"{name} is {v}, not {low} to {high}")
        return v

    def clamp(self) -> tuple[int, int]:
        """Return (act_min, act_max)."""
        low = self.within("act_min", -128, 127)
        return low, self.within("act_max", low, 127)

    def constants(self) -> Iterator[tuple[str, memoryview]]:
        """Yield (name, memoryview) of all constants, as long as they are."""
        for i, word in enumerate(self._constants):
            name, typecode = word.split(":")
            yield name, self._model.step_constant(self.index, i, typecode)

    def constant(self, name: str, n: int, typecode: str | None = None) -> memoryview:
        """Return the constant `name`, a memoryview that has to have n elements."""
        for i, word in enumerate(self._constants):
            if word.startswith(name + ":"):
                view = self._model.step_constant(self.index, i, typecode or word[-1])
                self.want(len(view) == n, f"{name} has {len(view)} elements, not {n}")
                return view
        raise KeyError(name)

    def weights(self, n: int, k: int, typecode: str = "b") -> tuple[Any, int]:
        """Return (w, row): weight i of row o of n rows of k weights is w[o * row + i]."""
        self.check_layout()
        if self.layout == _CODES4:
            row = (k + 7) & -8
            pairs = self.constant("weights", 16 + n * row // 2, "B")
            return Codes(self.constant("weights", len(pairs), "b")[:16], pairs), row
        row = (k + 3) & -4 if self.layout else k
        return self.constant("weights", n * row, typecode), row

    def check_layout(self) -> None:
        """Raise ValueError unless the kernel reads weights that lie so."""
        self.want(self._layouts >> self.layout & 1, f"weight layout {self.layout}")

    def same_shape(self) -> None:
        self.want(self.x[0].shape == self.y.shape, "input and output differ in shape")

    def same_scale(self, x: Tensor | None = None) -> None:
        x = x or self.x[0]
        y = self.y
        self.want(x.scale == y.scale and x.zero_point == y.zero_point, "input and output differ in scale or zero point")


# The kernels of each module of mica.fallback.
# gen:homes (written by scripts/gen_format.py: the files of host_tools/mica/kernels)
_HOMES = (
    "conv conv2d_s8 depthwise_conv2d_s8 conv_transpose2d_s8",
    "dense fully_connected_s8 matmul_s8",
    "pool max_pool2d_s8 average_pool2d_s8",
    "elementwise add_s8 mul_s8 minmax_s8 div_s8 lut_s8",
    "softmax softmax_s8 log_softmax_s8",
    "movement transpose_s8 move_s8 concat_s8 pad_s8 gather_s8 embedding_s8 scatter_s8 pick_s8",
    "resize resize_linear_s8",
    "reduce reduce_s8 argmax_s8 top_k_s8",
    "norm layer_norm_s8 norm_s8",
)
# end


def fallback(step: Step) -> Callable[[], None]:
    """Return a function without arguments that computes `step` with the same integers as the kernel.

    Raises ValueError where the step's parameters or constants are wrong, or this firmware has no fallback for it.
    """
    if step.kernel == _CUSTOM:
        op = _definition(step)["op"]
        raise ValueError(
            f"step {step.index} ({step.name}): {op} is an operator of your own: mica.register('{op}', f) comes "
            "before the model"
        )
    step.check_layout()
    for line in _HOMES:
        words = line.split()
        if step.kernel in words[1:]:
            try:
                module = __import__("mica.fallback." + words[0], None, None, (words[0],))
            except ImportError:
                break
            return getattr(module, step.kernel)(step)
    raise ValueError(
        f"step {step.index} ({step.name}): this firmware has no {step.kernel} in MicroPython; mica build --for MODEL"
        " has its kernel in C"
    )


def _definition(step):
    """Return {"op": name, "attributes": {...}} of a custom step."""
    import json

    try:
        found = json.loads(bytes(dict(step.constants())["definition"]))
        found["op"].split, found["attributes"].get  # a str and a dict
    except (ValueError, TypeError, KeyError, AttributeError):
        step.want(False, "its definition is none")
    return found


def _user(f, step):
    attributes = dict(step.params)
    attributes.update(step.constants())
    attributes["layout"] = step.layout
    if step.kernel == _CUSTOM:
        attributes = _definition(step)["attributes"]
    outputs = (step.y,)
    return lambda: f(step.x, outputs, attributes)


def attach(
    model: _mica.Model, functions: Mapping[str, Function | None], python: bool | Collection[str], strict: bool
) -> None:
    """Replace steps by Python: `functions` by operator, and fallbacks for missing kernels and those in `python`."""
    missing_kernels = model.missing_kernels
    for i in range(model.info.n_steps):
        kernel = model.step_info(i).kernel
        op = kernel[:-3] if kernel.endswith("_s8") else kernel
        step = None
        if kernel == _CUSTOM:
            step = Step(model, i)
            op = _definition(step)["op"]
        f = functions.get(op) or functions.get(kernel)
        strip = model.in_strip(i)
        if f is None and i not in missing_kernels and not _chosen(python, op, kernel):
            continue
        step = step or Step(model, i)
        if f is None and strict and i in missing_kernels:
            raise ValueError(
                f"step {i} ({step.name}): kernel {kernel} is not in this firmware, and strict=True rules out"
                " its fallback"
            )
        if strip:
            from mica.strips import fallback as by_rows

            make = fallback if f is None else lambda piece, f=f: _user(f, piece)
            model.replace(i, by_rows(Step, make, model, i))
        else:
            model.replace(i, fallback(step) if f is None else _user(f, step))


def _chosen(python, op, kernel):
    return python is True or (python and (op in python or kernel in python))

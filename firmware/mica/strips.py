"""Models with strips (`mica pack --ram`), layer by layer: a strip is one step of a run,
and makes some rows of each layer in turn.

Imported only for such models. What watches layers sees calls: some rows of one layer.
Layer.output() is then the rows that the call makes, Layer.input(i) those that it reads.
"""

from binascii import crc32


def calls(m: _mica.Model, step: Any, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, int, int]]:
    """Yield (layer, at, rows) for each call of a strip between two of its rows; the caller runs step(at, at + rows)."""
    end = step.rows if end is None else end
    while begin < end:
        call = m.call(step.first, begin)
        if not call:
            raise ValueError(f"row {begin} of the strip: its rows run from 0 on, one behind the other")
        rows = min(call & 0xFFFF, end - begin)
        yield call >> 16, begin, rows
        begin += rows


def made(m: _mica.Model, t: int, writable: bool = False) -> memoryview:
    """Return the rows of tensor t that the call at work makes, a memoryview."""
    first, begin, end = m.rows(t)
    row = _row(m.tensor(t))
    return m.tensor_view(t, writable)[(begin - first) * row : (end - first) * row]


def _row(tensor):
    """Elements of a row."""
    n = 1
    for d in tensor.shape[2:]:
        n *= d
    return n


def read(m: _mica.Model, t: int, y: int, params: Mapping[str, int]) -> tuple[memoryview, int]:
    """Return (rows of tensor t that the call making rows of tensor y reads, rows of padding above them).

    params: of the step, by name.
    """
    about = m.tensor(t)
    shape = about.shape
    _, begin, end = m.rows(y)
    low, high = begin, end
    image = len(shape) == 4 and shape[0] == 1
    if "kernel_h" in params:
        low = begin * params["stride_h"] - params["pad_top"]
        high = (end - 1) * params["stride_h"] - params["pad_top"] + (params["kernel_h"] - 1) * params["dilation_h"] + 1
    elif not image or shape[1] != m.tensor(y).shape[1]:
        return m.tensor_view(t), 0  # the same for all rows
    above = max(0, -low)
    low += above
    high = min(high, shape[1])
    first = m.rows(t)[0]
    row = _row(about)
    return m.tensor_view(t)[(low - first) * row : (high - first) * row], above


def layers(
    m: _mica.Model, steps: Sequence[Any], feed: Callable[[], object] | None = None
) -> Iterator[tuple[int, int | None, memoryview | None]]:
    """Run all steps. At each piece, yield (layer, its CRC-32, a memoryview of its new output or None).

    The CRC-32 is None until the layer is whole, and goes over all its rows.
    """
    for step in steps:
        n = getattr(step, "strip", 0)
        first = step.first
        if not n:
            step()
            view = m.tensor_view(m.step_info(first).outputs[0])
            yield first, crc32(view) & 0xFFFFFFFF, view
        else:
            ids = [m.step_info(first + i).outputs[0] for i in range(n)]
            crcs = [0] * n
            for layer, at, rows in calls(m, step):
                step(at, at + rows)
                view = made(m, ids[layer - first])
                crcs[layer - first] = crc32(view, crcs[layer - first])
                yield layer, None, view
                if feed:
                    feed()
            for i in range(n):
                yield first + i, crcs[i] & 0xFFFFFFFF, None
        if feed:
            feed()


class Hooked:
    """A strip with a hook on one of its layers: before and after are called at each of its calls,
    and around does its rows."""

    def __init__(self, step: Any, layer: Layer, hook: Hook, model: _mica.Model) -> None:
        self._step = step
        self._layer = layer
        self._before = hook._before
        self._after = hook._after
        self._around = hook._around
        self._model = model
        self.rows: int = step.rows
        self.first: int = step.first
        self.strip: int = step.strip

    def __call__(self, begin: int = 0, end: int | None = None) -> None:
        m = self._model
        last = self._layer
        for index, at, rows in calls(m, self, begin, end):
            if index != last.index:
                self._step(at, at + rows)
                continue
            if self._before is not None:
                self._before(last)
            if self._around is None:
                self._step(at, at + rows)
            else:
                self._rows_around(m, at, rows)
            if self._after is not None:
                self._after(last)

    def _rows_around(self, m, at, rows):
        """The hook's function does these rows, by the step that it is given or otherwise."""
        left = [True]

        def step():
            left[0] = False
            self._step(at, at + rows)

        self._around(self._layer, step)
        if left[0]:
            m.ran(rows)
            if at + rows == self.rows and self._layer.last:
                m.finish()


def fallback(
    step_of: Callable[[_mica.Model, int], Any],
    make: Callable[[Any], Callable[[], None]],
    model: _mica.Model,
    index: int,
) -> Callable[[], None]:
    """Return a function without arguments that makes the rows of the call at work: make(step)()
    of a picture of these rows.

    step_of: operators.Step.
    """

    def run():
        step = step_of(model, index)
        y = step.y
        ids = model.step_info(index)
        pad = 0
        for i, x in enumerate(step.x):
            view, above = read(model, ids.inputs[i], ids.outputs[0], step.params)
            _cut(x, view)
            if i == 0:
                pad = above
        _cut(y, made(model, ids.outputs[0], True))
        if "pad_top" in step.params:
            step.params["pad_top"] = pad
        make(step)()

    return run


def _cut(tensor, view):
    """Make a Tensor one of the rows in `view`."""
    shape = tensor.shape
    row = 1
    for d in shape[2:]:
        row *= d
    if len(shape) == 4 and shape[0] == 1:
        tensor.shape = (1, len(view) // row) + shape[2:]
    tensor.data = view

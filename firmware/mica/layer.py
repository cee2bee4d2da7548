"""One layer of a model, as hooks, profiles and self-tests hand it to people."""


class Layer:
    """One step of a model: name in the ONNX file, kernel (also called op), shapes, MACs, bytes of its outputs,
    "C" or "Python"."""

    def __init__(self, model: _mica.Model, index: int) -> None:
        s = model.step_info(index)
        inputs = [model.tensor(t) for t in s.inputs]
        outputs = [model.tensor(t) for t in s.outputs]
        self.index = index
        self.name: str = s.name
        self.kernel: str = s.kernel
        self.op: str = s.kernel
        self.input_shape: tuple[tuple[int, ...], ...] = tuple(t.shape for t in inputs)
        self.output_shape: tuple[tuple[int, ...], ...] = tuple(t.shape for t in outputs)
        self.macs: int = s.macs
        self.bytes: int = sum(t.nbytes for t in outputs)
        self.runs_in: str = s.runs_in
        self._m = model
        self._ids = s.inputs, s.outputs
        self._strip = model.in_strip(index)

    @property
    def rows(self) -> tuple[int, int] | None:
        """Rows (begin, end) of a layer in a strip that are computed now, or were last; None for any other layer."""
        return self._m.rows(self._ids[1][0])[1:] if self._strip else None

    def input(self, i: int = 0) -> memoryview:
        """Return the present content of input i, a read-only memoryview: right before the layer runs, its input."""
        if self._strip:
            from mica.operators import Step
            from mica.strips import read

            return read(self._m, self._ids[0][i], self._ids[1][0], Step(self._m, self.index).params)[0]
        return self._m.tensor_view(self._ids[0][i])

    def output(self, i: int = 0) -> memoryview:
        """Return what output i holds at this moment, a memoryview; right after the layer has run it is what it wrote.

        Of a layer in a strip (`mica pack --ram`) input and output are the rows that are being made, or were last.
        """
        if self._strip:
            from mica.strips import made

            return made(self._m, self._ids[1][i], True)
        return self._m.tensor_view(self._ids[1][i], True)

    def __repr__(self):
        arrow = f"{shapes(self.input_shape)} -> {shapes(self.output_shape)}"
        work = f"{self.macs} MACs  {self.bytes} B  {self.runs_in}"
        return f"{self.index:3d}  {self.kernel:20s} {self.name:24s} {arrow}  {work}"


def shapes(dims: Sequence[Sequence[int]]) -> str:
    """Shapes as people read them: "1x8x8x16 1x10"."""
    return " ".join(_shape(s) for s in dims)


def _shape(dims):
    return "x".join(str(d) for d in dims) or "1"

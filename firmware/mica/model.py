"""mica.Model: a .mica file as an object.

    m = mica.Model("/rom/digits.mica")  # or any buffer
    m.predict([x])                      # -> [[0.0, 0.99609, ...]]: one flat list of floats for each output

Attribute names are those of OpenMV's and Espressif's firmwares; as there, `input_shape` and its like are tuples with
one entry for each tensor, also when there is only one: `m.input_shape[0]`. A dtype is the letter that `array` and
`memoryview` use, "b" for int8.

Numbers: real = scale * (q - zero_point). Floats are quantised as by ONNX QuantizeLinear, in float32: divide by the
scale, round half to even, add the zero point, saturate. The host does the same, so both see the same int8 input.
"""

import _mica


def _open(path):
    try:
        return open(path, "rb")  # noqa: SIM115 - the caller's to close
    except OSError:
        if "/" in path:
            raise
    try:
        return open("/rom/" + path, "rb")  # noqa: SIM115
    except OSError as e:
        raise OSError(e.errno, path + ": neither here nor in /rom")


def _read(path):
    """Return the bytes of a file: in a ROMFS the flash itself, elsewhere a block that is never moved nor copied."""
    with _open(path) as f:
        try:
            return memoryview(f)
        except TypeError:
            pass
        size = f.seek(0, 2)
        f.seek(0)
        if size == 0:
            return b""
        # Reading without a size would grow a buffer step by step, and need half as much RAM again.
        block = _mica.Arena(size)
        rest = memoryview(block)
        while rest:
            n = f.readinto(rest)
            if not n:
                raise OSError(f"{path}: ends too early")
            rest = rest[n:]
        return block


class Layer:
    """One step of a model: name in the ONNX file, op, shapes, MACs, bytes of its outputs, "C" or "Python"."""

    def __init__(self, model, index):
        s = model.step_info(index)
        inputs = [model.tensor(t) for t in s.inputs]
        outputs = [model.tensor(t) for t in s.outputs]
        self.index = index
        self.name = s.name
        self.op = s.kernel
        self.input_shape = tuple(t.shape for t in inputs)
        self.output_shape = tuple(t.shape for t in outputs)
        self.macs = s.macs
        self.bytes = sum(t.nbytes for t in outputs)
        self.runs_in = "C"

    def __repr__(self):
        shapes = f"{_shapes(self.input_shape)} -> {_shapes(self.output_shape)}"
        return (
            f"{self.index:3d}  {self.op:20s} {self.name:24s} {shapes}  {self.macs} MACs  {self.bytes} B  {self.runs_in}"
        )


def _shapes(shapes):
    return " ".join(_shape(s) for s in shapes)


def _shape(dims):
    return "x".join(str(d) for d in dims) or "1"


class Model:
    """A loaded model. `source` is a path, or an object with the buffer protocol.

    A file name without a folder is looked for in the current folder, then in /rom.

    Bytes, files in a ROMFS and `mica.Arena` blocks are read where they are, if their address is a multiple of 16; all
    else is copied once (`copied` says so). `arena` is where the activations live: by default the board's static arena,
    or, if that is too small, a block from the heap; a `mica.Arena(n)` can be shared by models that run in turn, and
    a bytearray or array serves too. Outputs live until the next run of any model in the same arena.
    """

    def __init__(self, source, arena=None):
        self._labels = None
        self._m = _mica.load(_read(source) if isinstance(source, str) else source, arena)
        # One callable a layer, what every run calls in turn: the engine's own, until a hook or a fallback takes a place.
        self._steps = self._m.steps

    def _io(self, ids, field):
        return tuple(getattr(self._m.tensor(i), field) for i in ids)

    @property
    def name(self):
        return self._m.meta("name") or ""

    @property
    def labels(self):
        """Class names, or an empty list."""
        if self._labels is None:
            text = self._m.meta("labels")
            self._labels = text.split("\n") if text else []
        return self._labels

    @property
    def len(self):
        """Bytes of the file."""
        return self._m.info.file_bytes

    @property
    def ram(self):
        """Bytes of RAM: activations, scratch, state, the engine's tables, and the file unless it is read in flash."""
        return self._m.ram

    @property
    def copied(self):
        return self._m.copied

    @property
    def arena(self):
        return self._m.arena

    @property
    def input_shape(self):
        return self._io(self._m.inputs, "shape")

    @property
    def input_dtype(self):
        return self._io(self._m.inputs, "dtype")

    @property
    def input_scale(self):
        return self._io(self._m.inputs, "scale")

    @property
    def input_zero_point(self):
        return self._io(self._m.inputs, "zero_point")

    @property
    def output_shape(self):
        return self._io(self._m.outputs, "shape")

    @property
    def output_dtype(self):
        return self._io(self._m.outputs, "dtype")

    @property
    def output_scale(self):
        return self._io(self._m.outputs, "scale")

    @property
    def output_zero_point(self):
        return self._io(self._m.outputs, "zero_point")

    @property
    def layers(self):
        return [Layer(self._m, i) for i in range(self._m.info.n_steps)]

    def input(self, i=0):
        """Return the quantised input itself, a memoryview of the arena: fill it, then run()."""
        return self._m.input(i)

    def output(self, i=0):
        """Return the quantised output of the last run, a memoryview of the arena. Raises when it is no longer there."""
        return self._m.output(i)

    def run(self):
        """Run all layers on what the inputs hold. Allocates nothing.

        The loop is meant to be copied: between two layers there is time to feed a watchdog or to look at a sensor.
        """
        m = self._m
        m.begin()
        try:
            for step in self._steps:
                step()
        finally:
            m.end()

    def predict(self, inputs):
        """Quantise the inputs, run, and return a flat list of floats for each output, row by row.

        `inputs` is a list with one entry for each input of the model: numbers in (nested) lists and tuples; an array of
        numbers; bytes, bytearray, memoryview or array("b"), which are the quantised tensor itself; or a function
        f(buffer, shape, dtype) that fills the tensor, with dtype = ord("b").
        """
        m = self._m
        ids = m.inputs
        if not isinstance(inputs, (list, tuple)) or len(inputs) != len(ids):
            raise ValueError(f"predict: a list of inputs is wanted, as in predict([x]); this model has {len(ids)}")
        # Busy from the first input to the last output: no other run can come between.
        m.begin()
        try:
            for i, x in enumerate(inputs):
                if callable(x):
                    t = m.tensor(ids[i])
                    x(m.input(i), t.shape, ord(t.dtype))
                else:
                    m.write(i, x)
            for step in self._steps:
                step()
            return [m.read(i) for i in range(len(m.outputs))]
        finally:
            m.end()

    def selftest(self):
        """Run the golden vectors of the file: None when all is well, else the first layer that gave other bytes.

        Raises ValueError where the file has none (`mica pack --golden N`) or has changed since it was loaded. Ends the
        outputs of the last run; the state is kept.
        """
        from mica.selftest import selftest

        return selftest(self)

    def deinit(self):
        """Give the memory back. Views that are still held stay valid; all else raises from now on."""
        self._m.deinit()
        self._steps = ()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.deinit()

    def __repr__(self):
        try:
            info = self._m.info
        except RuntimeError:
            return "<mica.Model, closed>"
        shapes = f"{_shapes(self.input_shape)} -> {_shapes(self.output_shape)}"
        return f"<mica.Model {self.name}: {info.n_steps} layers, {info.file_bytes} bytes, {shapes}>"

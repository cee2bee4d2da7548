"""mica.Model: a .mica file as an object.

    m = mica.Model("/rom/digits.mica")  # or any buffer
    m.predict([x])                      # -> [[0.0, 0.99609, ...]]: one flat list of floats for each output
    m.top(2)                            # -> [("1", 0.99609), ("7", 0.00391)]
    m.predict_into([x], [y])            # into buffers of yours, with nothing allocated

Attribute names are those of OpenMV's and Espressif's firmwares; as there, `input_shape` and its like are tuples with
one entry for each tensor, also when there is only one: `m.input_shape[0]`. A dtype is the letter that `array` and
`memoryview` use, "b" for int8.

Numbers: real = scale * (q - zero_point). Floats are quantised as by ONNX QuantizeLinear, in float32: divide by the
scale, round half to even, add the zero point, saturate. The host does the same, so both see the same int8 input.
"""

import gc
from array import array  # here: in a function it would look for a file of that name at each call

import _mica

from mica.files import read_file
from mica.layer import Layer, shapes

_LIST_OR_TUPLE = (list, tuple)  # written where it is used it would be made at each call
functions: dict[str, Function] = {}  # by operator: what mica.register() was given


def register(op: str, f: Function | None) -> None:
    """From now on compute operator `op` of models that are loaded with f(inputs, outputs, attributes); None ends that.

    `op` is a kernel's name, that of int8 also without its type: "conv2d" or "conv2d_s8".
    See operators.py for what f is given.
    """
    if not isinstance(op, str) or not (f is None or callable(f)):
        raise TypeError("register: the name of an operator and a function are expected")
    functions[op] = f


def _place(name, names):
    """Return the place of a name among those of the inputs or outputs. Allocates nothing."""
    try:
        return names.index(name)
    except ValueError:
        raise KeyError(f"no {name!r} here, only {', '.join([str(n) for n in names])}") from None


def _largest(y, k):
    """Return the places of the k largest elements, the largest first; of equal ones the first comes first."""
    # A sort of all would need a list of all; this needs k passes over the tensor.
    places = []
    for _ in range(min(k, len(y))):
        best = -1
        for j in range(len(y)):
            if (best < 0 or y[j] > y[best]) and j not in places:
                best = j
        places.append(best)
    return places


class Model:
    """A loaded model. `source` is an object with the buffer protocol or a path, without a folder one here or in /rom.

    Bytes, files in a ROMFS and `mica.Arena` blocks are read where they are, if their address is a multiple of 16; all
    else is copied once (`copied` says so). `arena` is where the activations live: by default the board's static arena,
    or, if that is too small, a block from the heap; a `mica.Arena(n)` can be shared by models that run in turn, and
    a bytearray or array serves too. Outputs live until the next run of any model in the same arena.

    A layer whose kernel this firmware lacks runs in MicroPython, to the same integers and some hundred times slower:
    its `runs_in` says "Python". With `strict` such a model raises ValueError instead.
    `python` names kernels that are to run so although the firmware has them; True is all.

    `weights`: copy so many bytes of weights from flash into RAM, where reading them takes no time;
    "auto" takes three quarters of the free heap at most (weights.py).

    With a `key`, bytes of the file given to `mica pack --key`, a model that is not signed with it raises ValueError.
    """

    __doc__ = (
        "m.predict([x]), m.top(3); or m.input(0)[:] = x, m.run(), m.output(0); "
        "print(m) shows its shapes, m its layers; firmware/README.md has all"
    )
    _labels = None
    _scored = None  # the place of the output that holds scores
    _groups = None  # output groups: outputs that are parts of one array of predict()
    _hooks = ()  # of hooks.py
    _run = _costs = None  # of slices.py
    _picture = None  # of pictures.py
    _text = None  # of text.py: how far the text of a language model is

    def __init__(
        self,
        source: str | Any,
        arena: Any | None = None,
        *,
        strict: bool = False,
        python: bool | Sequence[str] = (),
        key: bytes | None = None,
        weights: int | str | None = None,
    ) -> None:
        gc.collect()  # what is allocated now stays: let it lie low, and leave the rest in one piece
        data = None
        try:
            data = read_file(source) if isinstance(source, str) else source
            if key is not None:
                from mica.signature import check

                check(data, key)
            self._m = _mica.load(data, arena, missing_kernels=True)
        except MemoryError as e:
            if arena is not None:
                raise
            from mica.memory import explained

            raise explained(e, len(data) if isinstance(data, _mica.Arena) else 0) from None
        if weights is not None:
            from mica.weights import hold

            hold(self._m, weights)
        if functions or python or self._m.missing_kernels:
            from mica import operators

            operators.attach(self._m, functions, python, strict)
        self._inputs = self.input_names
        self._outputs = self.output_names
        text = self._m.meta("joins")
        if text:
            from mica.output_groups import read

            self._groups = read(self._m, text)
        # One callable a layer, what every run calls in turn: the engine's own,
        # until a hook or a fallback takes a place.
        self._steps = self._m.steps

    def _io(self, ids, field):
        return tuple([getattr(self._m.tensor(i), field) for i in ids])

    input_names: tuple[str, ...] = property(lambda self: self._io(self._m.inputs, "name"))
    input_shape: tuple[tuple[int, ...], ...] = property(lambda self: self._io(self._m.inputs, "shape"))
    input_dtype: tuple[str, ...] = property(lambda self: self._io(self._m.inputs, "dtype"))
    input_scale: tuple[float, ...] = property(lambda self: self._io(self._m.inputs, "scale"))
    input_zero_point: tuple[int, ...] = property(lambda self: self._io(self._m.inputs, "zero_point"))
    output_names: tuple[str, ...] = property(lambda self: self._io(self._m.outputs, "name"))
    output_shape: tuple[tuple[int, ...], ...] = property(lambda self: self._io(self._m.outputs, "shape"))
    output_dtype: tuple[str, ...] = property(lambda self: self._io(self._m.outputs, "dtype"))
    output_scale: tuple[float, ...] = property(lambda self: self._io(self._m.outputs, "scale"))
    output_zero_point: tuple[int, ...] = property(lambda self: self._io(self._m.outputs, "zero_point"))
    layers: list[Layer] = property(lambda self: [Layer(self._m, i) for i in range(self._m.info.n_steps)])
    len: int = property(lambda self: self._m.info.file_bytes)  # bytes of the file
    # Bytes of RAM: activations, scratch, state, the engine's tables, copies of weights,
    # and the file unless it is read in flash.
    ram: int = property(lambda self: self._m.ram)
    copied: bool = property(lambda self: self._m.copied)
    arena: _mica.Arena = property(lambda self: self._m.arena)
    name: str = property(lambda self: self._m.meta("name") or "")

    @property
    def labels(self) -> list[str]:
        """Class names, or an empty list: made each time, so that dir() leaves nothing behind."""
        text = self._m.meta("labels")
        return text.split("\n") if text else []

    def _names(self):
        """The same, kept."""
        if self._labels is None:
            self._labels = self.labels
        return self._labels

    def input(self, i: int | str = 0) -> memoryview:
        """Return the quantised input itself, a memoryview of the arena: fill it, then run(). i: its place, or its name.

        Raises RuntimeError for a fed input, which exists as some rows only.
        """
        return self._m.input(_place(i, self._inputs) if isinstance(i, str) else i)

    def output(self, i: int | str = 0) -> memoryview:
        """Return the quantised output of the last run, a memoryview of the arena. i: its place, or its name.

        Raises RuntimeError when it is no longer there: another model ran in the arena, or a run did not end.
        """
        return self._m.output(_place(i, self._outputs) if isinstance(i, str) else i)

    def run(self) -> None:
        """Run all layers on the present inputs. Allocates nothing.

        The loop is meant to be copied: between two layers there is time to feed a watchdog or to look at a sensor.
        """
        m = self._m
        m.begin()
        try:
            for step in self._steps:
                step()
        finally:
            m.end()

    def _write(self, inputs):
        """Quantise the inputs, which are as predict() takes them."""
        names = self._inputs
        named = isinstance(inputs, dict)
        if not (named or isinstance(inputs, _LIST_OR_TUPLE)) or len(inputs) != len(names):
            raise ValueError(
                "predict: a list of inputs is expected, as in predict([x]), or a dict of them; this model "
                f"has {len(names)}"
            )
        m = self._m
        i = 0
        for x in inputs:
            if named:
                i = _place(x, names)
                x = inputs[x]
            if callable(x) and i != m.fed:
                t = m.tensor(m.inputs[i])
                x(m.input(i), t.shape, ord(t.dtype))
            else:
                m.write(i, x)
            i += 1

    def _read(self, raw):
        """Return the outputs: lists of floats, or arrays of the integers themselves."""
        m = self._m
        n = range(len(m.outputs))
        if not raw:
            if self._groups:
                return [j.read(m) for j in self._groups]
            return [m.read(i) for i in n]
        return [array(m.tensor(t).dtype, bytes(m.output(i))) for i, t in enumerate(m.outputs)]

    # overload: (self, inputs: Inputs, *, raw: Literal[False] = False) -> list[list[float]]
    # overload: (self, inputs: Inputs, *, raw: Literal[True]) -> list[array[int]]
    def predict(self, inputs, *, raw=False):
        """Quantise the inputs, run, and return a flat list of floats for each output, row by row.

        `inputs` is a list with one entry for each input of the model, or a dict of them by name. An entry is numbers in
        (nested) lists and tuples; an array, bytes, or whatever else has a buffer of numbers;
        mica.Quantised(buffer), the quantised tensor itself; or a function f(buffer, shape, dtype)
        that fills the tensor, with dtype = ord("b"). With `raw` the answer is an array of quantised integers for each
        output.
        Outputs whose parts have scales of their own are one list of floats; raw, and in output(i), they are the parts.

        A fed input (`mica pack --feed`) takes a buffer with all its values, of which rows are quantised or copied when
        they are needed: keep it as it is until the answer. Or a function f(begin, end, buffer) that fills rows [begin,
        end), quantised, and returns None, or the number of bytes that it has filled. The next run() takes the same
        buffer or function again.
        """
        m = self._m
        # Busy from the first input to the last output: no other run can come between.
        m.begin()
        try:
            self._write(inputs)
            for step in self._steps:
                step()
            return self._read(raw)
        finally:
            m.end()

    def see(
        self,
        frame: Any,
        width: int = 0,
        height: int = 0,
        format: str = "",
        part: Part | None = None,
        area: bool | None = None,
    ) -> tuple[str, float] | None:
        """Make the picture that the model takes out of a camera's frame, as its input: then run().
        Allocates next to nothing.

        `frame` is a buffer with all bytes of width x height pixels;
        format one of mica.pictures.FORMATS: "grey", "rgb565le", "rgb565be", "rgb888", "bgr888", "yuyv", "uyvy".
        The picture is resized: bilinear, or where a frame has twice as many pixels each way, each pixel the mean of
        those that it covers; `area` says which. part: (x, y, width, height) of the frame, all of it by default.

        A fed model (`mica pack --feed`) makes its rows while it runs: keep the frame as it is until then.

        see(camera), with one of mica.camera, takes a frame, runs, and returns (label, score).
        """
        if self._picture is None:
            from mica.pictures import Picture

            self._picture = Picture(self._m)
        if not format:
            return self._picture.look(frame, self, part, area)
        self._picture.see(frame, width, height, format, part, area)
        return None

    def selftest(self) -> Layer | None:
        """Run the golden vectors of the file: None when all is well, else the first layer that gave other bytes.

        Raises ValueError where the file has none (`mica pack --golden N`) or has changed since it was loaded. Ends the
        outputs of the last run; the state is kept.
        """
        from mica.selftest import selftest

        return selftest(self)

    def reset(self) -> None:
        """Clear the state of a streaming model, as it is after loading.
        A run that did not end may have changed part of it."""
        self._text = None  # may want memory, so it comes first
        self._m.reset_state()

    def predict_into(self, inputs: Inputs, outputs: Outputs) -> Outputs:
        """Like predict(), into buffers of the caller's; returns `outputs`.
        From the second call on it allocates nothing.

        `outputs` is a list with one buffer for each output, or None to leave one out; or a dict of those that
        are to be filled, by name. An array or memoryview of "f" or "d" gets real numbers, one of the tensor's own type
        (output_dtype), or bytes, the quantised tensor. (An input that is a function costs the view it is given.)
        """
        groups = self._groups
        names = [j.name for j in groups] if groups else self._outputs
        named = isinstance(outputs, dict)
        if not named and len(outputs) != len(names):
            raise ValueError(
                f"predict_into: a buffer for each of {len(names)} outputs is expected; None leaves one out"
            )
        m = self._m
        m.begin()
        try:
            self._write(inputs)
            for step in self._steps:
                step()
            i = 0
            for y in outputs:
                if named:
                    i = _place(y, names)
                    y = outputs[y]
                if y is not None:
                    if groups:
                        groups[i].read_into(m, y)
                    else:
                        m.read_into(i, y)
                i += 1
        finally:
            m.end()
        return outputs

    def _names_of(self, n):
        """Return the names of n scores: numbers if the labels do not fit; a single score has the second of two."""
        labels = self._names()
        if len(labels) == n:
            return labels
        return labels[1:] if n == 1 and len(labels) == 2 else list(range(n))

    def _scores(self):
        """Return (place, number of values) of the output that holds scores, among those that predict() returns."""
        m = self._m
        if self._scored is None:
            firsts = [j.first for j in self._groups] if self._groups else range(len(m.outputs))
            text = m.meta("scores")
            place = int(text) if text else -1
            if not text:  # the first that is not the number of a class
                place = min([k for k, i in enumerate(firsts) if m.tensor(m.outputs[i]).dtype != "i"], default=-1)
            if not 0 <= place < len(firsts):
                raise ValueError("no output of this model holds scores of its classes; predict() gives what there is")
            n = 1
            for d in self._groups[place].shape if self._groups else m.tensor(m.outputs[place]).shape:
                n *= d
            self._scored = place, n
        return self._scored

    def top(self, k: int = 1, i: int | str | Sequence[float] | None = None) -> list[tuple[str | int, float]]:
        """Return the k largest scores of the last run, [(label, score), ...], the largest first.
        i: an output's place or name, or scores.

        By default the output that holds scores of the classes. A label is a class's name,
        or its number if the file has none.
        """
        if not isinstance(k, int):
            raise TypeError(f"top: a number of scores is expected, not {k!r}")
        if i is None:
            i = self._scores()[0]
        elif not isinstance(i, (int, str)):
            labels = self._names_of(len(i))
            return [(labels[j], i[j]) for j in _largest(i, k)]
        if self._groups:
            group = self._groups[_place(i, [j.name for j in self._groups]) if isinstance(i, str) else i]
            if group.parts > 1:
                labels = self._names_of(sum(group.runs) * group.rows)
                return [(labels[j], value) for j, value in group.top(self._m, k, _largest)]
            i = group.first
        i = _place(i, self._outputs) if isinstance(i, str) else i
        y = self._m.output(i)
        t = self._m.tensor(self._m.outputs[i])
        if t.dtype == "i":
            raise ValueError(f"top: output {t.name!r} holds numbers of classes or places, and no scores")
        labels = self._names_of(len(y))
        whole = t.dtype == "f"
        return [(labels[j], y[j] if whole else (y[j] - t.zero_point) * t.scale) for j in _largest(y, k)]

    def hook(
        self, which: Which = "*", before: Visit | None = None, after: Visit | None = None, around: Around | None = None
    ) -> Hook:
        """Have functions called before, after or in place of layers; returns a handle with remove().

        `which` is a pattern such as "conv*" for names or operators, a group ("conv", "matmul", "pool", "activation",
        "shape", ...), a number, a Layer, or a list of these. before(layer) and after(layer) get the Layer;
        around(layer, step) does the layer's work, by step() or otherwise.
        What they raise ends the run, and run() raises it. A change takes effect with the next run.
        mica.hooks has ready ones.
        """
        from mica.hooks import Hook

        return Hook(self, which, before, after, around)

    def profile(self, n: int = 10, inputs: Inputs | None = None) -> Profile:
        """Run n times and return the time of each layer: print it, or call its chart(), trace() and save(path)."""
        from mica.profile import profile

        return profile(self, n, inputs)

    # overload: (self, inputs: None = None, *, slice_us: int = 1000) -> Coroutine[Any, Any, None]
    # overload: (self, inputs: Inputs, *, slice_us: int = 1000) -> Coroutine[Any, Any, list[list[float]]]
    def arun(self, inputs=None, *, slice_us=1000):
        """await m.arun(): run, and let other tasks run after every slice_us microseconds, in the middle of layers too.

        With `inputs`, as for predict(), returns what predict() would. A piece is a row of a layer's output at least.
        Of a run that is cancelled nothing remains; until then the arena is busy.
        """
        from mica.slices import arun

        return arun(self, inputs, slice_us)

    def start(self, inputs: Inputs | None = None) -> None:
        """Begin a run that resume() carries out in pieces: the arena is this model's until it ends, or stop()."""
        from mica.slices import start

        start(self, inputs)

    def resume(self, slice_us: int = 1000) -> bool:
        """Go on with the run of start() for about slice_us microseconds. Returns whether there is more to do."""
        run = self._run
        if run is None:
            raise RuntimeError("resume: no run has been started")
        run.check()
        more = False
        try:
            more = run.resume(slice_us)
        finally:
            if not more:
                self.stop()
        return more

    def stop(self) -> None:
        """Give up the run that this model has begun, if there is one: the arena is free in any case.

        What "arena is busy" asks for where Ctrl-C left a run of start() or arun() unfinished.
        Its outputs are there only if it had come to its end. Not for a hook: in a piece of a run it raises
        RuntimeError, elsewhere the run goes on.
        """
        run = self._run
        if run is None:
            self._m.end()
            return
        run.check()
        self._m.end()  # first, and nothing between: a run that has not the arena is never taken for one to resume
        self._run = None

    def deinit(self) -> None:
        """Give the memory back. Views that are still held stay valid; all else raises from now on."""
        if self._run is not None:
            self.stop()
        self._m.deinit()
        self._steps = ()
        if self._hooks:  # a new attribute of an instance can need memory
            self._hooks = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.deinit()

    def __str__(self):
        try:
            info = self._m.info
        except RuntimeError:
            return "<mica.Model, closed>"
        arrow = f"{shapes(self.input_shape)} -> {shapes(self.output_shape)}"
        return f"<mica.Model {self.name}: {info.n_steps} layers, {info.file_bytes} bytes, {arrow}>"

    def __repr__(self):
        """The same, with a line for each layer: the REPL shows it."""
        lines = [str(self)]
        try:
            for i in range(self._m.info.n_steps):
                lines.append(repr(Layer(self._m, i)))
        except RuntimeError:
            pass  # closed
        return "\n".join(lines)

    def __dir__(self):
        return dir(Model)  # reads no property, so it works on a closed model too

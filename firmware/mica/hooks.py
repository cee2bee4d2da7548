"""Hooks: functions called before, after or in place of the layers of a model (Model.hook), and ready ones.

    from mica import hooks
    log = hooks.log(m, "conv*")             # a line for each layer, as it has run
    time = hooks.timing(m)                  # time.us: microseconds of each layer, summed over runs
    seen = hooks.tap(m, "pool1")            # seen["pool1"]: a copy of what it wrote
    span = hooks.minmax(m)                  # span.ranges(): what values were there
    hooks.replace(m, "relu", f)             # f(layer) does its work
    hooks.fault(m, "conv1", 3, every=100)   # flips three bits of its output in every hundredth run
    hooks.feed(m, wdt)                      # wdt.feed() after each layer: a run that stands still is noticed

Each returns a handle; handle.remove() ends it, as does the end of `with handle:`. Hooks on one layer nest: the one that
came last is outermost. Hooking rebuilds the model's list of steps, so a layer without hooks costs what it did, and so
does a model whose hooks were all removed.
"""

from mica.layer import Layer

# What belongs together, by the kernels' names in the file format.
# gen:groups (written by scripts/gen_format.py: `group` in host_tools/mica/kernels)
GROUPS = (
    ("conv", "conv2d_s8", "depthwise_conv2d_s8", "conv_transpose2d_s8", "conv2d_s16"),
    ("matmul", "fully_connected_s8", "matmul_s8", "recurrent_s8"),
    ("pool", "max_pool2d_s8", "average_pool2d_s8", "pool_s16"),
    ("arithmetic", "add_s8", "mul_s8", "minmax_s8", "div_s8", "rotate_s8", "binary_s16"),
    ("activation", "softmax_s8", "lut_s8", "log_softmax_s8", "attend_s8", "lut_s16", "softmax_s16"),
    (
        "shape",
        "transpose_s8",
        "move_s8",
        "concat_s8",
        "pad_s8",
        "gather_s8",
        "resize_linear_s8",
        "embedding_s8",
        "scatter_s8",
        "pick_s8",
        "widen_s16",
        "narrow_s8",
    ),
    ("reduce", "reduce_s8", "argmax_s8", "layer_norm_s8", "top_k_s8", "norm_s8"),
    (
        "features",
        "features_s8",
        "ranks_s8",
        "trees_s8",
        "distances_s8",
        "nearest_s8",
        "machine_s8",
        "log_mel_s8",
        "pcan_s8",
        "forest_s8",
        "axes_s8",
        "pcen_s8",
    ),
)
# end


def group(op: str) -> str | None:
    """Return the group of an operator, such as "conv" for "conv2d_s8"; None for one that is in no group."""
    for names in GROUPS:
        if op in names[1:]:
            return names[0]
    return None


def match(pattern: str, text: str) -> bool:
    """Return True if the pattern matches the whole text; * stands for any characters, ? for one."""
    p = t = 0
    star = back = -1
    while t < len(text):
        c = pattern[p] if p < len(pattern) else ""
        if c == "*":
            star, back = p, t
            p += 1
        elif c == "?" or c == text[t]:
            p += 1
            t += 1
        elif star >= 0:
            back += 1
            p, t = star + 1, back
        else:
            return False
    return all(c == "*" for c in pattern[p:])


def _chosen(which, layer):
    if isinstance(which, str):
        op = layer.kernel
        short = op[:-3] if op.endswith("_s8") else op
        name = layer.name or ""
        return (
            which == group(op)
            or match(which, name)
            or any(match(which, part) for part in name.split("/"))
            or match(which, op)
            or match(which, short)
        )
    if isinstance(which, int):
        return which == layer.index
    if isinstance(which, Layer):
        return which.index == layer.index
    return any(_chosen(w, layer) for w in which)


def select(model: Model, which: Which) -> list[Layer]:
    """Return the layers that `which` names, as for Model.hook. Raises ValueError where there are none."""
    m = model._m
    layers = [layer for layer in (Layer(m, i) for i in range(m.info.n_steps)) if _chosen(which, layer)]
    if not layers:
        raise ValueError(f"hook: no layer is {which!r}; print the model to see their names and operators")
    return layers


class _Hooked:
    """A step with a hook around it. It can still run in ranges of rows, unless `around` replaces it."""

    def __init__(self, step, layer, hook):
        self._step = step
        self._layer = layer
        self._before = hook._before
        self._after = hook._after
        self._around = hook._around
        self.rows = getattr(step, "rows", 1) if hook._around is None else 1
        self.first = layer.index
        self.strip = 0

    def __call__(self, begin=0, end=None):
        if begin == 0 and self._before is not None:
            self._before(self._layer)
        if self._around is not None:
            self._around(self._layer, self._step)
            if self._layer.last:
                self._layer._m.finish()  # whoever did the work, the outputs are there
        elif end is None:
            self._step()
        else:
            self._step(begin, end)
        if (end is None or end == self.rows) and self._after is not None:
            self._after(self._layer)


class Hook:
    """The object that Model.hook returns. `layers`: the layers that it is attached to."""

    def __init__(
        self,
        model: Model,
        which: Which = "*",
        before: Visit | None = None,
        after: Visit | None = None,
        around: Around | None = None,
    ) -> None:
        self._before = before
        self._after = after
        self._around = around
        self._model = None
        self.layers: list[Layer] = select(model, which)
        if not model._hooks:
            model._plain = model._steps
            model._hooks = ()
        hooks = model._hooks + (self,)
        steps = _woven(model._plain, hooks, model._m)
        # From here on nothing allocates or branches, so no exception, not even Ctrl-C, can leave half of it done.
        model._hooks = hooks
        model._steps = steps
        self._model = model

    def remove(self) -> None:
        """End it, from the next run on. May be called again; where it raises MemoryError, the hook is still there."""
        model = self._model
        if model is None:
            return
        if model._hooks:
            hooks = tuple([hook for hook in model._hooks if hook is not self])
            steps = _woven(model._plain, hooks, model._m)
            # As above.
            model._hooks = hooks
            model._steps = steps
        self._model = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _woven(plain, hooks, m):
    """Return the steps with the hooks round them; changes nothing of the model."""
    if not hooks:
        return plain
    steps = list(plain)
    for hook in hooks:
        for layer in hook.layers:
            layer.last = layer.index + 1 == m.info.n_steps
            at = layer.index
            if m.strips:
                at = max(k for k, step in enumerate(plain) if step.first <= layer.index)
                if plain[at].strip:
                    from mica.strips import Hooked

                    steps[at] = Hooked(steps[at], layer, hook, m)
                    continue
            steps[at] = _Hooked(steps[at], layer, hook)
    return steps


def _now():
    from time import ticks_us

    return ticks_us()


def _since(start):
    from time import ticks_diff

    return ticks_diff(_now(), start)


def _span(layer):
    y = layer.output()
    return min(y), max(y)


def log(model: Model, which: Which = "*", write: Callable[[str], object] = print) -> Hook:
    """Write a line for each layer as it has run: operator, name, microseconds,
    least and largest integer of its output."""
    start = [0]

    def before(layer):
        start[0] = _now()

    def after(layer):
        us = _since(start[0])
        low, high = _span(layer)
        write(f"{layer.index:3d}  {layer.kernel:20s} {layer.name:24s} {us:8d} us  {low}..{high}")

    return Hook(model, which, before, after)


class timing(Hook):
    """Sum up the time of each layer: `us` is {layer's index: microseconds}, `runs` {index: how often it has run}."""

    def __init__(self, model: Model, which: Which = "*") -> None:
        self._start = 0
        self.us: dict[int, int] = {}
        self.runs: dict[int, int] = {}
        Hook.__init__(self, model, which, self._begin, self._end)

    def _begin(self, layer):
        self._start = _now()

    def _end(self, layer):
        i = layer.index
        self.us[i] = self.us.get(i, 0) + _since(self._start)
        self.runs[i] = self.runs.get(i, 0) + 1


class tap(Hook):
    """Copy the outputs of layers before later layers reuse their memory. tap[name or index]: bytes, of the last run."""

    def __init__(self, model: Model, which: Which = "*") -> None:
        self._seen = {}
        Hook.__init__(self, model, which, None, self._copy)

    def _copy(self, layer):
        new = bytes(layer.output())
        if layer.rows and layer.rows[0]:  # some more rows of a layer in a strip
            new = self._seen[layer.index] + new
        self._seen[layer.index] = new

    def __getitem__(self, key: str | int) -> bytes:
        for layer in self.layers:
            if key in (layer.index, layer.name):
                return self._seen[layer.index]
        raise KeyError(key)

    def values(self, key: str | int) -> list[float]:
        """The same as real numbers."""
        for layer in self.layers:
            if key in (layer.index, layer.name):
                t = layer._m.tensor(layer._ids[1][0])
                from array import array

                return [(q - t.zero_point) * t.scale for q in array(t.dtype, self[key])]
        raise KeyError(key)


class minmax(Hook):
    """Keep the least and the largest value that layers ever wrote."""

    def __init__(self, model: Model, which: Which = "*") -> None:
        self._spans = {}
        Hook.__init__(self, model, which, None, self._look)

    def _look(self, layer):
        low, high = _span(layer)
        was = self._spans.get(layer.index, (low, high))
        self._spans[layer.index] = min(low, was[0]), max(high, was[1])

    def ranges(self) -> list[tuple[Layer, float, float]]:
        """[(layer, least, largest)], as real numbers, of the layers that have run."""
        rows = []
        for layer in self.layers:
            if layer.index in self._spans:
                t = layer._m.tensor(layer._ids[1][0])
                low, high = [(q - t.zero_point) * t.scale for q in self._spans[layer.index]]
                rows.append((layer, low, high))
        return rows


def replace(model: Model, which: Which, f: Callable[[Layer], object]) -> Hook:
    """Have f(layer) do the work of layers: it reads layer.input(i) and fills layer.output(i)."""
    return Hook(model, which, None, None, lambda layer, step: f(layer))


class fault(Hook):
    """Make layers fail, to test what notices it. `count`: number of failures.

    `what` is an exception to raise, a function to call with the layer, or a number of bits to flip in its output, the
    same ones for the same `seed`. `every`: in every n-th run of the layer.
    """

    def __init__(
        self,
        model: Model,
        which: Which,
        what: int | BaseException | type[BaseException] | Callable[[Layer], object] = 1,
        every: int = 1,
        seed: int = 1,
    ) -> None:
        self._what = what
        self._every = every
        self._random = seed or 1
        self._calls = {}
        self.count = 0
        Hook.__init__(self, model, which, None, self._fail)

    def _fail(self, layer):
        n = self._calls.get(layer.index, 0) + 1
        self._calls[layer.index] = n
        if n % self._every:
            return
        self.count += 1
        what = self._what
        if callable(what) and not isinstance(what, type):
            what(layer)
        elif not isinstance(what, int):
            raise what
        else:
            y = memoryview(layer.output())
            for _ in range(what):
                self._random = self._random * 75 % 65537  # Lehmer's generator: fits small integers everywhere
                y[self._random % len(y)] ^= 1 << self._random // len(y) % 7


def feed(model: Model, watchdog: Watchdog, which: Which = "*") -> Hook:
    """Call watchdog.feed() after each layer, so that only progress feeds it."""
    return Hook(model, which, None, lambda layer: watchdog.feed())

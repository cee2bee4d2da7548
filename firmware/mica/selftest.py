"""Model.selftest(): the golden vectors of the file, layer by layer."""

from binascii import crc32

from _mica import Quantised


def selftest(model: Model, feed: Callable[[], object] | None = None) -> Layer | None:
    """Return None, or the first bad Layer. feed() is called after each layer, and after each slice of the checksum.

    Of a file without checksums of layers (format 1.0) only the outputs are compared, and the layer is the one that
    wrote the wrong output. The checksum of the file comes last: where it is wrong, a bad layer says more.
    """
    m = model._m
    if not m.info.n_golden:
        raise ValueError("selftest: the file has no golden vectors; pack it with --golden N")
    try:
        bad = _run(model, m, feed)
        if bad is not None:
            from mica.layer import Layer

            return Layer(m, bad)
    except (ValueError, IndexError):
        _check(m, feed)  # a file that changed can name tensors that there are not: say that it changed
        raise
    _check(m, feed)
    return None


def _check(m, feed):
    m.check(0)  # from the beginning, whatever check was interrupted before
    while m.check(4096):  # a slice at a time: interrupts and USB are served between them
        if feed:
            feed()


def _run(model, m, feed):
    """Run all vectors; return the index of the first bad step, or None. Puts the state back as it was."""
    state = m.state
    kept = None if state is None else bytes(state)
    m.begin()
    try:
        m.reset_state()
        for k in range(m.info.n_golden):
            bad = _vector(model._steps, m, k, feed)
            if bad is not None:
                return bad
    finally:
        m.put_state(kept)
        m.end()
    return None


def _vector(steps, m, k, feed):
    vector = m.golden(k)
    crcs = m.golden_crcs(k)
    at = 0
    for i, t in enumerate(m.inputs):
        nbytes = m.tensor(t).nbytes
        m.write(i, Quantised(vector[at : at + nbytes]))
        at += nbytes + 3 & ~3
    for i, crc in _layers(steps, m, crcs is not None, feed):
        if crcs is not None and crc != crcs[i]:
            return i
    for t in m.outputs:
        nbytes = m.tensor(t).nbytes
        # As bytes: views of unlike element types are never equal.
        if m.tensor_data(t) != bytes(vector[at : at + nbytes]):
            return max([i for i in range(m.info.n_steps) if t in m.step_info(i).outputs], default=m.info.n_steps - 1)
        at += nbytes + 3 & ~3
    return None


def _layers(steps, m, expected, feed):
    """Run all layers. Yield each one and, if expected, the checksum of its output."""
    if m.strips:
        from mica.strips import layers

        for i, crc, _ in layers(m, steps, feed):
            if crc is not None:
                yield i, crc
        return
    for i, step in enumerate(steps):
        step()
        if feed:
            feed()
        yield i, _crc(m, i) if expected else 0


def _crc(m, i):
    crc = 0
    for t in m.step_info(i).outputs:
        crc = crc32(m.tensor_view(t), crc)
    return crc & 0xFFFFFFFF

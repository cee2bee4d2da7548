"""Matrix products, with constant weights and of two tensors."""

from mica.fallback.common import broadcast, channels, offsets, one_factor


def fully_connected_s8(step):
    """x [...,K], weights [N,K] -> y [...,N]."""
    a, b = step.x[0].shape, step.y.shape
    step.want(
        len(a) >= 1 and len(a) == len(b) and a[:-1] == b[:-1], "input and output differ before the last dimension"
    )
    k, n = a[-1], b[-1]
    offset = step.layout == 2  # its bytes are the weights + 128
    weights, row = step.weights(n, k, "B" if offset else "b")
    bias = step.constant("bias", n)
    finish = channels(step, n)
    x, y = step.x[0].data, step.y.data

    def run():
        at = 0
        for first in range(0, len(x), k):
            values = [x[i] for i in range(first, first + k)]
            excess = 128 * sum(values) if offset else 0
            for o in range(n):
                acc = bias[o] - excess
                r = o * row
                for v in values:
                    acc += v * weights[r]
                    r += 1
                y[at] = finish(acc, o)
                at += 1

    return run


def matmul_s8(step):
    """a [...,M,K], b [...,K,N], or [...,N,K] with transpose_b -> y [...,M,N]."""
    a, b, y = step.x[0].shape, step.x[1].shape, step.y.shape
    back = step.within("transpose_b", 0, 1)
    step.want(min(len(a), len(b), len(y)) >= 2, "matrices have two dimensions at least")
    m, k = a[-2:]
    n = b[-2] if back else b[-1]
    step.want((b[-1] if back else b[-2]) == k and y[-2:] == (m, n), "the shapes are not those of a product")
    step.want(k <= 33025, "too long sums")
    along_k, along_n = (1, k) if back else (n, 1)
    batch = y[:-2]
    steps_a, steps_b = broadcast(step, a[:-2], b[:-2], batch)
    finish = one_factor(step)
    za, zb = step.x[0].zero_point, step.x[1].zero_point
    xa, xb, out = step.x[0].data, step.x[1].data, step.y.data
    whole_a, whole_b = m * k, k * n

    def run():
        at = 0
        for ia, ib in zip(offsets(batch, steps_a), offsets(batch, steps_b)):
            for i in range(ia * whole_a, ia * whole_a + whole_a, k):
                values = [xa[c] - za for c in range(i, i + k)]
                for j in range(n):
                    acc = 0
                    r = ib * whole_b + j * along_n
                    for v in values:
                        acc += v * (xb[r] - zb)
                        r += along_k
                    out[at] = finish(acc)
                    at += 1

    return run

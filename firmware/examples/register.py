# An operator of your own: a function that computes every softmax of models loaded from now on.
# boards: UNIX MPS2_AN385
import mica


def hardmax(inputs, outputs, attributes):
    """All for the largest of a row: inputs and outputs have data, shape, scale, zero_point."""
    x, y = inputs[0], outputs[0]
    one = round(1 / y.scale) + y.zero_point
    n = x.shape[-1]
    for row in range(0, len(x.data), n):
        best = max(range(row, row + n), key=lambda i: x.data[i])
        for i in range(row, row + n):
            y.data[i] = min(one, 127) if i == best else y.zero_point


mica.register("softmax", hardmax)
m = mica.Model("digits.mica")
print(m.layers[-1])
print(m.predict([[0.5] * 64])[0])
mica.register("softmax", None)
print(mica.Model("digits.mica").layers[-1].runs_in)
#: ...softmax_s8...Python
#: [...0.99609...]
#: C

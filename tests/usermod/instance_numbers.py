# models: small
# Instances in place of numbers: their __int__, __float__ and __bool__ could close the model that is about to use the
# answer.
import mica


class Sly:
    def __init__(self, f, value):
        self.f = f
        self.value = value

    def __int__(self):
        self.f()
        return self.value

    def __float__(self):
        self.f()
        return float(self.value)

    def __bool__(self):
        self.f()
        return bool(self.value)


def model():
    return mica.Model(small)._m


m = model()
for f in (m.input, m.output, m.tensor, m.tensor_data, m.step_info, m.golden, m.check, m.steps[0]):
    args = (Sly(m.deinit, 0),) if f is not m.steps[0] else (0, Sly(m.deinit, 1))
    fails(f, *args)
fails(m.step_constant, 0, Sly(m.deinit, 0), "b")
fails(m.step_constant, 0, 0, "\0")
fails(m.write, 0, [0] * 5 + [Sly(m.deinit, 1)])
values = [0] * 5 + [Sly(lambda: values.clear(), 1)]
fails(m.write, 0, values)
print(m.input(True if m.info.n_inputs > 1 else False) is not None)
fails(m.tensor_view, 0, Sly(m.deinit, 1))  # asked for before anything else
fails(m.tensor_view, 0)

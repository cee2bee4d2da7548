# A supervised model: a layer that fails is noticed, the run made again; then a spare takes over.
# boards: UNIX MPS2_AN385
import mica

x = [i % 16 / 16 for i in range(64)]
trouble = [0]  # how many times a layer will fail


def setup(model):
    # Called with each model that was loaded. Here it puts a fault into one layer; usually it sets hooks.
    def faulty(step=model._steps[1]):
        if trouble[0]:
            trouble[0] -= 1
            raise OSError("sensor bus down")
        step()

    model._steps = model._steps[:1] + (faulty,) + model._steps[2:]


s = mica.Supervisor("digits.mica", spare="digits.mica", retries=1, timeout_ms=5000, setup=setup)
y, trouble[0] = s.predict([x]), 1
print("mended:", s.predict([x]) == y, [e[1] for e in s.events])
trouble[0] = 3
print("spare:", s.predict([x]) == y, s.on_spare)
print(s)
print("back:", s.restore())
#: mended: True ['exception', 'retry', 'reload']
#: spare: True True
#: <mica.Supervisor on the spare: 3 runs, ... failures>
#: back: True

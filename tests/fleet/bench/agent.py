"""Program of a board that takes a given time for a request."""

SLOW = """
import json, time, mica_fleet
with open("fleet.json") as f:
    s = json.load(f)
class Slow(mica_fleet.Agent):
    def compute(self, model, inputs):
        time.sleep_us(round(1000 * s["ms"]))
        return super().compute(model, inputs)
Slow(s).work()
"""

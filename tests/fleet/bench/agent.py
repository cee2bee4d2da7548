"""The program of a board that takes as long for a request as it is told."""

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

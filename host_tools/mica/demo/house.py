"""A house in the terminal: what the calls of the model `command` do to its lamps, blinds, doors and timers."""

ROOMS = ("kitchen", "bedroom", "bathroom", "garage", "garden", "hall", "office", "living", "attic", "cellar")
_SWITCHED = ("fan", "heater", "pump")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_READ = {"temperature": "19.5 degrees", "humidity": "48 percent", "light": "320 lux"}  # of sensors that are not there


class House:
    """Ten rooms, as they were left. `do` takes a call, `rows` shows the rooms, `timers` what is left of them."""

    def __init__(self) -> None:
        self.light = dict.fromkeys(ROOMS, 0)  # percent
        self.heat = dict.fromkeys(ROOMS, 18)  # degrees
        self.open = {kind: dict.fromkeys(ROOMS, kind == "blind") for kind in ("blind", "door")}
        self.on = {kind: dict.fromkeys(ROOMS, False) for kind in _SWITCHED}
        self.due: list[float] = []  # seconds of the caller's clock at which timers end

    def do(self, call: str, now: float) -> str:
        """Carry out a call; returns a line about it, "" where it changes nothing. now: in seconds."""
        words = call.split(" ")
        if len(words) == 2 and words[0] == "timer" and words[1][:-1].isdecimal() and words[1][-1] in _SECONDS:
            self.due.append(now + int(words[1][:-1]) * _SECONDS[words[1][-1]])
            return f"a timer rings in {words[1]}"
        if len(words) != 3:
            return ""
        kind, where, what = words
        if kind == "ask":
            return f"{where} in the {what}: {_READ[where]}" if where in _READ else ""
        rooms = ROOMS if where == "all" else (where,) if where in ROOMS else ()
        for room in rooms:
            if kind == "light" and (what in ("on", "off") or what.isdecimal()):
                self.light[room] = {"on": 100, "off": 0}[what] if what in ("on", "off") else min(int(what), 100)
            elif kind == "heat" and what.isdecimal():
                self.heat[room] = int(what)
            elif kind in self.open and what in ("open", "close"):
                self.open[kind][room] = what == "open"
            elif kind in self.on and what in ("on", "off"):
                self.on[kind][room] = what == "on"
            else:
                return ""
        return f"{kind}, {where}: {what}" if rooms else ""

    def rows(self) -> list[tuple[str, ...]]:
        """For each room: its name, lamp, blind, door, heat, and what else is on."""
        return [
            (
                room,
                f"{'*' * round(self.light[room] / 20):5} {self.light[room]:3}",
                *("open" if self.open[kind][room] else "shut" for kind in ("blind", "door")),
                f"{self.heat[room]}",
                ", ".join(kind for kind in _SWITCHED if self.on[kind][room]),
            )
            for room in ROOMS
        ]

    def timers(self, now: float) -> list[str]:
        """A line for each timer; one that has rung is told once."""
        lines = [f"a timer rings in {due - now:.0f} s" if due > now else "a timer rings!" for due in self.due]
        self.due = [due for due in self.due if due > now]
        return lines

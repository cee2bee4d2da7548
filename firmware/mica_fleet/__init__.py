"""A board that works for a fleet (`mica fleet`): it connects to the broker, reports itself, and answers requests.

    import mica_fleet
    mica_fleet.run()  # as fleet.json says, which `mica fleet join` writes

fleet.json: fleet, name, host; and port, password, wifi ([network, password]), models (paths;
all .mica files by default), keepalive (seconds), key (what a push is signed with; push.py takes none without).
The user at the broker has the board's name. Another MQTT client, with umqtt.simple's methods,
is taken by Agent(settings, client).

    mica/F/from/B/state   retained, and the will: up or down, boot, session; with up, JSON about the board
    mica/F/to/B/run       a request: 24 bytes and the inputs (host_tools/mica_fleet/wire.py)
    mica/F/from/B/out     an answer: 32 bytes and the outputs, or a text
    mica/F/from/B/stat    retained, every 30 s, and after work: JSON: runs, errors, ms of the last runs,
                          us of each model's last, heap

A session begins with each connection: what was on its way in an older one is gone, and the host asks again.
Whatever comes, and whatever fails, the loop goes on; only Ctrl-C ends it.
Requests that are damaged are dropped, which their time-out mends.
"""

import gc
import hashlib
import json
import os
import select
import struct
import sys
import time
from binascii import crc32, hexlify

from _mica import Quantised

VERSION = 1
_REQUEST = "<BBHIIIHHI"
_ANSWER = "<BBHIIIHHIII"
OK, BUSY, NO_MODEL, BAD_REQUEST, FAILED = 0, 1, 2, 3, 4
QUEUE = 4  # requests that wait; of more, the board says that it is busy
LARGEST = 32768  # bytes of inputs
_SLICE_US = 500000
_STAT_MS = 30000
_WORKED_MS = 2000  # the least time between two stats of a board that has nothing to do after work
_LARGEST_ANSWER = 65504  # bytes of outputs: with the header, as much as a broker takes (wire.py)


def run(path: str = "fleet.json") -> None:
    """Work as the file says. Raises if the file cannot be read: without it the board has no broker to tell."""
    with open(path) as f:
        settings = json.load(f)
    Agent(settings).work()


def _number():
    """A number that no other start of this board has, as far as the port has any chance in it."""
    if hasattr(os, "urandom"):
        return struct.unpack("<I", os.urandom(4))[0]
    return (time.ticks_us() * 2654435761 ^ time.time()) & 0xFFFFFFFF


def client_id(settings: dict[str, Any]) -> str:
    """Return a secret of this board and the broker: anyone who knows it can end the board's connection.

    It is always the same, but without a password another at each start.
    """
    secret = f"{settings.get('fleet')} {settings['name']} {settings.get('password') or _number()}"
    return "mica-" + hexlify(hashlib.sha256(secret.encode()).digest()[:8]).decode()


def _crc_of(path):
    crc = 0
    buf = bytearray(512)
    view = memoryview(buf)
    with open(path, "rb") as f:
        while n := f.readinto(buf):
            crc = crc32(view[:n], crc)
    return crc & 0xFFFFFFFF


def _has_fallbacks():
    """Return True if kernels that this firmware lacks can run in MicroPython."""
    try:
        __import__("mica.fallback")
    except ImportError:
        return False
    return True


def _free():
    """Bytes of files that a push may write: free, or of one that was cut short. None where the port does not tell."""
    try:
        stat = os.statvfs("/")
        parts = [os.stat(name)[6] for name in os.listdir() if name.endswith(".mica.part")]
    except (AttributeError, OSError):
        return None
    return stat[0] * stat[3] + sum(parts)


def find_models() -> list[str]:
    """Paths of the .mica files here and in /rom."""
    found = []
    for folder in ("", "/rom/"):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        found += [folder + name for name in names if name.endswith(".mica")]
    return found


def connect_wifi(ssid: str, password: str, seconds: float = 20) -> None:
    import network

    station = network.WLAN(network.STA_IF)
    station.active(True)
    if station.isconnected():
        return
    station.connect(ssid, password)
    begun = time.ticks_ms()
    while not station.isconnected():
        if time.ticks_diff(time.ticks_ms(), begun) > seconds * 1000:
            raise OSError("no Wi-Fi: " + ssid)
        time.sleep_ms(100)


class Agent:
    """`client`: an object with umqtt.simple's methods in place of our own client;
    it has the server, name and password already."""

    def __init__(self, settings: dict[str, Any], client: Any | None = None) -> None:
        self.settings = settings
        self.name: str = settings["name"]
        self.keepalive: int = settings.get("keepalive", 10)
        if client is None:
            from .mqtt import Client

            client = Client(
                client_id(settings),
                settings["host"],
                settings.get("port", 1883),
                user=self.name,
                password=settings.get("password"),
                keepalive=self.keepalive,
                largest=LARGEST + 256,
            )
        self.client = client
        client.set_callback(self._heard)
        self._from = f"mica/{settings['fleet']}/from/{self.name}/"
        self._run_topic = f"mica/{settings['fleet']}/to/{self.name}/run".encode()
        self.boot: int = _number()
        self.session = 0
        self.runs = self.errors = 0
        self._last_us = []  # (CRC-32 of the model, microseconds)
        self._todo = []  # (message, when it came)
        self._taken = 0
        self._paths = {}  # crc32 -> path
        self._models = {}  # crc32 -> Model, of those that are loaded
        self._poll = None
        self._said = None
        self._pusher = None
        if settings.get("key"):
            from .push import Pusher

            self._pusher = Pusher(self, settings["key"])

    def work(self) -> None:
        """Connect and work, and again when that ends."""
        wait = 250
        while True:
            begun = time.ticks_ms()
            try:
                if self.settings.get("wifi"):
                    connect_wifi(*self.settings["wifi"])
                self.serve()
            except Exception as e:
                self._say(e)
            self._leave()
            # A fleet that comes back after its broker does not come all at once.
            if time.ticks_diff(time.ticks_ms(), begun) > 10000:
                wait = 250
            time.sleep_ms(wait + _number() % wait)
            wait = min(2 * wait, 8000)

    def serve(self) -> None:
        """One connection, until it breaks."""
        c = self.client
        self.session += 1
        self._todo.clear()
        self._paths = self._find()
        c.set_last_will(self._from + "state", f"down {self.boot} {self.session}", retain=True, qos=1)
        c.connect()
        self._poll = None
        if getattr(c, "sock", None) is not None:
            self._poll = select.poll()
            self._poll.register(c.sock, select.POLLIN)
        c.subscribe(self._run_topic)
        self._birth()
        if self._pusher:
            self._pusher.connected()
        self._said = None
        self._pinged = time.ticks_ms()
        self._stat()
        while True:
            taken = -1
            while taken != self._taken:  # all that is there, then one piece of work
                taken = self._taken
                c.check_msg()
            busy = bool(self._todo)
            if busy:
                self._answer(*self._todo.pop(0))
            if self._pusher and self._pusher.step():
                busy = True
            if busy:
                pass
            elif self._poll:
                self._poll.poll(self.keepalive * 100)
            else:
                time.sleep_ms(10)
            self._beat(not busy)

    def about(self) -> dict[str, Any]:
        """Facts that the birth message carries: the board's identity, and the limits that a pushed model must keep."""
        import _mica

        import mica

        i = _mica.info()
        self.unload()  # so that the free heap is what models may take
        about = {
            "board": getattr(sys.implementation, "_machine", sys.platform),
            "core": i.isa,
            "mica": mica.__version__,
            "format": ".".join([str(v) for v in i.format]),
            "heap": gc.mem_free() if hasattr(gc, "mem_free") else 0,
            "queue": QUEUE,
            "largest": LARGEST,
            "models": {path: f"{crc:08x}" for crc, path in self._paths.items()},
            "sizes": {path: os.stat(path)[6] for path in self._paths.values()},
            "arena": i.arena_bytes,
            "kernels": ",".join(i.kernels),
            "python": _has_fallbacks(),
        }
        if self._pusher and self._pusher.rom:
            about["rom"] = self._pusher.rom.room()
        elif (free := _free()) is not None:
            about["free"] = free
        return about

    def unload(self) -> None:
        """Let go of all models: memory for another. They are loaded again when they are asked for."""
        for model in self._models.values():
            model.deinit()
        self._models.clear()
        gc.collect()

    def models_changed(self) -> None:
        """Look for files that have come or gone, and report the models."""
        self.unload()
        self._paths = self._find()
        self._birth()

    def compute(self, model: Any, inputs: Any) -> bytes:
        """Outputs of a loaded model as they lie in its tensors; `inputs` likewise.
        ValueError: inputs of another size."""
        m = model._m
        sizes = [m.tensor(t).nbytes for t in m.inputs]
        if sum(sizes) != len(inputs):
            raise ValueError(f"{len(inputs)} bytes of inputs; the model takes {sum(sizes)}")
        at = 0
        for i, size in enumerate(sizes):
            m.write(i, Quantised(inputs[at : at + size]))
            at += size
        try:
            model.start()
            while model.resume(_SLICE_US):
                self._beat()
        finally:
            model.stop()
        return b"".join([bytes(m.output(i)) for i in range(m.info.n_outputs)])

    # --- inside -----------------------------------------------------------------------------------------

    def _say(self, error):
        text = f"{type(error).__name__}: {error}"
        if type(error).__name__ == "MQTTException" and error.args[0] in (4, 5):
            text = f"the broker refuses the name {self.name} or its password"
        if text != self._said:
            self._said = text
            print("mica: fleet:", text)

    def _birth(self):
        state = f"up {self.boot} {self.session} {json.dumps(self.about())}"
        self.client.publish(self._from + "state", state, retain=True, qos=1)

    def _leave(self):
        try:
            self.client.sock.close()
        except Exception:
            pass
        self._poll = None
        gc.collect()

    def _find(self):
        found = {}
        paths = self.settings.get("models") or find_models()
        if self._pusher:
            paths = paths + [path for path in self._pusher.paths() if path not in paths]
        for path in paths:
            try:
                found[_crc_of(path)] = path
            except OSError as e:
                print("mica: fleet:", path, e)
        return found

    def _beat(self, idle=False):
        now = time.ticks_ms()
        if time.ticks_diff(now, self._pinged) > self.keepalive * 400:
            self._pinged = now
            self.client.ping()
        wait = _WORKED_MS if idle and self.runs + self.errors != self._told_runs else _STAT_MS
        if time.ticks_diff(now, self._told) > wait:
            self._stat()

    def _stat(self):
        self._told, self._told_runs = time.ticks_ms(), self.runs + self.errors
        stat = {"runs": self.runs, "errors": self.errors, "ms": [us // 1000 for _, us in self._last_us]}
        stat["us"] = {f"{crc:08x}": us for crc, us in self._last_us}  # of each model, the last
        if hasattr(gc, "mem_free"):
            stat["heap"] = gc.mem_free()
        self.client.publish(self._from + "stat", json.dumps(stat), retain=True)

    def _heard(self, topic, message, *_):
        self._taken += 1
        if topic != self._run_topic:
            if self._pusher:
                self._pusher.handle(topic, message)
            return
        view = memoryview(message)
        if len(view) < 24 or view[0] != VERSION or view[1] or crc32(view[24:], crc32(view[:20])) != _u32(view, 20):
            self.errors += 1
        elif len(self._todo) >= QUEUE:
            self._send(view, BUSY)
        else:
            self._todo.append((view, time.ticks_ms()))

    def _answer(self, view, came):
        _, _, deadline, crc, _, _, _, _, _ = struct.unpack(_REQUEST, view)
        if deadline and time.ticks_diff(time.ticks_ms(), came) > 10 * deadline:
            return
        begun = time.ticks_us()
        status = OK
        try:
            model = self._load(crc)
            if model is None:
                status, data = NO_MODEL, b""
            else:
                data = self.compute(model, view[24:])
        except ValueError as e:
            status, data = BAD_REQUEST, str(e)
        except Exception as e:
            status, data = FAILED, f"{type(e).__name__}: {e}"
        us = max(0, time.ticks_diff(time.ticks_us(), begun))
        if status == OK and len(data) > _LARGEST_ANSWER:
            status, data = FAILED, f"{len(data)} bytes of outputs; a message takes {_LARGEST_ANSWER}"
        if status == OK:
            self.runs += 1
            self._last_us.append((crc, us))
            if len(self._last_us) > 16:
                self._last_us.pop(0)
        else:
            self.errors += 1
        self._send(view, status, data, us)

    def _load(self, crc):
        """The loaded model of this CRC-32; None where there is no such file.
        Where memory is short, others are let go."""
        model = self._models.get(crc)
        if model is not None or crc not in self._paths:
            return model
        from mica.model import Model

        path = self._paths[crc]
        try:
            model = Model(path)
        except MemoryError:
            self.unload()
            model = Model(path)
        self._models[crc] = model
        return model

    def _send(self, view, status, data=b"", us=0):
        if isinstance(data, str):
            data = data.encode()
        _, _, _, crc, job, seq, attempt, stage, _ = struct.unpack(_REQUEST, view)
        free = QUEUE - len(self._todo)
        head = struct.pack(
            _ANSWER, VERSION, status, free, crc, job, seq, attempt, stage, self.boot, us & 0xFFFFFFFF, 0
        )[:28]
        self.client.publish(self._from + "out", head + struct.pack("<I", crc32(data, crc32(head))) + data)


def _u32(view, at):
    return struct.unpack_from("<I", view, at)[0]

"""A board that listens tells a house: each event goes to an MQTT broker,
where Home Assistant has a device trigger for each word.

    words = mica.audio.listen(model, microphone)
    house = mica_fleet.house.House("fleet.json", ["yes", "no"])

    async def main():
        asyncio.create_task(house.live())
        async for event in words:
            house.tell(event)

fleet.json of `mica fleet join` tells the fleet's broker, and `mica fleet serve --ha` shows the board. A dict such as
{"name": "kitchen", "host": "192.168.1.5", "user": "ears", "password": "..."} tells a broker of one's own,
and the board shows itself.

    mica/F/from/B/event   (own broker: mica/NAME/event) JSON: label, score, ms
    .../state             retained, and the will, as in mica_fleet
"""

import asyncio
import json
import sys
import time

import mica_fleet

_WAITING = 8  # events that are kept while the broker is away; of more, the oldest go
_LOOK_MS = 50
_TRIGGER = {"platform": "device_automation", "automation_type": "trigger", "type": "recognised"}
_TRIGGER["value_template"] = "{{ value_json.label }}"


class House:
    """`client`: an object with umqtt.simple's methods in place of our own client.
    told: how many events the broker has."""

    def __init__(self, settings: str | dict[str, Any], labels: Sequence[str], client: Any | None = None) -> None:
        if isinstance(settings, str):
            with open(settings) as f:
                settings = json.load(f)
        self.settings: dict[str, Any] = settings
        self.name: str = settings["name"]
        if not all(c.isalpha() or c.isdigit() or c in "_-" for c in self.name):  # Home Assistant drops it unseen
            raise ValueError(f"name: letters a to z, digits, - and _ alone, not {self.name}")
        self.labels: list[str] = [str(label) for label in labels]
        self.told = 0
        fleet = settings.get("fleet")
        self._own = fleet is None
        self._base = f"mica/{self.name}/" if self._own else f"mica/{fleet}/from/{self.name}/"
        self._waiting = []
        self._boot, self._session = mica_fleet._number(), 0
        self._keepalive = settings.get("keepalive", 10)
        if client is None:
            from mica_fleet.mqtt import Client

            user = settings.get("user") if self._own else self.name
            host, port = settings["host"], settings.get("port", 1883)
            client = Client(mica_fleet.client_id(settings), host, port, user, settings.get("password"), self._keepalive)
        self.client = client
        client.set_callback(lambda topic, message, *_: None)

    def tell(self, event: Any) -> None:
        """Hand an event of mica.audio.listen on; problems are not events. Returns at once."""
        if event.label is None:
            return
        said = {"label": str(event.label), "score": round(event.score, 3), "ms": event.ms}
        self._waiting.append(json.dumps(said))
        del self._waiting[:-_WAITING]

    async def live(self) -> None:
        """Send what was told, for ever; connect again when the broker was away.
        A broker that is slow makes others wait."""
        wait = 1
        while True:
            try:
                self._connect()
                wait = 1
                while True:
                    self._send()
                    await asyncio.sleep_ms(_LOOK_MS)
            except Exception as e:
                print("mica: house:", e)
            await asyncio.sleep(wait)
            wait = min(2 * wait, 30)

    def _connect(self):
        c = self.client
        if self.settings.get("wifi"):
            mica_fleet.connect_wifi(*self.settings["wifi"])
        self._session += 1
        c.set_last_will(self._base + "state", f"down {self._boot} {self._session}", retain=True, qos=1)
        c.connect()
        self._pinged = time.ticks_ms()
        board = getattr(sys.implementation, "_machine", sys.platform)
        about = json.dumps({"board": board, "words": self.labels, "largest": 0, "models": {}})
        c.publish(self._base + "state", f"up {self._boot} {self._session} {about}", retain=True, qos=1)
        if self._own:
            config = f"homeassistant/device/mica_{self.name}/config"
            c.publish(config, json.dumps(self._device(board)), retain=True, qos=1)

    def _device(self, board):
        """Message to Home Assistant; host_tools/mica_fleet/home_assistant.py has the same triggers for a fleet."""
        common = dict(_TRIGGER, topic=self._base + "event")
        triggers = {f"word{k}": dict(common, subtype=w, payload=w) for k, w in enumerate(self.labels)}
        device = {"identifiers": ["mica_" + self.name], "name": self.name, "manufacturer": "mica", "model": board}
        return {"device": device, "origin": {"name": "mica"}, "components": triggers}

    def _send(self):
        c = self.client
        while self._waiting:
            c.publish(self._base + "event", self._waiting[0], qos=1)
            self._waiting.pop(0)
            self.told += 1
        c.check_msg()
        if time.ticks_diff(time.ticks_ms(), self._pinged) > self._keepalive * 400:
            self._pinged = time.ticks_ms()
            c.ping()

"""A client for MQTT 3.1.1: will, subscribe, publish with QoS 0 and 1, ping. Methods are named as umqtt.simple's.

    c = Client("bench-3", "192.168.1.5", user="bench-3", password="...", keepalive=10)
    c.set_callback(print)  # topic and message
    c.connect()
    c.subscribe("lamp/set")
    c.wait_msg()

A packet is one write: pieces make a round trip last 40 ms. It is there whole after `timeout_ms`. A message that comes
while a call waits goes to the callback in the next check_msg() or wait_msg(), so a callback may publish.
OSError: the connection is gone; MQTTException: the broker refuses. After either, connect() again.
"""

import select
import socket
import struct
import time

_TIMED_OUT, _RESET = 110, 104  # ETIMEDOUT, ECONNRESET


class MQTTException(Exception):  # with the number of CONNACK, or a text
    pass


def _bytes(text):
    return text.encode() if isinstance(text, str) else text


def _field(text):
    return struct.pack("!H", len(_bytes(text))) + _bytes(text)


def _left(since, ms):
    """Milliseconds that are left of `ms`; raises OSError where there are none."""
    left = ms - time.ticks_diff(time.ticks_ms(), since)
    if left <= 0:
        raise OSError(_TIMED_OUT)
    return left


class Client:
    """largest: bytes of a packet that is taken; a longer one is dropped. wrap: makes a TLS socket of the socket."""

    timeout_ms = 5000
    sock = cb = _will = None
    dropped = _pid = 0  # dropped: packets that were too long

    def __init__(
        self,
        client_id: str | bytes,
        server: str,
        port: int = 1883,
        user: str | bytes | None = None,
        password: str | bytes | None = None,
        keepalive: int = 0,
        largest: int = 65536,
        wrap: Callable[[Any], Any] | None = None,
    ) -> None:
        self.client_id, self.server, self.port, self.user, self.password = client_id, server, port, user, password
        self.keepalive, self.largest, self.wrap = keepalive, largest, wrap
        self.close()

    def set_callback(self, f: Callable[[bytes, memoryview], object]) -> None:
        self.cb = f

    def set_last_will(self, topic: str | bytes, msg: str | bytes, retain: bool = False, qos: int = 0) -> None:
        self._will = (topic, msg, retain, qos)

    def connect(self) -> None:
        self.close()
        address = socket.getaddrinfo(self.server, self.port, 0, socket.SOCK_STREAM)[0][-1]
        self.sock = sock = socket.socket()
        sock.settimeout(self.timeout_ms / 1000)  # of connect, and of each write
        sock.connect(address)
        self.sock = self.wrap(sock) if self.wrap else sock
        self._recv = getattr(self.sock, "recv", self.sock.read)  # a TLS socket has only the second
        self._poll = select.poll()
        self._poll.register(self.sock, select.POLLIN)
        flags, body = 2, _field(self.client_id)
        if self._will:
            topic, msg, retain, qos = self._will
            flags |= 4 | qos << 3 | bool(retain) << 5
            body += _field(topic) + _field(msg)
        if self.user is not None:
            flags |= 0xC0
            body += _field(self.user) + _field(self.password or "")
        self._write(0x10, b"\x00\x04MQTT\x04" + struct.pack("!BH", flags, self.keepalive), body)
        kind, answer = self._packet()
        if kind != 0x20 or not answer or answer[-1]:
            self.close()
            raise MQTTException(answer[-1] if kind == 0x20 and answer else "no CONNACK")

    def disconnect(self) -> None:
        self._write(0xE0)  # the will is not sent
        self.close()

    def close(self) -> None:
        sock, self.sock = self.sock, None
        # Packet id -> SUBACK's code, 0 for PUBACK; messages that came while a call waited; when a ping was sent.
        self._acks, self._inbox, self._asked = {}, [], None
        if sock is not None:
            sock.close()

    def publish(self, topic: str | bytes, msg: str | bytes, retain: bool = False, qos: int = 0) -> None:
        """With QoS 1 it returns when the broker has it."""
        if not qos:
            return self._write(0x30 | bool(retain), _field(topic), _bytes(msg))
        pid = self._pid = self._pid % 0xFFFF + 1
        self._write(0x32 | bool(retain), _field(topic), struct.pack("!H", pid), _bytes(msg))
        self._wait_for(pid)

    def subscribe(self, topic: str | bytes, qos: int = 0) -> None:
        pid = self._pid = self._pid % 0xFFFF + 1
        self._write(0x82, struct.pack("!H", pid), _field(topic), bytes([qos]))
        if self._wait_for(pid) == 0x80:
            raise MQTTException("may not subscribe to " + str(topic))

    def ping(self) -> None:
        self._asked = self._asked or time.ticks_ms()
        self._write(0xC0)

    def check_msg(self, wait: int = 0) -> None:
        """Take a packet that is there, or comes within `wait` ms (-1: at any time); a message goes to the callback."""
        if not self._inbox:
            if self._ready(wait if wait >= 0 or self._asked is None else self.timeout_ms):
                self._one()
            elif self._asked is not None:
                _left(self._asked, self.timeout_ms)  # a ping has no answer
        if self._inbox:
            self.cb(*self._inbox.pop(0))

    def wait_msg(self) -> None:
        self.check_msg(-1)

    def _ready(self, ms):
        if self.sock is None:
            raise OSError(_RESET)
        return bool(self._poll.poll(ms))

    def _write(self, kind, *parts):
        if self.sock is None:
            raise OSError(_RESET)
        n, head = sum([len(p) for p in parts]), bytearray((kind,))
        while n > 127:
            head.append(n & 127 | 128)
            n >>= 7
        head.append(n)
        packet = b"".join((head,) + parts)
        if self.sock.write(packet) != len(packet):
            raise OSError(_TIMED_OUT)

    def _read(self, n, begun):
        """n bytes; None where they are more than are taken."""
        buf, at = bytearray(n) if n <= self.largest else None, 0
        while at < n:
            if not self._ready(_left(begun, self.timeout_ms)):
                continue
            piece = self._recv(min(n - at, 1024))
            if not piece:
                raise OSError(_RESET)
            if buf is not None:
                buf[at : at + len(piece)] = piece
            at += len(piece)
        return buf

    def _packet(self):
        """The next packet's first byte, and the rest; None where that is too long."""
        begun = time.ticks_ms()
        kind, n = self._read(1, begun)[0], 0
        for shift in (0, 7, 14, 21):
            b = self._read(1, begun)[0]
            n |= (b & 127) << shift
            if b < 128:
                break
        return kind, self._read(n, begun)  # one that is too long is read away, or the time ends

    def _one(self):
        """Take one packet: a message goes to the inbox, an acknowledgement is noted."""
        kind, body = self._packet()
        if kind == 0xD0:
            self._asked = None
        elif body is None:
            self.dropped += 1
        elif kind in (0x40, 0x90) and len(body) >= 2:
            self._acks[body[0] << 8 | body[1]] = body[2] if kind == 0x90 and len(body) > 2 else 0
        elif kind & 0xF0 == 0x30 and len(body) >= 2:
            at = 2 + (body[0] << 8 | body[1])
            topic = bytes(body[2:at])
            if kind & 6:
                self._write(0x40, body[at : at + 2])
                at += 2
            self._inbox.append((topic, memoryview(body)[at:]))

    def _wait_for(self, pid):
        begun = time.ticks_ms()
        self._acks.clear()  # of calls that were broken off
        while pid not in self._acks:
            self._ready(_left(begun, self.timeout_ms)) and self._one()
        return self._acks.pop(pid)

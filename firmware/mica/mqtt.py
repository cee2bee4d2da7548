"""A small MQTT 3.1.1 client: will, subscribe, publish, ping. It has the methods of umqtt.simple that mica.fleet calls.

Every packet is one write, so that a small one does not wait for the acknowledgement of the one before. Packet numbers wrap.
Every wait ends after `timeout` ms, also in the middle of a packet, with OSError. Messages that come while a publication is being
acknowledged are kept for the next check_msg(). A message is handed on as a memoryview that holds until the next call; a
packet that is longer than `max_packet` is read past, and counted in `dropped`.
"""

import select
import socket
import struct
import time
from errno import ECONNRESET, EPROTO, ETIMEDOUT

_IN, _OUT = select.POLLIN, select.POLLOUT


class MQTTException(OSError):
    """The broker's refusal; its code is args[0]: 4 and 5 are a wrong user or password."""


def _packet(kind, *parts):
    """The fixed header, and the parts behind it, as one buffer."""
    size = sum([len(p) for p in parts])
    head = bytearray((kind,))
    n = size
    while n > 127:
        head.append(n & 127 | 128)
        n >>= 7
    head.append(n)
    at = len(head)
    packet = bytearray(at + size)
    packet[:at] = head
    for p in parts:
        packet[at : at + len(p)] = p
        at += len(p)
    return packet


def _text(text):
    text = text.encode() if isinstance(text, str) else text
    return struct.pack("!H", len(text)) + text


class MQTTClient:
    def __init__(
        self,
        client_id,
        server,
        port=0,
        user=None,
        password=None,
        keepalive=0,
        ssl=None,
        timeout=5000,
        max_packet=33000,
    ):
        """`ssl` is an ssl.SSLContext, for ports that have one. `keepalive` in seconds; call ping() more often than that."""
        self.client_id = client_id
        self.server = server
        self.port = port or (8883 if ssl else 1883)
        self.user = user
        self.password = password
        self.keepalive = keepalive
        self.ssl = ssl
        self.timeout = timeout
        self.sock = None
        self.dropped = 0
        self._callback = None
        self._will = None
        self._poll = None
        self._id = 0
        self._buffer = bytearray(max_packet)
        self._view = memoryview(self._buffer)
        self._one = bytearray(1)
        self._kept = []  # messages that came while we waited for an acknowledgement

    def set_callback(self, f):
        self._callback = f

    def set_last_will(self, topic, msg, retain=False, qos=0):
        self._will = (topic, msg, retain, qos)

    def connect(self, clean_session=True):
        """Returns whether the broker had a session of ours. Raises MQTTException, or OSError."""
        self.close()
        address = socket.getaddrinfo(self.server, self.port)[0][-1]
        sock = socket.socket()
        try:
            sock.settimeout(self.timeout / 1000)
            sock.connect(address)
            try:
                sock.setsockopt(6, 1, 1)  # TCP_NODELAY; a port may not know it
            except (OSError, AttributeError):
                pass
            if self.ssl:
                sock = self.ssl.wrap_socket(sock, server_hostname=self.server)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            raise
        self.sock = sock
        self._poll = select.poll()
        self._poll.register(sock, _IN)
        flags = 2 if clean_session else 0
        parts = [b"\x00\x04MQTT\x04", b"", struct.pack("!H", self.keepalive), _text(self.client_id)]
        if self._will:
            topic, msg, retain, qos = self._will
            flags |= 4 | qos << 3 | retain << 5
            parts += (_text(topic), _text(msg))
        if self.user is not None:
            flags |= 0xC0
            parts += (_text(self.user), _text(self.password))
        parts[1] = bytes((flags,))
        self._write(_packet(0x10, *parts))
        kind, size = self._read_packet()
        if kind >> 4 != 2 or size != 2:
            raise OSError(EPROTO)
        if self._buffer[1]:
            raise MQTTException(self._buffer[1])
        return bool(self._buffer[0] & 1)

    def close(self):
        """Let go of the socket, without a word: the broker sends the will."""
        sock, self.sock = self.sock, None
        self._kept = []
        if sock:
            sock.close()

    def disconnect(self):
        """A goodbye: the broker sends no will."""
        try:
            self._write(b"\xe0\x00")
        finally:
            self.close()

    def ping(self):
        self._write(b"\xc0\x00")

    def publish(self, topic, msg, retain=False, qos=0):
        """`msg` is a buffer, or a list of buffers that follow one another. With `qos` 1 returns when it is acknowledged."""
        parts = msg if isinstance(msg, list) else [msg.encode() if isinstance(msg, str) else msg]
        if not qos:
            self._write(_packet(0x30 | retain, _text(topic), *parts))
            return
        number = self._next_id()
        self._write(_packet(0x32 | retain, _text(topic), struct.pack("!H", number), *parts))
        self._wait_for(4, number)

    def subscribe(self, topic, qos=0):
        number = self._next_id()
        self._write(_packet(0x82, struct.pack("!H", number), _text(topic), bytes((qos,))))
        if self._wait_for(9, number) & 0x80:
            raise MQTTException(0x80)

    def check_msg(self):
        """Takes what is there, without waiting: one packet. The callback gets (topic, message)."""
        if self._kept:
            self._callback(*self._kept.pop(0))
        elif self._poll.poll(0):
            self._take(*self._read_packet())

    def wait_msg(self, ms=-1):
        """The same, after waiting up to `ms` for something to be there."""
        if self._kept or self._poll.poll(ms):
            self.check_msg()

    # ---- packets

    def _next_id(self):
        self._id = self._id % 65535 + 1
        return self._id

    def _wait_for(self, kind, number):
        """Until the packet of this kind with our number; the byte behind it, if there is one."""
        end = time.ticks_add(time.ticks_ms(), self.timeout)
        while time.ticks_diff(end, time.ticks_ms()) > 0:
            got, size = self._read_packet()
            if got >> 4 == kind and size >= 2 and self._buffer[0] << 8 | self._buffer[1] == number:
                return self._buffer[2] if size > 2 else 0
            if got >> 4 == 3:
                topic, msg = self._message(got, size)
                self._kept.append((bytes(topic), bytes(msg)))
        raise OSError(ETIMEDOUT)

    def _take(self, kind, size):
        if kind >> 4 == 3:
            self._callback(*self._message(kind, size))

    def _message(self, kind, size):
        n = self._buffer[0] << 8 | self._buffer[1]
        at = n + 2
        if kind & 6:
            at += 2
        if size < at:
            raise OSError(EPROTO)
        if kind & 6 == 2:
            # Acknowledged before it is handed on: what is asked twice is answered twice, and does no harm.
            self._write(b"\x40\x02" + bytes(self._view[n + 2 : n + 4]))
        return bytes(self._view[2 : n + 2]), self._view[at:size]

    def _read_packet(self):
        """(first byte, size) of a packet whose rest is in the buffer. One that is too long is read past."""
        while True:
            self._read(self._one, 1)
            kind = self._one[0]
            size = shift = 0
            while True:
                self._read(self._one, 1)
                size |= (self._one[0] & 127) << shift
                if self._one[0] < 128:
                    break
                shift += 7
                if shift > 21:
                    raise OSError(EPROTO)
            if size <= len(self._buffer):
                self._read(self._view, size)
                return kind, size
            self.dropped += 1
            while size:
                n = min(size, len(self._buffer))
                self._read(self._view, n)
                size -= n

    def _read(self, into, size):
        self._move(into, size, _IN)

    def _write(self, data):
        if self.sock is None:
            raise OSError(ECONNRESET)
        self._move(data, len(data), _OUT)

    def _move(self, data, size, event):
        """Read or write `size` bytes, in `timeout` ms."""
        sock = self.sock
        move = sock.write if event == _OUT else sock.readinto
        view = memoryview(data)
        end = time.ticks_add(time.ticks_ms(), self.timeout)
        at = 0
        try:
            while at < size:
                n = move(view[at:size])
                if n:
                    at += n
                    continue
                if n == 0:
                    raise OSError(ECONNRESET)
                left = time.ticks_diff(end, time.ticks_ms())
                if event == _OUT:
                    self._poll.modify(sock, _IN | _OUT)
                if left <= 0 or not self._poll.poll(left):
                    raise OSError(ETIMEDOUT)
        finally:
            if event == _OUT:
                self._poll.modify(sock, _IN)

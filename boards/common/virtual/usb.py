"""The USB device controller of both chips, with a computer at its other end that finds the board's serial port.

Registers: RP2350 datasheet, 12.7; the RP2040 has the same ones.
"""

import ctypes
import struct
from collections.abc import Callable

from blocks import Block
from clock import Alarm, Clock

DPRAM_BYTES = 0x1000
BUFFER_CONTROL, BUFFER_CONTROL_END = 0x80, 0x100  # of endpoint 0, in and out; the others follow
AVAILABLE, FULL, LENGTH = 1 << 10, 1 << 15, 0x3FF
DOUBLE_BUFFERED, INTERRUPT_EVERY = 1 << 30, 1 << 29  # of an endpoint's control
PACKET = 64
PACKET_NANOS = 10_000  # until a packet is taken or given; a full-speed bus needs about 50,000

SIE_CTRL, SIE_STATUS, BUFF_STATUS, ABORT, ABORT_DONE = 0x4C, 0x50, 0x58, 0x60, 0x64
INTR, INTE, INTF, INTS = 0x8C, 0x90, 0x94, 0x98
PULL_UP = 1 << 16
SETUP_RECEIVED, BUS_RESET, CONNECTED = 1 << 17, 1 << 19, 1 << 16
INT_BUFFERS, INT_BUS_RESET, INT_SETUP = 1 << 4, 1 << 12, 1 << 16
# Kept as written: address, MAIN_CTRL, stalls, where its pins go, power. Bits 24 to 31 of MAIN_CTRL are of no concern.
PLAIN = (0x00, 0x40, 0x48, 0x68, 0x74, 0x78, 0x7C, 0x80, 0x84, 0x88, INTE, INTF, *range(0x04, 0x40, 4))

SET_ADDRESS, GET_DESCRIPTOR, SET_CONFIGURATION, SET_LINE_CODING, SET_LINE_STATE = 5, 6, 9, 0x20, 0x22
DEVICE, CONFIGURATION, INTERFACE, ENDPOINT = 1, 2, 4, 5
COMMUNICATION, DATA = 2, 10  # classes


class Transfer:
    """A control transfer: `data` goes out, or comes in; `done` is called with what has come."""

    def __init__(self, setup: bytes, data: bytes, done: Callable[[bytes], None]) -> None:
        self.setup, self.data, self.done = setup, data, done
        self.inwards = bool(setup[0] & 0x80)
        self.received = bytearray()


class Usb(Block):
    """`received` gets bytes that the board has sent; `line` is the controller's interrupt."""

    def __init__(self, clock: Clock, line: Callable[[bool], None], received: Callable[[bytes], None]) -> None:
        super().__init__("USB", (*PLAIN, SIE_CTRL, ABORT))
        self.clears = {SIE_STATUS, BUFF_STATUS}
        self.clock, self.line, self.received = clock, line, received
        self.memory = ctypes.create_string_buffer(DPRAM_BYTES)
        self.status = self.buffers = 0
        self.alarms: dict[tuple[str, int], Alarm] = {}
        self.queue = bytearray()  # for the board, from before it has come up, too
        self.dtr = False  # whether a program has the port open
        self.attached = False
        self.forget()

    def forget(self) -> None:
        """The bus was reset."""
        self.transfers: list[Transfer] = []
        self.armed: set[int] = set()  # endpoints with a buffer for us
        self.in_endpoint = self.out_endpoint = -1
        self.interface = 0
        self.ready = False

    # --- registers

    def read(self, o: int) -> int | None:
        if o == SIE_STATUS:
            return self.status | (CONNECTED if self.attached else 0) | 1  # and VBUS
        if o == BUFF_STATUS:
            return self.buffers
        if o == ABORT_DONE:
            return self.get(ABORT)
        if o == INTR:
            return self.raw()
        if o == INTS:
            return (self.raw() | self.get(INTF)) & self.get(INTE)
        return super().read(o)

    def write(self, o: int, value: int) -> bool:
        """False: no such register here."""
        if o == SIE_STATUS:
            was_reset = self.status & BUS_RESET
            self.status &= ~value
            if was_reset and not self.status & BUS_RESET:
                self.forget()
                self.enumerate()
        elif o == BUFF_STATUS:
            self.buffers &= ~value
        elif not super().write(o, value) and o != ABORT_DONE:
            return False
        elif o == SIE_CTRL:
            if value & PULL_UP and not self.attached:
                self.after("reset", 0, self.reset_bus)
            self.attached = bool(value & PULL_UP)
        self.look()
        return True

    def raw(self) -> int:
        setup, reset = self.status & SETUP_RECEIVED, self.status & BUS_RESET
        return (INT_BUFFERS if self.buffers else 0) | (INT_SETUP if setup else 0) | (INT_BUS_RESET if reset else 0)

    def look(self) -> None:
        self.line(bool((self.raw() | self.get(INTF)) & self.get(INTE)))

    def reset_bus(self) -> None:
        self.status |= BUS_RESET
        self.look()

    # --- the serial port

    def send(self, data: bytes) -> None:
        """Give bytes to the board; it takes them when it wants."""
        self.queue += data
        self.serve_out(self.out_endpoint)

    def set_dtr(self, on: bool) -> None:
        """A program opens or closes the port."""
        self.dtr = on
        if not on:
            self.queue.clear()
        if self.ready:
            self.send_line_state()

    def send_line_state(self) -> None:
        self.control(0x21, SET_LINE_STATE, 3 if self.dtr else 0, self.interface)

    # --- what every computer does with a new device

    def enumerate(self) -> None:
        self.control(0x00, SET_ADDRESS, 1)
        self.control(0x80, GET_DESCRIPTOR, DEVICE << 8, length=18)

        def whole(head: bytes) -> None:
            (size,) = struct.unpack_from("<H", head, 2)
            self.control(0x80, GET_DESCRIPTOR, CONFIGURATION << 8, length=size, done=self.configure)

        self.control(0x80, GET_DESCRIPTOR, CONFIGURATION << 8, length=9, done=whole)

    def configure(self, descriptors: bytes) -> None:
        kind, at = -1, 0
        while at + 2 <= len(descriptors) and descriptors[at] >= 2:
            entry = descriptors[at : at + descriptors[at]]
            if entry[1] == INTERFACE:
                kind = entry[5]
                if kind == COMMUNICATION:
                    self.interface = entry[2]
            elif entry[1] == ENDPOINT and kind == DATA:
                if entry[2] & 0x80:
                    self.in_endpoint = entry[2] & 15
                else:
                    self.out_endpoint = entry[2] & 15
            at += descriptors[at]

        def up(_: bytes) -> None:
            self.ready = True
            if self.dtr:
                self.send_line_state()

        self.control(0x00, SET_CONFIGURATION, 1)
        coding = struct.pack("<IBBB", 115_200, 0, 0, 8)
        self.control(0x21, SET_LINE_CODING, 0, self.interface, data=coding, done=up)

    def control(
        self,
        kind: int,
        request: int,
        value: int,
        index: int = 0,
        *,
        length: int = 0,
        data: bytes = b"",
        done: Callable[[bytes], None] = lambda received: None,
    ) -> None:
        """Make a control transfer behind those that wait."""
        packet = struct.pack("<BBHHH", kind, request, value, index, length or len(data))
        self.transfers.append(Transfer(packet, data, done))
        if len(self.transfers) == 1:
            self.after("setup", 0, self.set_up)

    def set_up(self) -> None:
        if self.transfers:
            self.armed.discard(0)
            self.memory[0:8] = self.transfers[0].setup
            self.status |= SETUP_RECEIVED
            self.look()

    def end_transfer(self) -> None:
        transfer = self.transfers.pop(0)
        transfer.done(bytes(transfer.received))
        if self.transfers:
            self.after("setup", 0, self.set_up)

    # --- buffers of endpoints

    def after(self, what: str, endpoint: int, action: Callable[[], None]) -> None:
        key = (what, endpoint)
        if key not in self.alarms:
            self.alarms[key] = self.clock.alarm(action)
        self.alarms[key].action = action
        self.alarms[key].schedule(PACKET_NANOS)

    def word(self, at: int) -> int:
        return int.from_bytes(self.memory[at : at + 4], "little")

    def set_word(self, at: int, value: int) -> None:
        self.memory[at : at + 4] = value.to_bytes(4, "little")

    def control_written(self, offset: int) -> None:
        """The board has written a buffer's control."""
        offset &= ~3
        if not self.word(offset) & (AVAILABLE | AVAILABLE << 16):
            return
        endpoint = (offset - BUFFER_CONTROL) >> 3
        if offset & 4:
            self.armed.add(endpoint)
            self.serve_out(endpoint)
        else:
            self.after("in", endpoint, lambda: self.take_in(endpoint))

    def endpoint_control(self, endpoint: int, out: bool) -> int:
        return self.word(8 * endpoint + 4 * out) if endpoint else 0x100

    def buffer_done(self, endpoint: int, out: bool) -> None:
        self.buffers |= 1 << 2 * endpoint + out
        self.look()

    def take_in(self, endpoint: int) -> None:
        """The board has a packet for us, or two."""
        register = BUFFER_CONTROL + 8 * endpoint
        control, where = self.word(register), self.endpoint_control(endpoint, False)
        packets = []
        for half in range(2 if where & DOUBLE_BUFFERED else 1):
            bits = control >> 16 * half
            if bits & AVAILABLE:
                at = (where & 0xFFC0) + PACKET * half
                packets.append(bytes(self.memory[at : at + (bits & LENGTH)]))
                control &= ~((AVAILABLE | FULL) << 16 * half)
        self.set_word(register, control)
        self.buffer_done(endpoint, False)
        for packet in packets:
            if endpoint == 0:
                self.control_in(packet)
            elif endpoint == self.in_endpoint and packet:
                self.received(packet)

    def control_in(self, packet: bytes) -> None:
        if not self.transfers:
            return
        if self.transfers[0].inwards:
            self.transfers[0].received += packet  # the empty packet that ends it goes the other way
        elif not packet:
            self.end_transfer()

    def serve_out(self, endpoint: int) -> None:
        """The board waits for a packet: give it one where there is one."""
        there = bool(self.transfers) if endpoint == 0 else endpoint == self.out_endpoint and bool(self.queue)
        if endpoint in self.armed and there:
            self.after("out", endpoint, lambda: self.give_out(endpoint))

    def give_out(self, endpoint: int) -> None:
        if endpoint not in self.armed:
            return
        register = BUFFER_CONTROL + 8 * endpoint + 4
        control = self.word(register)
        ends = False
        if endpoint == 0:
            if not self.transfers:
                return
            ends = self.transfers[0].inwards
            packet = b"" if ends else self.transfers[0].data
        else:
            size = min(control & LENGTH, PACKET)
            packet = bytes(self.queue[:size])
            del self.queue[:size]
        self.armed.discard(endpoint)
        at = self.endpoint_control(endpoint, True) & 0xFFC0
        self.memory[at : at + len(packet)] = packet
        self.set_word(register, control & ~(AVAILABLE | LENGTH) | FULL | len(packet))
        self.buffer_done(endpoint, True)
        if ends:
            self.end_transfer()

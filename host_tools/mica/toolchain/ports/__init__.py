"""Firmware for each port of MicroPython: one module each, with one object that knows how it is built."""

from mica.toolchain.ports import esp32, qemu, rp2, unix
from mica.toolchain.ports.base import Job, PortBuild

BUILDS: dict[str, PortBuild] = {port.facts.name: port for port in (unix.PORT, qemu.PORT, rp2.PORT, esp32.PORT)}

__all__ = ["BUILDS", "Job", "PortBuild"]

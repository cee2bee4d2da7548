"""mica: int8 neural networks on MicroPython boards. The host side: compiler, firmware builder, device tools."""

__version__ = "0.1.0"

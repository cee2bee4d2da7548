"""Numbers that differ between the two chips. Code that differs is in rp2040.py and rp2350.py."""

from types import SimpleNamespace as Facts  # of a chip: a column of the table below

from unicorn import arm_const as arm

COUNTERS = 0x4FF00000
APB, NOTHING, SINGLE = (2, 3), (0, 0), (-1, -1)  # cycles, as rp2040js has them

_TABLE = {
    "name": ("rp2040", "rp2350"),
    "cpu": (arm.UC_CPU_ARM_CORTEX_M0, arm.UC_CPU_ARM_CORTEX_M33),  # Unicorn's
    "table": ("decode_cortex_m0plus", "decode_cortex_m4"),  # of its cycles, in C
    "cpuid": (0x410CC601, 0x411FD210),
    "irqs": (32, 52),
    "priority": (0xC0, 0xF0),  # bits of an interrupt's priority that there are
    # Where flash is, the cached one first.
    "windows": ((0x10000000, 0x11000000, 0x12000000, 0x13000000), (0x10000000, 0x14000000)),
    "ram": (0x42000, 0x82000),  # bytes
    # Of registers, with the cycles that reading and writing take beyond a load and a store.
    "places": (
        (
            (0x14000000, 0x1000000, *NOTHING), (0x18000000, 0x4000, *NOTHING), (0x40000000, 0x70000, *APB),
            (0x50000000, 0x100000, *NOTHING), (0x50110000, 0x300000, *NOTHING), (COUNTERS, 0x1000, *APB),
            (0xD0000000, 0x1000, *SINGLE),
        ),
        (
            (0x40000000, 0x200000, *NOTHING), (0x50000000, 0x100000, *NOTHING), (0x50110000, 0x600000, *NOTHING),
            (COUNTERS, 0x1000, *NOTHING), (0xD0000000, 0x40000, *NOTHING),
        ),
    ),
    "clocks": (0x40008000, 0x40010000),
    "divider": (8, 16),  # from which bit on a clock's divider has whole numbers
    "psm": (0x40010000, 0x40018000),
    "plls": ((0x40028000, 0x4002C000), (0x40050000, 0x40058000)),
    "watchdog": (0x40058000, 0x400D8000),
    "watchdog_rate": (2, 1),  # numbers that it counts a microsecond
    "core_1": (1 << 16, 1 << 24),  # its bit in the power-on state machine
    "fifo": (8, 4),  # words of the FIFO between the cores
    "fifo_irqs": ((15, 16), (25, 25)),
    "bell_irq": (0, 26),
    "usb_irq": (5, 14),
    "timers": ({0x40054000: 0}, {0x400B0000: 0, 0x400B8000: 4}),  # address and first interrupt
    "timer_shift": (0, 8),  # by which the timer's interrupt registers are further up
    "pins": (0x40014000, 0x40028000),  # address of their functions
    "pin_count": (30, 48),
    "pin_irqs": (0xF0, 0x230),  # offset where the registers of their interrupts begin
    "pios": (2, 3),
    "pio_irq": (7, 15),
    "dma_irq": (11, 10),
    "buses": ((0x4003C000, 0x40044000, 0x4004C000), (0x40080000, 0x40090000, 0x400A0000)),  # SPI0, I2C0, ADC
    "apart": (0x4000, 0x8000),  # a second bus behind its first
    "i2c_irq": (23, 36),
    "spi_request": (16, 24),
    "adc_request": (36, 48),
    "adc_fifo": (4, 8),
    "stream_request": (37, 49),
    # DMA's that are modelled.
    "requests": ((1 << 20) - 1 | 1 << 36 | 1 << 37 | 1 << 63, (1 << 28) - 1 | 1 << 48 | 1 << 49 | 1 << 63),
}
RP2040, RP2350 = (Facts(**dict(zip(_TABLE, column, strict=True))) for column in zip(*_TABLE.values(), strict=True))

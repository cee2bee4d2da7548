"""Numbers that differ between the two chips. Code that differs is in rp2040.py and rp2350.py."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """cpu: Unicorn's; table: of its cycles, in C. windows: where flash is, the cached one first. places: of registers,
    with the cycles that reading and writing take beyond a load and a store. requests: DMA's that are modelled.
    """

    name: str
    cpu: int
    table: str
    cpuid: int
    irqs: int
    priority: int  # bits of an interrupt's priority that there are
    windows: tuple[int, ...]
    ram: int  # bytes
    places: tuple[tuple[int, int, int, int], ...]
    clocks: int
    divider: int  # from which bit on a clock's divider has whole numbers
    psm: int
    plls: tuple[int, int]
    watchdog: int
    watchdog_rate: int  # numbers that it counts a microsecond
    core_1: int  # its bit in the power-on state machine
    fifo: int  # words of the FIFO between the cores
    fifo_irqs: tuple[int, int]
    bell_irq: int
    usb_irq: int
    timers: dict[int, int]  # address and first interrupt
    timer_shift: int  # by which the timer's interrupt registers are further up
    pins: int  # address of their functions
    pin_count: int
    pin_irqs: int  # offset where the registers of their interrupts begin
    pios: int
    pio_irq: int
    dma_irq: int
    buses: tuple[int, int, int]  # addresses of SPI0, I2C0, ADC
    apart: int  # a second bus behind its first
    i2c_irq: int
    spi_request: int
    adc_request: int
    adc_fifo: int
    stream_request: int
    requests: int


COUNTERS = 0x4FF00000

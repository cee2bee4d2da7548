# An RP2 restarts as a drive; it answers no more.
import machine

machine.bootloader()

# A language model: a sentence becomes a call such as `light office on`, and the call drives pins.
# boards: UNIX MPS2_AN385 RPI_PICO@emu
import mica

try:
    from machine import Pin

    lamps = {"kitchen": Pin(2, Pin.OUT), "office": Pin(3, Pin.OUT), "hall": Pin(4, Pin.OUT)}
except ImportError:
    lamps = {}  # no pins here

m = mica.Model("command.mica")


def obey(sentence):
    call = mica.complete(m, sentence + "\n", 20)
    words = call.split(" ")
    if words[0] == "light" and words[-1] in ("on", "off"):
        for room, pin in lamps.items():
            if words[1] in (room, "all"):
                pin.value(words[-1] == "on")
    return call


print(obey("It's too dark in the office"))
print(obey("could you dim the cellar lamp to sixty-nine"))
print(obey("set a timer for twenty two minutes"))
# while True: print(obey(input("> ")))
#: light office on
#: light cellar 69
#: timer 22m

# A frame of a camera at a board's pins, once it has had `settle` milliseconds to adjust itself.
# Returns its bytes, and that none is late.
def _mica_record_camera(kind, id, sda, scl, settings, settle):
    from time import sleep_ms

    from machine import I2C, Pin

    cameras = __import__("mica.camera").camera  # of the board's mica, not of this one
    i2c = I2C(id, sda=Pin(sda), scl=Pin(scl), freq=100000)
    with getattr(cameras, kind.upper())(i2c, **settings) as cam:
        sleep_ms(settle)
        return cam.frame()[0], 0

# n samples of an analogue pin, one each `period` microseconds, around the middle of its range.
# Returns them and how many
# came late: by more than a period, so that others after them were too.
def _mica_record_adc(pin, n, period):
    from array import array
    from time import ticks_add, ticks_diff, ticks_us

    from machine import ADC, Pin

    adc = ADC(Pin(pin))
    read = adc.read_u16
    x = array("h", bytes(2 * n))
    late = 0
    due = ticks_us()
    for i in range(n):
        while True:
            left = ticks_diff(due, ticks_us())
            if left <= 0:
                break
        if left < -period:
            late += 1
            due = ticks_us()
        x[i] = read() - 32768
        due = ticks_add(due, period)
    return x, late

# MicroPython's standard unix variant without the parts whose libraries are not in our sources.
MICROPY_PY_BTREE = 0
MICROPY_PY_FFI = 0
MICROPY_PY_SSL = 0
MICROPY_SSL_MBEDTLS = 0

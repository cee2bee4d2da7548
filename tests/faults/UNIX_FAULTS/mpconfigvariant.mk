include $(VARIANT_DIR)/../../../boards/UNIX/mpconfigvariant.mk
# Every allocation from outside of gc.c goes through faults.c, which the Makefile finds here. No file of MicroPython changes.
LDFLAGS_EXTRA += -Wl,--wrap=gc_alloc,--wrap=gc_realloc

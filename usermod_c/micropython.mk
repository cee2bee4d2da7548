# The user module _mica for MicroPython's make ports (unix, qemu, ...):
#   make -C ports/qemu USER_C_MODULES=<folder that has this folder in it> [MICA_ARENA_BYTES=65536]
MICA_MOD_DIR := $(USERMOD_DIR)

# Bytes of RAM for activations, in .bss; a model that needs more gets its own block from the heap.
MICA_ARENA_BYTES ?= 16384

# The lists are shared with CMake and setuptools: one path a line, # begins a comment.
mica_listed = $(addprefix $(MICA_MOD_DIR)/,$(shell sed -e 's/\#.*//' $(MICA_MOD_DIR)/$(1)))

# Only the binding has names for MicroPython's string table.
SRC_USERMOD_C += $(call mica_listed,sources-micropython.txt)
SRC_USERMOD_LIB_C += $(call mica_listed,sources.txt)

# The folder of kernels/isa/ whose mica_select.h names the kernels for this core.
MICA_ISA ?= ref

CFLAGS_USERMOD += $(addprefix -I$(MICA_MOD_DIR)/,include kernels kernels/isa/$(MICA_ISA)) -DMICA_ARENA_BYTES=$(MICA_ARENA_BYTES)

# The ports build for size; the kernels' loops are where a model's time goes.
$(BUILD)/$(notdir $(MICA_MOD_DIR))/kernels/%.o: CFLAGS += -O2

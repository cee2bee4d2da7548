# The user module _mica for MicroPython's make ports (unix, qemu, ...):
#   make -C ports/qemu USER_C_MODULES=<folder that has this folder in it> [MICA_ARENA_BYTES=65536] [MICA_WITHOUT="conv2d_s8 add_s8"]
MICA_MOD_DIR := $(USERMOD_DIR)

# Bytes of RAM for activations, in .bss; a model that needs more gets its own block from the heap.
MICA_ARENA_BYTES ?= 16384
# Bytes of scratch that a model gets at most, whatever its file wants.
MICA_SCRATCH_BYTES ?= 16384

# The lists are shared with CMake and setuptools: one path a line, # begins a comment, include FOLDER is the list of another folder.
mica_words = $(shell sed -e 's/\#.*//' -e 's/^include  */include:/' $(1))
mica_listed = $(foreach word,$(call mica_words,$(1)),$(if $(filter include:%,$(word)),$(call mica_listed,$(dir $(1))$(word:include:%=%)/sources.txt),$(dir $(1))$(word)))

# The folder of kernels/isa/ whose mica_select.h names the kernels for this core, and whose sources.txt lists its own. By default the
# compiler tells it. A port's flags are complete at the end of its makefile, so make reads that once more, to ask with them.
ifndef MICA_ISA
MICA_ISA := $(lastword $(shell $(MAKE) --no-print-directory -s -f $(firstword $(MAKEFILE_LIST)) $(MAKEOVERRIDES) MICA_ISA=ref \
    --eval 'mica-isa: ; @$$(CC) $$(CFLAGS) -E -P -x c $(MICA_MOD_DIR)/kernels/isa/choose.inc' mica-isa 2>/dev/null))
ifeq ($(wildcard $(MICA_MOD_DIR)/kernels/isa/$(MICA_ISA)/mica_select.h),)
$(warning mica: plain C, because the compiler did not tell the core; set MICA_ISA)
MICA_ISA := ref
endif
endif
MICA_ISA_DIR := kernels/isa/$(MICA_ISA)

# Only the binding has names for MicroPython's string table.
SRC_USERMOD_C += $(call mica_listed,$(MICA_MOD_DIR)/sources-micropython.txt)
SRC_USERMOD_LIB_C += $(call mica_listed,$(MICA_MOD_DIR)/sources.txt)
ifneq ($(wildcard $(MICA_MOD_DIR)/$(MICA_ISA_DIR)/sources.txt),)
MICA_ISA_SOURCES := $(call mica_listed,$(MICA_MOD_DIR)/$(MICA_ISA_DIR)/sources.txt)
SRC_USERMOD_LIB_C += $(abspath $(filter %.c,$(MICA_ISA_SOURCES)))
SRC_USERMOD_LIB_ASM += $(abspath $(filter %.S,$(MICA_ISA_SOURCES)))
endif

# Kernels that are left out, such as "conv2d_s8 add_s8".
MICA_WITHOUT ?=
CFLAGS_USERMOD += $(addprefix -DMICA_WITHOUT_,$(shell echo $(MICA_WITHOUT) | tr a-z A-Z))

CFLAGS_USERMOD += $(addprefix -I$(MICA_MOD_DIR)/,include kernels $(MICA_ISA_DIR)) -DMICA_ARENA_BYTES=$(MICA_ARENA_BYTES) -DMICA_SCRATCH_BYTES=$(MICA_SCRATCH_BYTES)

# What binding/heap.c has in the place of MicroPython's own: the emulated boards' makefile has the linker wrap it.
MICA_WRAPPED += readline mp_repl_autocomplete

# The ports build for size; the kernels' loops are where a model's time goes. Scheduled before registers are given out, they
# need more than Xtensa has.
$(BUILD)/$(notdir $(MICA_MOD_DIR))/kernels/%.o: CFLAGS += -O2 $(if $(filter xtensa,$(MICA_ISA)),-fno-schedule-insns)
# A reference beside the core's own kernel only does what that refuses; but log_mel.c's frames are walked for both.
MICA_RARE := $(filter-out log_mel.c,$(notdir $(filter %.c,$(MICA_ISA_SOURCES))))
$(MICA_RARE:%.c=$(BUILD)/$(notdir $(MICA_MOD_DIR))/kernels/ref/%.o): CFLAGS += -Os

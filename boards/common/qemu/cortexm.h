// The few Cortex-M registers and instructions that the emulated boards need, without CMSIS.
#ifndef MICA_BOARDS_QEMU_CORTEXM_H
#define MICA_BOARDS_QEMU_CORTEXM_H

#include <stdint.h>

#include "irq.h"

#define CORTEXM_SYST_CSR (*(volatile uint32_t *)0xe000e010)
#define CORTEXM_SYST_RVR (*(volatile uint32_t *)0xe000e014)
#define CORTEXM_SYST_CVR (*(volatile uint32_t *)0xe000e018)
#define CORTEXM_NVIC_ISER ((volatile uint32_t *)0xe000e100)

static inline void cortexm_irq_enable(uint32_t irq) {
    CORTEXM_NVIC_ISER[irq / 32] = 1u << irq % 32;
}

#endif

#include "../../../boards/UNIX/mpconfigvariant.h"

// Runs right before each place at which the VM looks for Ctrl-C.
void mica_faults_poll(void);
#define MICROPY_VM_HOOK_LOOP mica_faults_poll();

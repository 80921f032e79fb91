#include "memory_faults.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

#include "device_memory.h"

namespace simt {
namespace {

struct sigaction before;

// The instruction runs again after it, and meets the handler that was there before.
void on_fault(int signal, siginfo_t * info, void *) {
    const DeviceMemory & memory = DeviceMemory::instance();
    if (memory.is_device(info->si_addr)) {
        char text[256];
        memory.describe(info->si_addr, text, sizeof(text));
        [[maybe_unused]] const auto written = write(STDERR_FILENO, text, std::strlen(text));
    }
    sigaction(signal, &before, nullptr);
}

}  // namespace

void report_memory_faults() {
    struct sigaction ours = {};
    ours.sa_sigaction = on_fault;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &ours, &before);
}

}  // namespace simt

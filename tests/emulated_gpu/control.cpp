// What tests set and read, through ctypes: tests/gpu/emulated.py.
#include <cstring>
#include <string>

#include "../simt/counters.h"
#include "../simt/device_memory.h"
#include "../simt/grid.h"
#include "../simt/pinned_memory.h"
#include "../simt/runtime_handles.h"
#include "../simt/stream.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Returns the length of the text; it is written where it fits.
EXPORTED size_t emulated_gpu_counters(char * text, size_t size) {
    const std::string json = simt::counters_json();
    if (json.size() < size) {
        std::memcpy(text, json.c_str(), json.size() + 1);
    }
    return json.size();
}

EXPORTED void emulated_gpu_reset_counters() {
    simt::reset_counters();
}

EXPORTED void emulated_gpu_set_schedule(uint64_t seed) {
    simt::set_schedule(seed);
}

EXPORTED void emulated_gpu_set_thread_order(uint64_t seed) {
    simt::set_seed(seed);
}

EXPORTED void emulated_gpu_set_memory(size_t bytes) {
    const simt::DeviceLock lock(simt::device_lock());
    simt::DeviceMemory::instance().set_total_bytes(bytes);
}

EXPORTED size_t emulated_gpu_free_memory() {
    const simt::DeviceLock lock(simt::device_lock());
    return simt::DeviceMemory::instance().free_bytes();
}

EXPORTED void emulated_gpu_set_integrated(int is_integrated) {
    simt::set_integrated(is_integrated != 0);
}

EXPORTED void emulated_gpu_set_pinned_limit(size_t bytes) {
    simt::set_pinned_limit(bytes);
}

// See simt::fail_call().
EXPORTED void emulated_gpu_fail_call(int64_t n, int for_ever) {
    simt::fail_call(n, for_ever != 0);
}

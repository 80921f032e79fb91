// What the emulated device was asked to do, counted by name.
#pragma once

#include <cstdint>
#include <string>

namespace simt {

void count(const char * name, int64_t n = 1);
// {"name": n, …}
std::string counters_json();
void reset_counters();

}  // namespace simt

#pragma once

#include <cstdint>

namespace orin {

// Physical cores that this process may run on (hyper-threads counted once, the affinity mask respected); at least 1.
int32_t physical_cores();

}  // namespace orin

#include "cpu.h"

#include <sched.h>

#include <fstream>
#include <set>
#include <string>

namespace orin {

int32_t physical_cores() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return 1;
    }
    std::set<std::string> cores;  // siblings of one core share one list, such as "0,8"
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &allowed)) {
            continue;
        }
        std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list");
        std::string siblings;
        cores.insert(std::getline(file, siblings) ? siblings : "cpu" + std::to_string(cpu));
    }
    return cores.empty() ? 1 : static_cast<int32_t>(cores.size());
}

}  // namespace orin

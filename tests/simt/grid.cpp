#include "grid.h"

#include <map>
#include <numeric>
#include <sstream>
#include <vector>

#include "counters.h"
#include "stream.h"

namespace simt {
namespace {

uint64_t launch_seed = 0;
std::map<const void *, size_t> allowed_shared;

bool fits(Index grid, Index block, size_t shared_bytes, size_t allowed) {
    const uint64_t threads = uint64_t{block.x} * block.y * block.z;
    return grid.x >= 1 && grid.x <= 0x7FFFFFFF && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535 &&
           threads >= 1 && threads <= max_threads && block.z <= 64 && shared_bytes <= allowed;
}

}  // namespace

void set_seed(uint64_t seed) {
    launch_seed = seed;
}

bool allow_shared(const void * kernel, size_t bytes) {
    if (bytes > max_shared_bytes) {
        return false;
    }
    const DeviceLock lock(device_lock());
    allowed_shared[kernel] = bytes;
    return true;
}

bool can_launch(const void * kernel, Index grid, Index block, size_t shared_bytes) {
    const DeviceLock lock(device_lock());
    const auto allowed = allowed_shared.find(kernel);
    return fits(grid, block, shared_bytes, allowed == allowed_shared.end() ? default_shared_bytes : allowed->second);
}

void run_grid(Index grid, Index block, size_t shared_bytes, const std::function<void()> & body) {
    count("kernels");
    Order order(launch_seed);
    std::vector<uint64_t> left(uint64_t{grid.x} * grid.y * grid.z);
    std::iota(left.begin(), left.end(), uint64_t{0});
    Block threads(grid, block, shared_bytes, order);
    while (!left.empty()) {
        const auto place = left.begin() + static_cast<ptrdiff_t>(order.pick(left.size()));
        const auto i = static_cast<unsigned>(*place);
        left.erase(place);
        const Index index = {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y};
        try {
            threads.run(index, body);
        } catch (const Fault & fault) {
            std::ostringstream where;
            where << "block (" << index.x << ", " << index.y << ", " << index.z << "), order " << launch_seed << ": ";
            throw Fault(where.str() + fault.what());
        }
    }
}

}  // namespace simt

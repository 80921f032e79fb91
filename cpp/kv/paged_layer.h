// What attention over a pool has to know of a layer.
#pragma once

#include <cstdint>

struct ggml_tensor;

namespace orin {

struct PagedLayer {
    const ggml_tensor * k;  // the whole layer: a row is a cell
    const ggml_tensor * v;
    int32_t window;     // tokens that attention looks at; 0: all
    int32_t n_readers;  // attention nodes in a graph: several where later layers read the same keys and values
};

}  // namespace orin

// Conversions between the structures of cpp/pages and Python's tuples.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "../pages/sequence.h"

namespace orin {

using CopyTuples = std::vector<std::tuple<PageId, PageId, int32_t>>;  // from, to, n_tokens

inline CopyTuples to_tuples(const std::vector<PageCopy> & copies) {
    CopyTuples result;
    for (const PageCopy & copy : copies) {
        result.emplace_back(copy.from, copy.to, copy.n_tokens);
    }
    return result;
}

}  // namespace orin

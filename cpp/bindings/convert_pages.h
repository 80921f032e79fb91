// Conversions from the structures of cpp/pages.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "../pages/page_counters.h"
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

inline pybind11::dict to_dict(const PageCounters & counters, int32_t page_size) {
    pybind11::dict result;
    result["used"] = counters.used;
    result["cached"] = counters.cached;
    result["free"] = counters.free;
    result["shared"] = counters.shared;
    result["tokens"] = counters.tokens;
    result["lookups"] = counters.lookups;
    result["misses"] = counters.misses;
    result["evictions"] = counters.evictions;
    result["copies"] = counters.copies;
    result["prefix_queries"] = counters.prefix_queries;
    result["prefix_hits"] = counters.prefix_hits;
    result["hit_rate"] = counters.hit_rate();
    result["fragmentation"] = counters.fragmentation(page_size);
    return result;
}

}  // namespace orin

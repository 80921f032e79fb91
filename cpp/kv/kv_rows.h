// The keys and values of cached prefixes as bytes, in order of positions whatever pages hold them: how they are moved
// to a file, or to another machine. Between two steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kv_pool.h"

namespace orin {

// Of tokens[first …]: as many as whole cached pages hold, at most n. Each token is storage().bytes_per_cell() bytes; ""
// where the first of them is not cached. std::invalid_argument for fewer than 0.
std::string read_kv(KvPool & pool, const std::vector<int32_t> & tokens, int32_t first, int32_t n);

// Puts the rows of tokens[first …] into pages, so that the prefix can be found. Returns how many tokens are cached in
// whole pages now, from the first one on: fewer than `first`, and nothing is written, where not all before are cached;
// no more than `first` where there is no room. std::invalid_argument for a wrong number of bytes, std::length_error for
// more tokens than a sequence holds.
int32_t write_kv(KvPool & pool, const std::vector<int32_t> & tokens, int32_t first, const std::string & rows);

}  // namespace orin

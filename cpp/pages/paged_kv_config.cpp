#include "paged_kv_config.h"

#include <limits>
#include <stdexcept>
#include <string>

namespace orin {

namespace {

void require(bool holds, const char * name, int64_t value, const std::string & expected) {
    if (!holds) {
        throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) + ": expected " + expected);
    }
}

}  // namespace

void PagedKvConfig::check() const {
    constexpr int64_t max_cells = std::numeric_limits<int32_t>::max();  // llama.cpp numbers its cells with 32 bits
    require(page_size > 0 && (page_size & (page_size - 1)) == 0, "page_size", page_size, "a power of two");
    require(n_pages >= 2, "n_pages", n_pages, "2 or more: the scratch page and one for tokens");
    require(int64_t(n_pages) * page_size <= max_cells, "n_pages", n_pages,
            "at most " + std::to_string(max_cells / page_size) + " pages of " + std::to_string(page_size) + " tokens");
    require(max_sequences >= 1, "max_sequences", max_sequences, "1 or more");
    require(max_tokens >= 1, "max_tokens", max_tokens, "1 or more");
    require(window >= 0, "window", window, "a number of tokens, or 0 for attention to all");
    require(hash_bits >= 0 && hash_bits <= 64, "hash_bits", hash_bits, "0 … 64");
}

}  // namespace orin

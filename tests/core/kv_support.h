// Short ways to say what the tests of the page pool say often.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>

#include "check.h"
#include "naive_kv.h"

namespace orin {

// n tokens, counted up from the first
inline TokenVector tokens(int32_t n, int32_t first = 0) {
    TokenVector result(static_cast<size_t>(n));
    std::iota(result.begin(), result.end(), first);
    return result;
}

inline TokenVector operator+(TokenVector a, const TokenVector & b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

inline bool place(PagedKv & kv, SequenceId id, const TokenVector & more) {
    return kv.append(id, more.data(), static_cast<int32_t>(more.size()));
}

// Places and computes; there must be room.
inline void grow(PagedKv & kv, SequenceId id, const TokenVector & more) {
    CHECK(place(kv, id, more));
    kv.clear_copies();
    kv.commit(id);
}

inline SequenceId open_with(PagedKv & kv, const TokenVector & text) {
    const SequenceId id = kv.open();
    grow(kv, id, text);
    return id;
}

inline int32_t adopt(PagedKv & kv, SequenceId id, const TokenVector & text) {
    return kv.adopt_prefix(id, text.data(), static_cast<int32_t>(text.size()));
}

// Tokens of the text that are there.
inline int32_t found(const PagedKv & kv, const TokenVector & text) {
    return kv.match_prefix(text.data(), static_cast<int32_t>(text.size())).n_tokens;
}

// The message of the exception that must come.
template <typename Exception, typename Call>
std::string message_of(const Call & call) {
    try {
        call();
    } catch (const Exception & error) {
        return error.what();
    }
    CHECK(!"the expected exception came");
    return {};
}

inline bool contains(const std::string & text, const std::string & part) {
    return text.find(part) != std::string::npos;
}

}  // namespace orin

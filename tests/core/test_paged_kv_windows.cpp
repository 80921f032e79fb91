// Sliding windows: which pages are given up and when, and what is still possible after that.
#include <stdexcept>
#include <vector>

#include "kv_support.h"

using namespace orin;

namespace {

using Table = std::vector<PageId>;

PagedKvConfig windowed(int32_t window, int32_t page_size = 4) {
    PagedKvConfig config;
    config.n_pages = 33;
    config.page_size = page_size;
    config.max_sequences = 4;
    config.max_tokens = 64;
    config.window = window;
    return config;
}

// llama.cpp hides the position p0 from the query at p1 when p1 - p0 >= window.
void a_page_is_given_up_when_the_next_query_sees_none_of_its_cells() {
    for (int32_t window = 1; window <= 20; window++) {
        for (const int32_t page_size : {1, 2, 4, 8}) {
            PagedKv kv(windowed(window, page_size));
            const SequenceId id = kv.open();
            for (int32_t n = 1; n <= 60; n++) {
                grow(kv, id, tokens(1));
                for (int32_t block = 0; block * page_size < n; block++) {
                    const int32_t last_cell = (block + 1) * page_size - 1;
                    const bool hidden = n - last_cell >= window;
                    CHECK((kv.block_table(id)[size_t(block)] == PagedKv::scratch_page) == hidden);
                }
            }
            kv.check();
        }
    }
}

void a_chunk_keeps_what_its_first_token_sees_until_it_is_committed() {
    PagedKv kv(windowed(4));
    const SequenceId id = open_with(kv, tokens(8));
    CHECK(kv.block_table(id) == Table({0, 2}));
    CHECK(place(kv, id, tokens(8)));
    CHECK(kv.block_table(id)[1] == 2);
    kv.commit(id);
    CHECK(kv.block_table(id)[1] == PagedKv::scratch_page);
    CHECK(kv.counters().lookups == 2 + 3 && kv.counters().misses == 2 + 2);
}

void a_long_sequence_runs_in_few_pages() {
    PagedKvConfig config = windowed(8);
    config.n_pages = 5;
    config.max_tokens = 100000;
    PagedKv kv(config);
    const SequenceId id = kv.open();
    for (int32_t i = 0; i < config.max_tokens; i++) {
        grow(kv, id, {i});
    }
    CHECK(kv.counters().used <= 3);
    kv.check();
}

void pages_behind_the_window_are_cached_and_others_keep_them() {
    PagedKv kv(windowed(4));
    const SequenceId id = open_with(kv, tokens(6));
    const SequenceId other = kv.fork(id);
    grow(kv, id, tokens(1, 6));
    CHECK(kv.block_table(id)[0] == PagedKv::scratch_page && kv.block_table(other)[0] == 1);
    CHECK(kv.counters().cached == 0);
    kv.close(other);
    CHECK(kv.counters().cached == 1 && kv.counters().shared == 0);
    kv.check();
}

void truncation_behind_the_window_forgets_everything() {
    PagedKv kv(windowed(4));
    const SequenceId id = open_with(kv, tokens(20));
    CHECK(kv.block_table(id) == Table({0, 0, 0, 0, 5}));
    CHECK(kv.truncate(id, 19) == 19);  // sees 16 … 18
    CHECK(kv.truncate(id, 18) == 0);   // would see 15
    CHECK(kv.n_tokens(id) == 0 && kv.n_committed(id) == 0 && kv.block_table(id).empty());
    CHECK(kv.counters().used == 0);
    grow(kv, id, tokens(5));
    kv.check();
}

void an_adopted_prefix_takes_only_the_pages_that_are_seen() {
    PagedKv kv(windowed(6));
    const SequenceId first = open_with(kv, tokens(16));
    kv.close(first);
    const PrefixMatch match = kv.match_prefix(tokens(20).data(), 20);
    CHECK(match.n_tokens == 16 && match.n_idle_pages == 2);
    const SequenceId id = kv.open();
    const int32_t before = kv.available_pages();
    CHECK(adopt(kv, id, tokens(20)) == 16 && kv.available_pages() == before - 2);
    CHECK(kv.block_table(id) == Table({0, 0, 3, 4}));
    CHECK(contains(message_of<std::out_of_range>([&] { kv.cell(id, 7); }), "position is 7: expected 8 … 15"));
    CHECK(kv.cell(id, 8) == 12);
    kv.check();
}

void the_start_of_a_text_is_evicted_last() {
    PagedKv kv(windowed(4));
    const SequenceId id = kv.open();
    for (int32_t i = 0; i < 24; i++) {
        grow(kv, id, {i});
    }
    CHECK(kv.counters().cached == 5 && kv.counters().used == 1);
    for (int32_t left = 5; left >= 1; left--) {
        CHECK(kv.set_budget(left + 1) && kv.counters().cached == left);
        CHECK(found(kv, tokens(24)) == 4 * left);
    }
    kv.close(id);
    CHECK(kv.counters().cached == 1);
}

void using_a_prefix_keeps_all_of_it_young() {
    PagedKv kv(windowed(4));
    kv.close(open_with(kv, tokens(12)));
    kv.close(open_with(kv, tokens(12, 100)));
    const SequenceId id = kv.open();
    CHECK(adopt(kv, id, tokens(13)) == 12);
    kv.close(id);
    CHECK(kv.set_budget(3));
    CHECK(found(kv, tokens(13)) == 12 && found(kv, tokens(13, 100)) == 0);
}

void all_pages_of_a_prefix_are_named_those_behind_the_window_too() {
    PagedKv kv(windowed(4));
    const SequenceId id = open_with(kv, tokens(14));
    CHECK(kv.block_table(id) == Table({0, 0, 3, 4}));
    const auto pages = [&](int32_t n) { return kv.prefix_pages(tokens(n).data(), n); };
    CHECK(pages(14) == Table({1, 2, 3}) && pages(12) == Table({1, 2, 3}) && pages(11) == Table({1, 2}));
    CHECK(pages(3).empty() && kv.prefix_pages(tokens(8, 90).data(), 8).empty());
    kv.close(id);
    CHECK(pages(12) == Table({1, 2, 3}) && kv.counters().used == 0);
    kv.drop_cached();
    CHECK(pages(12).empty());
}

}  // namespace

int main() {
    all_pages_of_a_prefix_are_named_those_behind_the_window_too();
    a_page_is_given_up_when_the_next_query_sees_none_of_its_cells();
    a_chunk_keeps_what_its_first_token_sees_until_it_is_committed();
    a_long_sequence_runs_in_few_pages();
    pages_behind_the_window_are_cached_and_others_keep_them();
    truncation_behind_the_window_forgets_everything();
    an_adopted_prefix_takes_only_the_pages_that_are_seen();
    the_start_of_a_text_is_evicted_last();
    using_a_prefix_keeps_all_of_it_young();
}

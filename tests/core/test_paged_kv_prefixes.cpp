// What the prefix index finds and what it never finds, and in which order cached pages are given up.
#include <stdexcept>
#include <vector>

#include "kv_support.h"

using namespace orin;

namespace {

using Table = std::vector<PageId>;

// Pages of four tokens.
PagedKvConfig pages(int32_t n_pages, int32_t hash_bits = 64) {
    PagedKvConfig config;
    config.n_pages = n_pages + 1;  // and the scratch page
    config.page_size = 4;
    config.max_sequences = 4;
    config.max_tokens = 64;
    config.hash_bits = hash_bits;
    return config;
}

void full_pages_are_found_once_they_are_committed() {
    PagedKv kv(pages(8));
    const SequenceId id = kv.open();
    CHECK(place(kv, id, tokens(10)));
    CHECK(found(kv, tokens(12)) == 0);
    kv.commit(id);
    CHECK(found(kv, tokens(12)) == 8);
    kv.close(id);
    CHECK(found(kv, tokens(12)) == 8);
    CHECK(found(kv, tokens(12, 1)) == 0);
}

void the_last_token_is_never_covered() {
    PagedKv kv(pages(8));
    open_with(kv, tokens(8));
    CHECK(found(kv, tokens(9)) == 8);
    CHECK(found(kv, tokens(8)) == 4);
    CHECK(found(kv, tokens(5)) == 4);
    CHECK(found(kv, tokens(4)) == 0 && found(kv, tokens(1)) == 0 && found(kv, {}) == 0);
}

void adopted_pages_are_shared_and_counted() {
    PagedKv kv(pages(8));
    open_with(kv, tokens(10));
    const SequenceId id = kv.open();
    const TokenVector prompt = tokens(6) + tokens(6, 90);
    CHECK(adopt(kv, id, prompt) == 4);
    CHECK(kv.n_tokens(id) == 4 && kv.n_committed(id) == 4 && kv.block_table(id) == Table({1}));
    CHECK(kv.counters().shared == 1 && kv.counters().prefix_queries == 12 && kv.counters().prefix_hits == 4);
    grow(kv, id, TokenVector(prompt.begin() + 4, prompt.end()));
    CHECK(kv.counters().lookups == 3 + 3 && kv.counters().misses == 3 + 2);
    kv.check();
}

void idle_pages_of_a_match_are_those_that_nobody_holds() {
    PagedKv kv(pages(8));
    const SequenceId id = open_with(kv, tokens(12));
    const SequenceId start = kv.open();
    adopt(kv, start, tokens(5));
    CHECK(kv.match_prefix(tokens(12).data(), 12).n_idle_pages == 0);
    kv.close(id);
    CHECK(kv.match_prefix(tokens(12).data(), 12).n_tokens == 8);
    CHECK(kv.match_prefix(tokens(12).data(), 12).n_idle_pages == 1);
    const int32_t before = kv.available_pages();
    CHECK(adopt(kv, kv.open(), tokens(12)) == 8 && kv.available_pages() == before - 1);
}

void the_same_page_computed_twice_is_kept_once() {
    PagedKv kv(pages(8));
    const SequenceId first = kv.open();
    const SequenceId second = kv.open();
    CHECK(place(kv, first, tokens(9)) && place(kv, second, tokens(9)));
    CHECK(kv.counters().used == 6);
    kv.commit(first);
    kv.commit(second);
    CHECK(kv.block_table(first) == Table({1, 2, 3}) && kv.block_table(second) == Table({1, 2, 6}));
    CHECK(kv.counters().used == 4 && kv.counters().shared == 2);
    kv.check();
}

void equal_tokens_after_different_prefixes_are_different_pages() {
    for (const int32_t hash_bits : {0, 64}) {
        PagedKv kv(pages(8, hash_bits));
        open_with(kv, tokens(4) + tokens(4, 50));
        open_with(kv, tokens(4, 9) + tokens(4, 50));
        CHECK(kv.counters().used == 4 && kv.counters().shared == 0);
        CHECK(found(kv, tokens(4, 50) + tokens(1)) == 0);
        kv.check();
    }
}

void a_page_below_an_evicted_one_is_not_found_when_its_parent_comes_back() {
    for (const int32_t hash_bits : {0, 64}) {
        PagedKvConfig config = pages(8, hash_bits);
        config.window = 4;  // a sequence then holds a page without the one before it
        PagedKv kv(config);
        const SequenceId id = open_with(kv, tokens(10));
        CHECK(kv.block_table(id) == Table({0, 2, 3}) && kv.counters().cached == 1);
        CHECK(kv.set_budget(2) && kv.counters().evictions == 1);  // page 1 goes
        CHECK(kv.set_budget(8));
        CHECK(found(kv, tokens(9)) == 0);
        const SequenceId again = open_with(kv, tokens(4) + tokens(1, 70));
        CHECK(kv.block_table(again)[0] == 1 && found(kv, tokens(5)) == 4);  // the same page, the same tokens
        CHECK(found(kv, tokens(9)) == 4);                                   // and yet a node of its own
        kv.check();
        kv.close(id);
        CHECK(kv.counters().cached == 0);  // what can never be found is not kept
        kv.check();
    }
}

void children_are_evicted_before_their_parents() {
    PagedKv kv(pages(6));
    kv.close(open_with(kv, tokens(12)));
    kv.close(open_with(kv, tokens(8, 100)));
    CHECK(kv.counters().cached == 5);
    for (const int32_t left : {4, 3, 2}) {  // the older text goes first, from its end
        CHECK(kv.set_budget(left));
        CHECK(found(kv, tokens(13)) == (left - 2) * 4 && found(kv, tokens(9, 100)) == 8);
    }
    CHECK(kv.set_budget(1) && found(kv, tokens(9, 100)) == 4);
}

void a_prefix_that_was_used_again_is_evicted_later() {
    PagedKv kv(pages(6));
    kv.close(open_with(kv, tokens(4)));
    kv.close(open_with(kv, tokens(4, 100)));
    const SequenceId id = kv.open();
    CHECK(adopt(kv, id, tokens(5)) == 4);
    kv.close(id);
    CHECK(kv.set_budget(1));
    CHECK(found(kv, tokens(5)) == 4 && found(kv, tokens(5, 100)) == 0);
}

void idle_pages_make_room_and_used_ones_do_not() {
    PagedKv kv(pages(3));
    kv.close(open_with(kv, tokens(8)));
    const SequenceId id = kv.open();
    CHECK(kv.available_pages() == 3 && place(kv, id, tokens(12, 100)) && kv.counters().evictions == 2);
    CHECK(kv.available_pages() == 0 && !place(kv, id, tokens(1)));
    kv.check();
}

void a_full_page_that_is_truncated_stays_findable_until_it_is_written() {
    PagedKv kv(pages(8));
    const SequenceId id = open_with(kv, tokens(8));
    CHECK(kv.truncate(id, 6) == 6);
    CHECK(found(kv, tokens(9)) == 8 && kv.counters().tokens == 8);
    CHECK(place(kv, id, tokens(1, 50)));
    CHECK(kv.block_table(id) == Table({1, 2}) && kv.pending_copies().empty());
    CHECK(found(kv, tokens(9)) == 4 && kv.counters().tokens == 7);
    kv.check();
}

void a_truncated_page_that_another_adopted_is_copied() {
    PagedKv kv(pages(8));
    const SequenceId id = open_with(kv, tokens(8));
    kv.truncate(id, 6);
    const SequenceId other = kv.open();
    CHECK(adopt(kv, other, tokens(9)) == 8);
    CHECK(place(kv, id, tokens(1, 50)));
    CHECK(kv.block_table(id) == Table({1, 3}) && kv.block_table(other) == Table({1, 2}));
    CHECK(kv.pending_copies()[0].n_tokens == 2 && found(kv, tokens(9)) == 8);
    kv.check();
}

void what_only_the_cache_keeps_is_dropped_on_request() {
    PagedKv kv(pages(8));
    kv.close(open_with(kv, tokens(12)));
    const SequenceId id = kv.open();
    CHECK(adopt(kv, id, tokens(5)) == 4);
    CHECK(kv.counters().cached == 2 && kv.committed_pages() == 4);
    kv.drop_cached();
    CHECK(kv.counters().cached == 0 && kv.counters().evictions == 0 && kv.committed_pages() == 2);
    CHECK(found(kv, tokens(12)) == 4);  // a sequence holds it
    kv.check();
    kv.close(id);
    kv.drop_cached();
    CHECK(found(kv, tokens(12)) == 0 && kv.counters().free == 8);
    kv.check();
}

void nothing_is_indexed_below_a_page_that_is_gone() {
    PagedKvConfig config = pages(8);
    config.window = 1;
    PagedKv kv(config);
    const SequenceId id = open_with(kv, tokens(4));
    CHECK(kv.counters().cached == 1 && kv.set_budget(0) && kv.counters().evictions == 1 && kv.set_budget(8));
    grow(kv, id, tokens(4));
    CHECK(kv.counters().cached == 0 && kv.counters().free == 8);
    kv.check();
}

void pages_below_an_overwritten_one_are_lost_but_counted_and_evicted() {
    PagedKv kv(pages(4));
    const SequenceId id = open_with(kv, tokens(12));
    kv.truncate(id, 3);
    CHECK(kv.counters().cached == 2);
    grow(kv, id, tokens(1, 50));
    CHECK(found(kv, tokens(13)) == 0 && kv.counters().cached == 2);
    kv.check();
    grow(kv, id, tokens(12, 60));
    CHECK(kv.counters().evictions == 2 && kv.counters().cached == 0 && kv.counters().used == 4);
}

void without_a_prefix_cache_nothing_is_kept_found_or_counted() {
    PagedKvConfig config = pages(8);
    config.prefix_cache = false;
    PagedKv kv(config);
    const SequenceId id = open_with(kv, tokens(8));
    CHECK(found(kv, tokens(9)) == 0 && adopt(kv, kv.open(), tokens(9)) == 0);
    CHECK(kv.counters().prefix_queries == 0);
    kv.close(id);
    CHECK(kv.counters().cached == 0 && kv.counters().free == 8);
    kv.check();
}

}  // namespace

int main() {
    full_pages_are_found_once_they_are_committed();
    the_last_token_is_never_covered();
    adopted_pages_are_shared_and_counted();
    idle_pages_of_a_match_are_those_that_nobody_holds();
    the_same_page_computed_twice_is_kept_once();
    equal_tokens_after_different_prefixes_are_different_pages();
    a_page_below_an_evicted_one_is_not_found_when_its_parent_comes_back();
    children_are_evicted_before_their_parents();
    a_prefix_that_was_used_again_is_evicted_later();
    idle_pages_make_room_and_used_ones_do_not();
    a_full_page_that_is_truncated_stays_findable_until_it_is_written();
    a_truncated_page_that_another_adopted_is_copied();
    what_only_the_cache_keeps_is_dropped_on_request();
    nothing_is_indexed_below_a_page_that_is_gone();
    pages_below_an_overwritten_one_are_lost_but_counted_and_evicted();
    without_a_prefix_cache_nothing_is_kept_found_or_counted();
}

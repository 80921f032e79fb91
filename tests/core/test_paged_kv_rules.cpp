// Each rule of the page pool on its own: sequences, sharing, copies on write, truncation, budgets, arguments.
#include <stdexcept>
#include <vector>

#include "kv_support.h"

using namespace orin;

namespace {

using Table = std::vector<PageId>;

// Pages of four tokens.
PagedKvConfig pages(int32_t n_pages) {
    PagedKvConfig config;
    config.n_pages = n_pages + 1;  // and the scratch page
    config.page_size = 4;
    config.max_sequences = 4;
    config.max_tokens = 64;
    return config;
}

void a_page_is_taken_when_its_first_token_is_placed() {
    PagedKv kv(pages(8));
    const SequenceId id = kv.open();
    CHECK(kv.block_table(id).empty() && kv.pages_needed(id, 0) == 0);
    grow(kv, id, tokens(4));
    CHECK(kv.block_table(id) == Table({1}) && kv.pages_needed(id, 1) == 1);
    grow(kv, id, tokens(1));
    CHECK(kv.block_table(id) == Table({1, 2}) && kv.pages_needed(id, 3) == 0 && kv.pages_needed(id, 4) == 1);
    CHECK(kv.cell(id, 0) == 4 && kv.cell(id, 3) == 7 && kv.cell(id, 4) == 8);
}

void the_lowest_free_page_and_sequence_come_first() {
    PagedKv kv(pages(8));
    for (int32_t i = 0; i < 3; i++) {
        CHECK(open_with(kv, tokens(3)) == i);
    }
    kv.close(0);
    kv.close(1);
    CHECK(kv.committed_pages() == 4);
    CHECK(open_with(kv, tokens(3)) == 0 && kv.block_table(0) == Table({1}));
    kv.close(2);
    CHECK(kv.committed_pages() == 2);
    kv.close(0);
    CHECK(kv.committed_pages() == 1);  // the scratch page stays
}

void an_append_that_does_not_fit_changes_nothing() {
    PagedKv kv(pages(3));
    const SequenceId id = open_with(kv, tokens(6));
    const PageCounters before = kv.counters();
    CHECK(!place(kv, id, tokens(7)));
    CHECK(kv.n_tokens(id) == 6 && kv.block_table(id) == Table({1, 2}) && kv.counters().tokens == before.tokens);
    CHECK(place(kv, id, tokens(6)) && kv.available_pages() == 0);
    const SequenceId other = kv.open();
    CHECK(!place(kv, other, tokens(1)) && place(kv, other, {}));
    kv.check();
}

void a_fork_shares_all_pages_until_one_of_both_writes() {
    PagedKv kv(pages(8));
    const SequenceId first = open_with(kv, tokens(6));
    const SequenceId second = kv.fork(first);
    CHECK(kv.block_table(second) == Table({1, 2}) && kv.n_committed(second) == 6);
    CHECK(kv.counters().used == 2 && kv.counters().shared == 2 && kv.counters().tokens == 6);

    CHECK(kv.pages_needed(second, 1) == 1 && kv.pages_needed(second, 3) == 2);
    CHECK(place(kv, second, tokens(1, 50)));
    CHECK(kv.block_table(second) == Table({1, 3}) && kv.block_table(first) == Table({1, 2}));
    CHECK(kv.pending_copies().size() == 1);
    const PageCopy copy = kv.pending_copies()[0];
    CHECK(copy.from == 2 && copy.to == 3 && copy.n_tokens == 2);
    CHECK(kv.counters().copies == 1 && kv.counters().tokens == 9 && kv.counters().shared == 1);

    CHECK(kv.pages_needed(first, 1) == 0 && place(kv, first, tokens(1, 60)));
    CHECK(kv.block_table(first) == Table({1, 2}) && kv.pending_copies().size() == 1);
    kv.clear_copies();
    CHECK(kv.pending_copies().empty());
    kv.check();
}

void a_fork_at_a_full_page_copies_nothing() {
    PagedKv kv(pages(8));
    const SequenceId first = open_with(kv, tokens(4));
    const SequenceId second = kv.fork(first);
    CHECK(kv.pages_needed(second, 1) == 1 && place(kv, second, tokens(1)));
    CHECK(kv.pending_copies().empty() && kv.block_table(second) == Table({1, 2}));
}

void a_copy_keeps_only_the_tokens_of_its_writer() {
    PagedKv kv(pages(8));
    const SequenceId first = open_with(kv, tokens(7));
    const SequenceId second = kv.fork(first);
    CHECK(kv.truncate(second, 5) == 5);
    CHECK(kv.counters().tokens == 7);  // the first still has all
    CHECK(place(kv, second, tokens(1, 50)) && kv.pending_copies()[0].n_tokens == 1);
    CHECK(kv.counters().tokens == 9);
    kv.check();
}

void a_sequence_with_uncommitted_tokens_is_not_forked() {
    PagedKv kv(pages(8));
    const SequenceId id = open_with(kv, tokens(4));
    CHECK(place(kv, id, tokens(1)));
    CHECK(contains(message_of<std::logic_error>([&] { kv.fork(id); }), "5 tokens, 4 of them committed"));
    kv.truncate(id, 4);
    kv.fork(id);
}

void a_failed_step_is_undone_by_truncation() {
    PagedKv kv(pages(8));
    const SequenceId id = open_with(kv, tokens(6));
    CHECK(place(kv, id, tokens(5)) && kv.n_tokens(id) == 11 && kv.n_committed(id) == 6);
    CHECK(kv.truncate(id, 6) == 6 && kv.n_committed(id) == 6 && kv.block_table(id) == Table({1, 2}));
    CHECK(kv.counters().tokens == 6);
    CHECK(place(kv, id, tokens(5, 70)) && kv.truncate(id, 9) == 9);  // two of five drafted tokens are refused
    kv.commit(id);
    CHECK(kv.n_committed(id) == 9 && kv.counters().tokens == 9);
    kv.check();
}

void truncation_gives_up_whole_pages_and_keeps_the_partial_one() {
    PagedKv kv(pages(8));
    const SequenceId id = open_with(kv, tokens(11));
    CHECK(kv.truncate(id, 5) == 5 && kv.n_committed(id) == 5);
    CHECK(kv.block_table(id) == Table({1, 2}) && kv.counters().used == 2 && kv.counters().free == 6);
    CHECK(kv.truncate(id, 0) == 0 && kv.block_table(id).empty() && kv.counters().used == 0);
    kv.check();
}

void writing_into_a_truncated_page_lowers_and_raises_its_fill() {
    PagedKv kv(pages(8));
    const SequenceId id = open_with(kv, tokens(3));
    kv.truncate(id, 1);
    CHECK(kv.counters().tokens == 1);
    grow(kv, id, tokens(1));
    CHECK(kv.counters().tokens == 2 && kv.counters().fragmentation(4) == 0.5);
}

void a_budget_evicts_cached_pages_and_never_used_ones() {
    PagedKv kv(pages(8));
    open_with(kv, tokens(12));
    const SequenceId other = open_with(kv, tokens(8, 100));
    kv.close(other);
    CHECK(kv.counters().used == 3 && kv.counters().cached == 2 && kv.counters().free == 3);
    CHECK(!kv.set_budget(2) && kv.available_pages() == 5);
    CHECK(kv.set_budget(4));
    CHECK(kv.counters().cached == 1 && kv.counters().free == 0 && kv.counters().evictions == 1);
    CHECK(kv.available_pages() == 1 && kv.pages_needed(0, 5) == 2 && !place(kv, 0, tokens(5)));
    CHECK(kv.set_budget(8) && place(kv, 0, tokens(5)));
    kv.check();
}

void the_hit_rate_counts_pages_read_and_pages_new_in_a_step() {
    PagedKv kv(pages(8));
    const SequenceId id = open_with(kv, tokens(6));  // two pages read, both new
    CHECK(kv.counters().lookups == 2 && kv.counters().misses == 2);
    grow(kv, id, tokens(1));  // both read, none new
    CHECK(kv.counters().lookups == 4 && kv.counters().misses == 2);
    kv.commit(id);  // nothing was placed: no step
    CHECK(kv.counters().lookups == 4);
    const SequenceId copy = kv.fork(id);
    grow(kv, copy, tokens(1, 50));  // both read, one copied
    CHECK(kv.counters().lookups == 6 && kv.counters().misses == 3);
    grow(kv, copy, tokens(1));  // three read, one new
    CHECK(kv.counters().lookups == 9 && kv.counters().misses == 4);
    CHECK(place(kv, copy, tokens(4)) && kv.truncate(copy, 10) == 10);
    kv.commit(copy);  // the page of the refused tokens was never read
    CHECK(kv.counters().lookups == 12 && kv.counters().misses == 4);
    CHECK(kv.counters().hit_rate() == 1.0 - 4.0 / 12.0);
}

void what_is_committed_is_found_and_what_is_placed_after_it_is_not() {
    PagedKv kv(pages(8));
    const SequenceId id = kv.open();
    CHECK(place(kv, id, tokens(3)) && place(kv, id, {unknown_token}) && place(kv, id, {unknown_token}));
    kv.commit(id, 3);
    CHECK(kv.n_committed(id) == 3 && kv.n_tokens(id) == 5 && kv.counters().lookups == 1);
    kv.set_token(id, 3, 77);
    CHECK(found(kv, {0, 1, 2, 77, 5}) == 0);
    kv.commit(id, 4);
    CHECK(found(kv, {0, 1, 2, 77, 5}) == 4 && found(kv, {0, 1, 2, 3, 5}) == 0);
    CHECK(kv.counters().lookups == 2 && kv.counters().misses == 1);
    kv.check();
    kv.close(id);  // with a token that is placed and not known
    CHECK(kv.counters().used == 0 && kv.counters().cached == 1 && found(kv, {0, 1, 2, 77, 5}) == 4);
    kv.check();
}

void only_tokens_between_what_is_committed_and_what_is_placed_are_named_or_committed() {
    PagedKv kv(pages(8));
    const SequenceId id = open_with(kv, tokens(3));
    CHECK(place(kv, id, {unknown_token, unknown_token}));
    CHECK(contains(message_of<std::out_of_range>([&] { kv.set_token(id, 2, 9); }), "position is 2: expected 3 … 4"));
    CHECK(contains(message_of<std::out_of_range>([&] { kv.set_token(id, 5, 9); }), "position is 5: expected 3 … 4"));
    CHECK(contains(message_of<std::invalid_argument>([&] { kv.commit(id, 2); }), "n_tokens is 2: expected 3 … 5"));
    CHECK(contains(message_of<std::invalid_argument>([&] { kv.commit(id, 6); }), "n_tokens is 6: expected 3 … 5"));
    kv.commit(id);
    CHECK(contains(message_of<std::logic_error>([&] { kv.check(); }), "tokens that are committed are known"));
}

void a_sequence_that_is_not_open_is_refused_everywhere() {
    PagedKv kv(pages(8));
    kv.close(kv.open());
    for (const SequenceId id : {-1, 0, 4}) {
        const std::string expected = id == 0 ? "sequence 0 is not open" : "expected 0 … 3";
        const auto refused = [&](const auto & call) { CHECK(contains(message_of<std::out_of_range>(call), expected)); };
        refused([&] { kv.close(id); });
        refused([&] { kv.fork(id); });
        refused([&] { adopt(kv, id, tokens(5)); });
        refused([&] { place(kv, id, tokens(1)); });
        refused([&] { kv.pages_needed(id, 1); });
        refused([&] { kv.commit(id); });
        refused([&] { kv.truncate(id, 0); });
        refused([&] { kv.n_tokens(id); });
        refused([&] { kv.n_committed(id); });
        refused([&] { kv.block_table(id); });
        refused([&] { kv.cell(id, 0); });
    }
}

void bad_arguments_are_refused_with_the_expected_range() {
    PagedKv kv(pages(8));
    const SequenceId id = open_with(kv, tokens(5));
    const int32_t token = 0;
    CHECK(contains(message_of<std::invalid_argument>([&] { kv.append(id, &token, -1); }), "-1: expected 0 or more"));
    CHECK(contains(message_of<std::invalid_argument>([&] { kv.match_prefix(&token, -2); }), "-2"));
    CHECK(contains(message_of<std::invalid_argument>([&] { kv.pages_needed(id, -3); }), "-3"));
    CHECK(contains(message_of<std::invalid_argument>([&] { kv.adopt_prefix(kv.open(), &token, -4); }), "-4"));
    CHECK(contains(message_of<std::invalid_argument>([&] { kv.truncate(id, 6); }), "n_keep is 6: expected 0 … 5"));
    CHECK(contains(message_of<std::invalid_argument>([&] { kv.truncate(id, -1); }), "n_keep is -1"));
    CHECK(contains(message_of<std::invalid_argument>([&] { kv.set_budget(9); }), "n_pages is 9: expected 0 … 8"));
    CHECK(contains(message_of<std::invalid_argument>([&] { kv.set_budget(-1); }), "n_pages is -1"));
    CHECK(contains(message_of<std::out_of_range>([&] { kv.cell(id, 5); }), "position is 5: expected 0 … 4"));
    CHECK(contains(message_of<std::out_of_range>([&] { kv.cell(id, -1); }), "position is -1"));
    CHECK(contains(message_of<std::length_error>([&] { place(kv, id, tokens(60)); }), "is 65: expected 0 … 64"));
    CHECK(contains(message_of<std::length_error>([&] { kv.append(id, &token, INT32_MAX); }), "2147483652"));
    CHECK(contains(message_of<std::length_error>([&] { adopt(kv, 1, tokens(65)); }), "65: expected 0 … 64"));
    CHECK(contains(message_of<std::logic_error>([&] { adopt(kv, id, tokens(5)); }), "5 tokens: expected none"));
    CHECK(kv.pages_needed(id, INT32_MAX) == 536870911);
    CHECK(kv.n_tokens(id) == 5 && kv.counters().prefix_queries == 0);
    kv.check();
}

void no_more_sequences_open_than_configured() {
    PagedKv kv(pages(8));
    for (int32_t i = 0; i < 4; i++) {
        kv.open();
    }
    CHECK(contains(message_of<std::length_error>([&] { kv.open(); }), "all 4 sequences are open"));
    CHECK(contains(message_of<std::length_error>([&] { kv.fork(0); }), "all 4 sequences are open"));
    kv.check();
}

void each_bad_setting_is_named() {
    const auto refused = [](const auto & change, const char * expected) {
        PagedKvConfig config = pages(8);
        change(config);
        CHECK(contains(message_of<std::invalid_argument>([&] { PagedKv kv(config); }), expected));
    };
    refused([](PagedKvConfig & c) { c.page_size = 0; }, "page_size is 0: expected a power of two");
    refused([](PagedKvConfig & c) { c.page_size = 12; }, "page_size is 12");
    refused([](PagedKvConfig & c) { c.page_size = INT32_MIN; }, "page_size is -2147483648");
    refused([](PagedKvConfig & c) { c.n_pages = 1; }, "n_pages is 1: expected 2 or more");
    refused([](PagedKvConfig & c) { c.n_pages = INT32_MAX; }, "at most 536870911 pages of 4 tokens");
    refused([](PagedKvConfig & c) { c.max_sequences = 0; }, "max_sequences is 0");
    refused([](PagedKvConfig & c) { c.max_tokens = 0; }, "max_tokens is 0");
    refused([](PagedKvConfig & c) { c.window = -1; }, "window is -1");
    refused([](PagedKvConfig & c) { c.hash_bits = 65; }, "hash_bits is 65: expected 0 … 64");
    refused([](PagedKvConfig & c) { c.hash_bits = -1; }, "hash_bits is -1");
}

}  // namespace

int main() {
    a_page_is_taken_when_its_first_token_is_placed();
    the_lowest_free_page_and_sequence_come_first();
    an_append_that_does_not_fit_changes_nothing();
    a_fork_shares_all_pages_until_one_of_both_writes();
    a_fork_at_a_full_page_copies_nothing();
    a_copy_keeps_only_the_tokens_of_its_writer();
    a_sequence_with_uncommitted_tokens_is_not_forked();
    a_failed_step_is_undone_by_truncation();
    truncation_gives_up_whole_pages_and_keeps_the_partial_one();
    writing_into_a_truncated_page_lowers_and_raises_its_fill();
    a_budget_evicts_cached_pages_and_never_used_ones();
    the_hit_rate_counts_pages_read_and_pages_new_in_a_step();
    what_is_committed_is_found_and_what_is_placed_after_it_is_not();
    only_tokens_between_what_is_committed_and_what_is_placed_are_named_or_committed();
    a_sequence_that_is_not_open_is_refused_everywhere();
    bad_arguments_are_refused_with_the_expected_range();
    no_more_sequences_open_than_configured();
    each_bad_setting_is_named();
}

// Schedulers of all kinds, most of them short of pages, and requests for them.
#pragma once

#include <algorithm>
#include <vector>

#include "check.h"
#include "scheduler/scheduler.h"

namespace orin {

struct Setup {
    PlannerConfig planner;
    PagedKvConfig kv;
    int32_t n_vocab = 2;
    int32_t max_under_way = 1;  // steps
    bool forks = false;         // others hold sequences, too, so that pages are copied before they are written
};

inline Setup random_setup(Random & random) {
    Setup setup;
    PlannerConfig & planner = setup.planner;
    planner.policy = static_cast<Policy>(random.below(3));
    planner.chunk_size = 1 + random.below(40);
    planner.max_batch = 1 + random.below(8);
    planner.headroom_pages = random.below(2);
    planner.max_overtakes = random.below(4);
    planner.max_stall_steps = random.below(4);
    planner.head_start_ms = random.below(20);
    PagedKvConfig & kv = setup.kv;
    kv.page_size = 1 << random.below(5);
    kv.max_tokens = 40 + random.below(100);
    kv.max_sequences = planner.max_batch + 2;
    kv.window = random.one_in(3) ? 1 + random.below(60) : 0;
    kv.prefix_cache = !random.one_in(4);
    kv.hash_bits = random.one_in(3) ? 2 : 64;
    setup.max_under_way = 1 + random.below(2);
    setup.n_vocab = 2 + random.below(random.one_in(3) ? 20 : 500);
    const int32_t longest = kv.pages_for(kv.max_tokens);
    const int32_t in_window = kv.pages_for(kv.window) + 1 + kv.pages_for(planner.chunk_size);
    if (random.one_in(3)) {
        // A fork gives no page back, so that pages must not become scarce.
        setup.forks = true;
        kv.n_pages = 2 + (kv.max_sequences + 1) * (longest + 1);
    } else {
        // Room for the longest request, and some more.
        const int32_t least = kv.window > 0 ? std::min(longest, in_window) : longest;
        kv.n_pages = 1 + least + random.below(least + 1);
    }
    return setup;
}

class RandomRequests {
   public:
    RandomRequests(const Setup & setup, Random & random) : setup_(setup), random_(random) {
        for (std::vector<int32_t> & prefix : prefixes_) {
            prefix = tokens(random_.below(setup.kv.max_tokens - 1));
        }
    }

    // A piece of one of a few prefixes and some more. Short prompts with long answers make pages run out.
    RequestParams next(double now_ms) {
        RequestParams params;
        params.prompt = prefixes_[size_t(random_.below(3))];
        params.prompt.resize(size_t(random_.below(static_cast<int32_t>(params.prompt.size()) + 1)));
        const int32_t room = setup_.kv.max_tokens - static_cast<int32_t>(params.prompt.size()) - 2;
        const int32_t most = random_.one_in(2) ? 4 : setup_.kv.max_tokens;
        for (const int32_t token : tokens(1 + random_.below(std::clamp(room, 1, most)))) {
            params.prompt.push_back(token);
        }
        const int32_t left = setup_.kv.max_tokens - static_cast<int32_t>(params.prompt.size());
        params.max_tokens = random_.one_in(2) ? left : 1 + random_.below(left);
        params.priority = random_.below(3);
        if (random_.one_in(10)) {
            params.deadline_ms = now_ms + random_.below(60);
        }
        params.runs_ahead = !random_.one_in(8);
        return params;
    }

   private:
    std::vector<int32_t> tokens(int32_t n) {
        std::vector<int32_t> result;
        for (int32_t i = 0; i < n; i++) {
            result.push_back(random_.below(setup_.n_vocab));
        }
        return result;
    }

    const Setup setup_;
    Random & random_;
    std::vector<int32_t> prefixes_[3];
};

}  // namespace orin

// What the RoPE tables of an engine have served, counted by every compute thread without sharing a cache line.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace orin {

struct RopeCounters {
    uint64_t lookups = 0;        // rows served from a table
    uint64_t fallbacks = 0;      // rows of nodes with a table that took the stock path
    uint64_t out_of_bounds = 0;  // row addresses outside their block: 0 unless the table is broken
};

class RopeTally {
   public:
    void count_lookup() { bump(shard().lookups); }
    void count_fallback() { bump(shard().fallbacks); }
    void count_out_of_bounds() { bump(shard().out_of_bounds); }

    RopeCounters total() const {
        RopeCounters sum;
        for (const Shard & s : shards_) {
            sum.lookups += s.lookups.load(std::memory_order_relaxed);
            sum.fallbacks += s.fallbacks.load(std::memory_order_relaxed);
            sum.out_of_bounds += s.out_of_bounds.load(std::memory_order_relaxed);
        }
        return sum;
    }

   private:
    static constexpr size_t n_shards = 16;

    struct alignas(64) Shard {
        std::atomic<uint64_t> lookups{0};
        std::atomic<uint64_t> fallbacks{0};
        std::atomic<uint64_t> out_of_bounds{0};
    };

    static void bump(std::atomic<uint64_t> & counter) { counter.fetch_add(1, std::memory_order_relaxed); }

    Shard & shard() {
        static std::atomic<size_t> next_thread{0};
        thread_local const size_t thread = next_thread.fetch_add(1, std::memory_order_relaxed);
        return shards_[thread % n_shards];
    }

    std::array<Shard, n_shards> shards_;
};

}  // namespace orin

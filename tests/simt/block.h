// The threads of a block, each a fiber, which take turns in an order that the seed chooses and meet at barriers,
// shuffles and the like.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fiber.h"

namespace simt {

constexpr unsigned warp_size = 32;
constexpr unsigned max_threads = 1024;

// A kernel that does what no GPU guarantees: the message says which threads, and where they are.
class Fault : public std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Index {
    unsigned x = 0;
    unsigned y = 0;
    unsigned z = 0;
};

// Which of the threads that can go on does. Same seed, same order.
class Order {
   public:
    // 0: ascending; 1: descending; even: any thread; odd: a warp goes on for as long as it can.
    explicit Order(uint64_t seed) : seed_(seed), random_(seed) {}

    // The place of the next in a list of n that is sorted.
    size_t pick(size_t n) { return seed_ == 0 ? 0 : seed_ == 1 ? n - 1 : random_() % n; }
    bool stays_with_warp() const { return seed_ < 2 || seed_ % 2 == 1; }
    // Whether a thread lets others go first where it need not wait.
    bool hesitates() { return seed_ >= 2 && random_() % 2 == 0; }

   private:
    uint64_t seed_;
    std::mt19937_64 random_;
};

// What threads bring to a place where they wait for one another.
struct Meeting {
    const char * name = nullptr;
    size_t value_bytes = 0;
    std::vector<std::byte> values;  // [slots, value_bytes]
    std::vector<unsigned> arrived;  // ranks

    template <typename Value>
    Value value(size_t slot) const {
        Value result;
        std::memcpy(&result, values.data() + slot * sizeof(Value), sizeof(Value));
        return result;
    }
};

struct Thread {
    unsigned rank = 0;
    Index index;
    std::unique_ptr<Fiber> fiber;
    const Meeting * waits_for = nullptr;
    // Copies that were started, by the groups that they were committed in; the last group is open.
    std::deque<std::vector<std::function<void()>>> copies{1};

    unsigned lane() const { return rank % warp_size; }
    unsigned warp() const { return rank / warp_size; }
};

class Block {
   public:
    Block(Index grid_size, Index size, size_t shared_bytes, Order & order);
    ~Block();

    // Every thread runs `body` to its end. Shared memory begins with garbage.
    void run(Index index, const std::function<void()> & body);

    // Of the thread that runs now: only within run().
    static Block & current();
    Thread & thread() { return threads_[running_]; }
    Index index() const { return index_; }
    Index size() const { return size_; }
    Index grid_size() const { return grid_size_; }
    void * shared() { return shared_.get(); }
    size_t shared_bytes() const { return shared_bytes_; }

    // Waits for all threads of the block that have not ended; `value` is kept at the thread's rank.
    template <typename Value>
    std::shared_ptr<const Meeting> meet_block(const char * name, const Value & value) {
        return meet(whole_block, name, thread().rank, threads_.size(), &value, sizeof(value));
    }
    // Waits for the lanes of its warp that are in the mask; `value` is kept at its lane.
    template <typename Value>
    std::shared_ptr<const Meeting> meet_warp(const char * name, uint32_t mask, const Value & value) {
        check_mask(name, mask);
        return meet({thread().warp(), mask}, name, thread().lane(), warp_size, &value, sizeof(value));
    }
    // Others may go first.
    void hesitate();

   private:
    using Place = std::pair<unsigned, uint32_t>;  // warp, mask
    static constexpr Place whole_block{~0u, 0};

    std::shared_ptr<const Meeting> meet(Place place, const char * name, size_t slot, size_t n_slots, const void * value,
                                        size_t bytes);
    bool is_complete(Place place, const Meeting & meeting) const;
    void release(Place place);
    void check_mask(const char * name, uint32_t mask) const;
    void make_ready(unsigned rank);
    unsigned next_ready();
    void end_thread();
    [[noreturn]] void report_standstill() const;

    const Index grid_size_;
    const Index size_;
    Index index_;
    std::vector<Thread> threads_;
    const size_t shared_bytes_;
    std::unique_ptr<std::byte[]> shared_;  // exactly as long, so that what lies beyond is noticed
    Order & order_;
    std::vector<uint32_t> ready_;  // by warp, a bit for each lane
    std::vector<uint32_t> alive_;  // the same
    std::map<Place, std::shared_ptr<Meeting>> meetings_;
    unsigned running_ = 0;
    size_t n_alive_ = 0;
};

}  // namespace simt

#include "block.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace simt {
namespace {

constexpr int garbage = 0xFF;  // NaN as a float, -1 as an integer

thread_local Block * current_block = nullptr;

// Fibers that have ended, for the next block: making one takes as long as a small kernel.
std::vector<std::unique_ptr<Fiber>> & idle_fibers() {
    thread_local std::vector<std::unique_ptr<Fiber>> fibers;
    return fibers;
}

std::unique_ptr<Fiber> take_fiber() {
    if (idle_fibers().empty()) {
        return std::make_unique<Fiber>();
    }
    auto fiber = std::move(idle_fibers().back());
    idle_fibers().pop_back();
    return fiber;
}

// The place of the n-th bit that is set.
unsigned nth_lane(uint32_t lanes, size_t n) {
    for (; n > 0; n--) {
        lanes &= lanes - 1;
    }
    return static_cast<unsigned>(__builtin_ctz(lanes));
}

}  // namespace

Block & Block::current() {
    if (current_block == nullptr) {
        throw Fault("a device function was called outside a kernel");
    }
    return *current_block;
}

Block::Block(Index grid_size, Index size, size_t shared_bytes, Order & order)
    : grid_size_(grid_size),
      size_(size),
      threads_(size_t{size.x} * size.y * size.z),
      shared_bytes_(shared_bytes),
      shared_(new std::byte[shared_bytes]),
      order_(order),
      ready_((threads_.size() + warp_size - 1) / warp_size),
      alive_(ready_.size()) {
    for (unsigned rank = 0; rank < threads_.size(); rank++) {
        threads_[rank].rank = rank;
        threads_[rank].index = {rank % size.x, rank / size.x % size.y, rank / size.x / size.y};
        threads_[rank].fiber = take_fiber();
    }
}

// A fiber that stopped halfway, because of a fault, is of no more use.
Block::~Block() {
    for (Thread & thread : threads_) {
        if (thread.fiber->has_ended() && idle_fibers().size() < max_threads) {
            idle_fibers().push_back(std::move(thread.fiber));
        }
    }
}

void Block::run(Index index, const std::function<void()> & body) {
    index_ = index;
    std::memset(shared_.get(), garbage, shared_bytes_);
    meetings_.clear();
    std::fill(ready_.begin(), ready_.end(), 0);
    std::fill(alive_.begin(), alive_.end(), 0);
    n_alive_ = threads_.size();
    for (Thread & thread : threads_) {
        if (thread.copies.size() != 1) {
            thread.copies.resize(1);
        }
        thread.waits_for = nullptr;
        thread.fiber->start(body);
        make_ready(thread.rank);
        alive_[thread.warp()] |= 1u << thread.lane();
    }
    struct Current {
        explicit Current(Block * block) { current_block = block; }
        ~Current() { current_block = nullptr; }
    } const current(this);
    while (n_alive_ > 0) {
        running_ = next_ready();
        thread().fiber->resume();
        if (thread().fiber->has_ended()) {
            end_thread();
        }
    }
}

void Block::end_thread() {
    if (std::any_of(thread().copies.begin(), thread().copies.end(),
                    [](const auto & group) { return !group.empty(); })) {
        throw Fault("thread " + std::to_string(running_) + " ended without waiting for a copy that it had started");
    }
    n_alive_--;
    alive_[thread().warp()] &= ~(1u << thread().lane());
    const auto open = meetings_.find(whole_block);
    if (open != meetings_.end() && is_complete(whole_block, *open->second)) {
        release(whole_block);
    }
}

void Block::make_ready(unsigned rank) {
    ready_[rank / warp_size] |= 1u << rank % warp_size;
}

unsigned Block::next_ready() {
    unsigned warp = thread().warp();
    if (ready_[warp] == 0 || !order_.stays_with_warp()) {
        const auto n =
            static_cast<size_t>(std::count_if(ready_.begin(), ready_.end(), [](uint32_t lanes) { return lanes != 0; }));
        if (n == 0) {
            report_standstill();
        }
        size_t left = order_.pick(n);
        for (warp = 0; ready_[warp] == 0 || left > 0; warp++) {
            left -= ready_[warp] != 0 ? 1 : 0;
        }
    }
    const unsigned lane = nth_lane(ready_[warp], order_.pick(static_cast<size_t>(__builtin_popcount(ready_[warp]))));
    ready_[warp] &= ~(1u << lane);
    return warp * warp_size + lane;
}

void Block::hesitate() {
    if (order_.hesitates()) {
        make_ready(running_);
        thread().fiber->give_way();
    }
}

std::shared_ptr<const Meeting> Block::meet(Place place, const char * name, size_t slot, size_t n_slots,
                                           const void * value, size_t bytes) {
    std::shared_ptr<Meeting> & open = meetings_[place];
    if (!open) {
        open = std::make_shared<Meeting>();
        open->name = name;
        open->value_bytes = bytes;
        open->values.resize(n_slots * bytes);
    }
    const std::shared_ptr<Meeting> meeting = open;
    if ((meeting->name != name && std::strcmp(meeting->name, name) != 0) || meeting->value_bytes != bytes) {
        throw Fault("thread " + std::to_string(running_) + " is at " + name + ", thread " +
                    std::to_string(meeting->arrived.front()) + " of the same group at " + meeting->name);
    }
    std::memcpy(meeting->values.data() + slot * bytes, value, bytes);
    meeting->arrived.push_back(running_);
    if (is_complete(place, *meeting)) {
        release(place);
        hesitate();
    } else {
        thread().waits_for = meeting.get();
        thread().fiber->give_way();
    }
    return meeting;
}

bool Block::is_complete(Place place, const Meeting & meeting) const {
    const size_t n_expected = place == whole_block ? n_alive_ : static_cast<size_t>(__builtin_popcount(place.second));
    return meeting.arrived.size() == n_expected;
}

// Who waits there can go on; `running_` needs no word.
void Block::release(Place place) {
    const std::shared_ptr<Meeting> meeting = meetings_[place];
    meetings_.erase(place);
    for (const unsigned rank : meeting->arrived) {
        if (threads_[rank].waits_for == meeting.get()) {
            threads_[rank].waits_for = nullptr;
            make_ready(rank);
        }
    }
}

void Block::check_mask(const char * name, uint32_t mask) const {
    const Thread & self = threads_[running_];
    if ((mask >> self.lane() & 1) != 0 && (mask & ~alive_[self.warp()]) == 0) {
        return;
    }
    const std::string who = "thread " + std::to_string(self.rank) + " at " + name;
    if ((mask >> self.lane() & 1) == 0) {
        throw Fault(who + " is not in the mask that it passes");
    }
    for (unsigned lane = 0; lane < warp_size; lane++) {
        const size_t rank = size_t{self.warp()} * warp_size + lane;
        if ((mask >> lane & 1) != 0 && (rank >= threads_.size() || threads_[rank].fiber->has_ended())) {
            throw Fault(who + " waits for lane " + std::to_string(lane) +
                        (rank >= threads_.size() ? ", which the block does not have" : ", which has ended"));
        }
    }
}

void Block::report_standstill() const {
    std::map<std::string, std::vector<unsigned>> waiting;
    for (const Thread & thread : threads_) {
        if (thread.waits_for != nullptr) {
            waiting[thread.waits_for->name].push_back(thread.rank);
        }
    }
    std::ostringstream text;
    text << "threads wait for one another for ever:";
    for (const auto & [name, ranks] : waiting) {
        text << ' ' << ranks.size() << " at " << name << " (such as " << ranks.front() << ")";
    }
    throw Fault(text.str());
}

}  // namespace simt

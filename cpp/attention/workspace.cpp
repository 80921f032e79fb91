#include "workspace.h"

#include <algorithm>

#include "lanes.h"

namespace orin::attention {

namespace {

constexpr size_t alignment = 64;

// Hands out parts of memory, one after the other; with start null, it only counts.
class Cutter {
   public:
    explicit Cutter(std::byte * start) : start_(start) {}

    template <typename T>
    T * cut(size_t n) {
        T * part = start_ == nullptr ? nullptr : reinterpret_cast<T *>(start_ + used_);
        used_ += (n * sizeof(T) + alignment - 1) / alignment * alignment;
        return part;
    }

    size_t used() const { return used_; }

   private:
    std::byte * start_;
    size_t used_ = 0;
};

size_t max_rows(const Limits & limits) {
    return size_t((std::max(block_rows, limits.n_head) + lanes - 1) / lanes * lanes);
}

Sums cut_sums(Cutter & cutter, const Limits & limits) {
    const size_t n_rows = max_rows(limits);
    Sums sums;
    sums.max = cutter.cut<float>(n_rows);
    sums.weights = cutter.cut<float>(n_rows);
    sums.values = cutter.cut<float>(n_rows * size_t(limits.head_dim_v));
    return sums;
}

Desk cut_desk(Cutter & cutter, const Limits & limits) {
    const size_t n_rows = max_rows(limits);
    Desk desk;
    desk.blocks = cutter.cut<Block>(size_t(limits.n_tokens));
    desk.rows = cutter.cut<const char *>(tile);
    desk.q = cutter.cut<float>(n_rows * size_t(limits.head_dim_k));
    desk.scores = cutter.cut<float>(n_rows * tile);
    desk.k = cutter.cut<float>(tile * size_t(limits.head_dim_k));
    desk.v = cutter.cut<float>(tile * size_t(limits.head_dim_v));
    desk.rescale = cutter.cut<float>(n_rows);
    desk.sums = cut_sums(cutter, limits);
    return desk;
}

size_t desk_bytes(const Limits & limits) {
    Cutter cutter(nullptr);
    cut_desk(cutter, limits);
    return cutter.used();
}

size_t piece_bytes(const Limits & limits) {
    Cutter cutter(nullptr);
    cut_sums(cutter, limits);
    return cutter.used();
}

}  // namespace

size_t Workspace::bytes(const Limits & limits) {
    return size_t(limits.n_threads) * desk_bytes(limits) + size_t(max_pieces(limits.n_threads)) * piece_bytes(limits) +
           alignment;
}

Workspace::Workspace(const Limits & limits)
    : limits_(limits),
      memory_(new std::byte[bytes(limits)]),
      finished_(new std::atomic<int32_t>[size_t(max_cut_parts(limits.n_threads))]) {
    void * start = memory_.get();
    size_t space = bytes(limits);
    start_ = static_cast<std::byte *>(std::align(alignment, space - alignment, start, space));
    for (int i = 0; i < max_cut_parts(limits.n_threads); ++i) {
        finished_[size_t(i)].store(0, std::memory_order_relaxed);
    }
}

Desk Workspace::desk(int ith) const {
    Cutter cutter(start_ + size_t(ith) * desk_bytes(limits_));
    return cut_desk(cutter, limits_);
}

Sums Workspace::piece(int32_t i) const {
    Cutter cutter(start_ + size_t(limits_.n_threads) * desk_bytes(limits_) + size_t(i) * piece_bytes(limits_));
    return cut_sums(cutter, limits_);
}

bool Workspace::finish_piece(int32_t cut_part, int32_t n_pieces) {
    std::atomic<int32_t> & finished = finished_[size_t(cut_part)];
    if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 < n_pieces) {
        return false;
    }
    finished.store(0, std::memory_order_relaxed);  // for the next call
    return true;
}

void Workspace::leave(int nth) {
    if (left_.fetch_add(1, std::memory_order_acq_rel) + 1 == nth) {
        taken_.store(0, std::memory_order_relaxed);
        left_.store(0, std::memory_order_relaxed);
    }
}

}  // namespace orin::attention

// The last records of something, in a ring; each gets the next number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace orin {

template <typename Record, size_t capacity>
class NumberedLog {
   public:
    void add(Record record) {
        record.number = ++n_added_;
        if (records_.size() < capacity) {
            records_.push_back(record);
        } else {
            records_[static_cast<size_t>(record.number - 1) % capacity] = record;
        }
    }

    // Those with a larger number, oldest first.
    std::vector<Record> after(int64_t number) const {
        std::vector<Record> result;
        const int64_t first_kept = n_added_ - static_cast<int64_t>(records_.size());
        for (int64_t i = number > first_kept ? number : first_kept; i < n_added_; i++) {
            result.push_back(records_[static_cast<size_t>(i) % capacity]);
        }
        return result;
    }

   private:
    int64_t n_added_ = 0;
    std::vector<Record> records_;
};

}  // namespace orin

// A set of small numbers that gives its lowest or highest at once.
#pragma once

#include <cstdint>
#include <vector>

namespace orin {

// A bitmap with bitmaps of its words that are not zero above it: each operation touches one word per level, and
// three levels hold 262144 numbers. Allocates when constructed, never after.
class NumberSet {
   public:
    // Of the numbers 0 … n - 1; empty. PRECOND: n > 0
    explicit NumberSet(int32_t n);

    void insert(int32_t number);
    void erase(int32_t number);
    bool contains(int32_t number) const;
    bool empty() const { return levels_.back()[0] == 0; }
    int32_t lowest() const;   // PRECOND: !empty()
    int32_t highest() const;  // PRECOND: !empty()

   private:
    std::vector<std::vector<uint64_t>> levels_;  // the first has a bit per number, the last is one word
};

}  // namespace orin

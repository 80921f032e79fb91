// The set of numbers agrees with std::set, also where it has several levels.
#include <cstdint>
#include <set>

#include "check.h"
#include "pages/number_set.h"

int main(int argc, char ** argv) {
    using namespace orin;
    const int64_t n_operations = operations(argc, argv, 60000);
    Random random(7);
    constexpr int32_t sizes[] = {1, 2, 63, 64, 65, 4096, 4097, 262144, 300000};
    for (const int32_t n : sizes) {
        NumberSet numbers(n);
        std::set<int32_t> expected;
        for (int64_t i = 0; i < n_operations / 9; i++) {
            // Near the ends of words and of the set, where levels change.
            int32_t number = random.one_in(2) ? random.below(n) : n - 1 - random.below(n < 130 ? n : 130);
            if (random.one_in(2)) {
                numbers.insert(number);
                expected.insert(number);
            } else {
                number = expected.empty() || random.one_in(4) ? number : *expected.begin();
                numbers.erase(number);
                expected.erase(number);
            }
            CHECK(numbers.empty() == expected.empty());
            CHECK(numbers.contains(number) == (expected.count(number) == 1));
            CHECK(expected.empty() || numbers.lowest() == *expected.begin());
            CHECK(expected.empty() || numbers.highest() == *expected.rbegin());
        }
    }
}

// Keeping some items of a list: four at a time, without a branch.
#pragma once

#include <cstdint>
#include <cstring>

namespace orin::sampling {

constexpr int32_t lanes = 4;
typedef float Floats __attribute__((vector_size(16)));
typedef int32_t Ints __attribute__((vector_size(16)));  // comparisons give -1 for true, 0 for false
typedef uint32_t Words __attribute__((vector_size(16)));

template <typename Vector>
Vector load(const void * from) {
    Vector loaded;
    std::memcpy(&loaded, from, sizeof loaded);
    return loaded;
}

namespace detail {
struct Places {
    uint8_t bytes[1 << lanes][16];
};

constexpr Places places_of_kept() {
    Places places{};
    for (int32_t set = 0; set < 1 << lanes; ++set) {
        int32_t place = 0;
        for (int32_t byte = 0; byte < 16; ++byte) {
            if ((set >> (byte / 4) & 1) != 0) {
                places.bytes[set][place++] = static_cast<uint8_t>(byte);
            }
        }
    }
    return places;
}

// For each set of kept items: the bytes of the four that are kept, and then any.
alignas(16) inline constexpr Places places = places_of_kept();
}  // namespace detail

// Which of four items are kept.
class Kept {
   public:
    explicit Kept(Ints is_kept) {
        // Each kept one adds its bit and, above these, 1: which they are and how many come by one sum.
        typedef uint64_t Pairs __attribute__((vector_size(16)));
        const auto parts = reinterpret_cast<Pairs>(is_kept & Ints{0x11, 0x12, 0x14, 0x18});
        const uint64_t pair = parts[0] + parts[1];
        sum_ = static_cast<uint32_t>(pair + (pair >> 32));
    }

    int32_t count() const { return static_cast<int32_t>(sum_ >> lanes); }

    // Writes the kept ones, in their order, and then anything: `to` has room for four.
    template <typename Vector, typename Item>
    void write(Vector items, Item * to) const {
        static_assert(sizeof items == 16 && sizeof(Item) == 4, "four items of four bytes");
        const uint8_t * from = detail::places.bytes[sum_ % (1 << lanes)];
#ifdef __clang__  // has no shuffle by a variable
        const Vector all = items;
        for (int32_t i = 0; i < lanes; ++i) {
            items[i] = all[from[4 * i] / 4];
        }
#else
        typedef uint8_t Bytes __attribute__((vector_size(16)));
        items = reinterpret_cast<Vector>(__builtin_shuffle(reinterpret_cast<Bytes>(items), load<Bytes>(from)));
#endif
        std::memcpy(to, &items, sizeof items);
    }

   private:
    uint32_t sum_;
};

}  // namespace orin::sampling

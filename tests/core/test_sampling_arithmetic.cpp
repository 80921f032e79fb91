// The arithmetic of the sampling rule on its own: the exponential, the keys and the random words.
//
// With 2000000000 as its argument it tries every argument of the exponential.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>

#include "check.h"
#include "sampling/fixed_exp.h"
#include "sampling/philox.h"
#include "sampling/rank_key.h"

namespace orin {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

float float_of(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

uint32_t bits_of(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// How far the weight is off, less the 1 that rounding to an integer may cost, in parts of the exact value.
double relative_error(float x) {
    const double exact = std::exp(static_cast<double>(x)) * 0x1p30;
    return (std::abs(sampling::fixed_exp(x) - exact) - 1.0) / exact;
}

// Bits of negative floats rise as the floats fall.
void check_exponential(int64_t count) {
    const uint32_t first = bits_of(-0.0f);
    const uint32_t last = bits_of(-23.0f);
    const auto stride = static_cast<uint32_t>(std::max<int64_t>(1, (last - first) / count) | 1);
    double worst = 0.0;
    uint32_t before = sampling::full_weight;
    for (uint32_t bits = first; bits < last; bits += stride) {
        const float x = float_of(bits);
        const uint32_t weight = sampling::fixed_exp(x);
        CHECK(weight <= before);
        CHECK(sampling::fixed_exp(float_of(bits + 1)) <= weight);
        before = weight;
        worst = std::max(worst, relative_error(x));
    }
    std::printf("exponential: 1 in %u arguments, off by 1 and 2^%.2f of the value at most\n", stride, std::log2(worst));
    CHECK(worst < std::exp2(-22.9));
}

// Where the power of two changes, the polynomial goes from one end of its range to the other.
void check_exponential_is_monotone_at_joints() {
    for (int n = 0; n < 32; ++n) {
        const uint32_t joint = bits_of(static_cast<float>(-(n + 0.5) * std::log(2.0)));
        for (uint32_t bits = joint - 2000; bits < joint + 2000; ++bits) {
            CHECK(sampling::fixed_exp(float_of(bits + 1)) <= sampling::fixed_exp(float_of(bits)));
        }
    }
}

// Another device or compiler that gives one other weight gives another sum.
void check_the_bits_of_the_exponential() {
    uint64_t sum = 0;
    uint32_t number = 1;
    for (uint32_t bits = bits_of(-0x1p-26f); bits < bits_of(-22.0f); bits += 997) {
        sum += uint64_t{sampling::fixed_exp(float_of(bits))} * number;
        number += 2;
    }
    CHECK(sum == 11294121472172617504u);
}

void check_ends_of_the_exponential() {
    CHECK(sampling::fixed_exp(0.0f) == sampling::full_weight);
    CHECK(sampling::fixed_exp(-0.0f) == sampling::full_weight);
    CHECK(sampling::fixed_exp(-FLT_MIN) == sampling::full_weight);
    CHECK(sampling::fixed_exp(-21.48f) == 1);
    CHECK(sampling::fixed_exp(-21.49f) == 0);
    CHECK(sampling::fixed_exp(-22.0f) == 0);
    CHECK(sampling::fixed_exp(-FLT_MAX) == 0);
    CHECK(sampling::fixed_exp(-infinity) == 0);
    for (float x = 0.0f; x >= -87.0f; x -= 0.37f) {
        CHECK(std::abs(sampling::scaled_exp(x, 0) / std::exp(static_cast<double>(x)) - 1.0) < std::exp2(-22.9));
    }
}

void check_keys_order_as_floats_do(int64_t count) {
    Random random(1);
    for (int64_t i = 0; i < count; ++i) {
        const float a = float_of(static_cast<uint32_t>(random.below(INT32_MAX)) << 1 ^ (random.one_in(2) ? 1 : 0));
        const float b = random.one_in(4) ? std::nextafter(a, 0.0f) : float_of(bits_of(a) ^ (1u << random.below(32)));
        const bool is_invalid = std::isnan(a) || a == infinity;
        CHECK((sampling::rank_key(a) >= sampling::first_invalid_key) == is_invalid);
        if (!std::isnan(a) && !std::isnan(b)) {
            CHECK((sampling::rank_key(a) < sampling::rank_key(b)) == (a < b));
            CHECK((sampling::rank_key(a) == sampling::rank_key(b)) == (a == b));
            CHECK(sampling::logit_of(sampling::rank_key(a)) == a);
        }
    }
    CHECK(sampling::rank_key(-infinity) == 0);
    CHECK(sampling::rank_key(-0.0f) == sampling::rank_key(0.0f));
    CHECK(sampling::rank_key(FLT_MAX) == sampling::first_invalid_key - 1);
    for (uint32_t nan : {0x7f800001u, 0x7fc00000u, 0x7fffffffu, 0xff800001u, 0xffc00000u, 0xffffffffu}) {
        CHECK(sampling::rank_key(float_of(nan)) >= sampling::first_invalid_key);
    }
}

// The known answers published with Random123 (kat_vectors).
void check_philox_known_answers() {
    using Words = sampling::PhiloxCounter;
    CHECK((sampling::philox4x32_10({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    CHECK((sampling::philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
           Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    CHECK((sampling::philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
           Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

}  // namespace
}  // namespace orin

int main(int argc, char ** argv) {
    const int64_t count = orin::operations(argc, argv, 1'000'000);
    orin::check_exponential(count);
    orin::check_exponential_is_monotone_at_joints();
    orin::check_the_bits_of_the_exponential();
    orin::check_ends_of_the_exponential();
    orin::check_keys_order_as_floats_do(count);
    orin::check_philox_known_answers();
}

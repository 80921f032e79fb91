// What determines the rotation angles of a RoPE node: two nodes with equal parameters share a table.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace orin {

// Which of a token's positions turns which pair of channels.
enum class RopeAxes {
    single,       // one position per token
    sections,     // four positions; the pairs fall into consecutive sections, one per position
    interleaved,  // four positions; time, height and width take turns, the rest follows the fourth
};

struct RopeParams {
    int32_t n_dims = 0;  // rotated channels per head; even
    float freq_base = 0.0f;
    float freq_scale = 1.0f;           // linear position scale (1 / context extension)
    float ext_factor = 0.0f;           // YaRN: share of the extrapolated angle inside the ramp; 0 is off
    float attn_factor = 1.0f;          // magnitude of cos and sin
    std::array<float, 2> corr_dims{};  // YaRN: the pairs between which the ramp falls
    RopeAxes axes = RopeAxes::single;
    std::array<int32_t, 4> sections{};  // pairs that follow time, height, width and the extra position
    std::vector<float> freq_factors;    // [n_dims / 2], divides the angle of a pair; empty: none

    bool operator==(const RopeParams & other) const;

    // The (cos, sin) of every pair at one position, in the float steps of the stock path: the same bits, so that a
    // table changes no output. row: [n_dims]
    void write_row(int32_t position, float * row) const;

    // Index into a token's four positions, per pair. [n_dims / 2], or empty for RopeAxes::single
    std::vector<uint8_t> pair_axes() const;

    // Whether a table can stand for these: sizes and sections make sense and every row is finite.
    bool tabulable() const;
};

}  // namespace orin

// How a product is cut: a thread block has a tile of rows of weights and tokens, and its warps 16 or 32 of these rows
// each, so that every weight is decoded once for all of the tile's tokens.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "matrix.h"
#include "weight_tiles.cuh"

namespace orin::cuda {

constexpr int product_warps = 4;
constexpr int product_threads = product_warps * 32;

// n_tokens: of a block; warp_sixteens: of rows, of a warp; stage_values: of a row of activations, that come together;
// n_stages: one is used, the others are under way.
template <int n_tokens, int warp_sixteens, int stage_values, int n_stages, int n_blocks>
struct ProductTile {
    static constexpr int tokens = n_tokens;
    static constexpr int sixteens = warp_sixteens;
    static constexpr int rows = product_warps * warp_sixteens * 16;
    static constexpr int most_values = stage_values;
    static constexpr int stages = n_stages;
    static constexpr int blocks = n_blocks;  // that a multiprocessor has room for

    // Of the sums by token, such that warps that store theirs find different banks.
    static constexpr int sums_stride = rows + 4;
};

// For weights of a type. Weights come a unit at a time, which may be for several stages of activations.
template <typename Tile, WeightType type>
struct ProductStages {
    using Weights = WeightTile<type>;
    static constexpr int values = Tile::most_values < Weights::unit ? Tile::most_values : Weights::unit;
    static constexpr int eights = values / 32;  // of a lane's run
    static constexpr int per_unit = Weights::unit / values;
    // A unit is requested when the first stage of the one before it is there, or later.
    static constexpr int units = per_unit == 1 ? Tile::stages : 2;
    static_assert(per_unit == 1 || per_unit >= Tile::stages - 1);

    static constexpr int unit_bytes = Tile::rows * Weights::row_bytes;
    static constexpr int row_bytes = values * 2;  // of activations
    static constexpr int stage_bytes = Tile::tokens * row_bytes;
    static constexpr int shared_bytes = units * unit_bytes + Tile::stages * stage_bytes;
};

// Of shared memory, for the host: while sums are made, and then for these.
template <typename Tile>
constexpr int stages_bytes(WeightType type) {
    switch (type) {
        case WeightType::f16:
            return ProductStages<Tile, WeightType::f16>::shared_bytes;
        case WeightType::q8_0:
            return ProductStages<Tile, WeightType::q8_0>::shared_bytes;
        case WeightType::q4_0:
            return ProductStages<Tile, WeightType::q4_0>::shared_bytes;
        case WeightType::q4_1:
            return ProductStages<Tile, WeightType::q4_1>::shared_bytes;
        case WeightType::q4_K:
            return ProductStages<Tile, WeightType::q4_K>::shared_bytes;
        case WeightType::q5_K:
            return ProductStages<Tile, WeightType::q5_K>::shared_bytes;
        case WeightType::q6_K:
            return ProductStages<Tile, WeightType::q6_K>::shared_bytes;
    }
    return 0;
}

template <typename Tile>
constexpr int sums_bytes() {
    return Tile::tokens * Tile::sums_stride * int(sizeof(float));
}

// The rows of weights that a block has: of one matrix, or half of them each of the two of a gate.
struct ProductRows {
    const char * weights;  // the first row
    const char * second;   // of a gate's other matrix
    uint32_t row_bytes;
    int32_t n_together;  // rows of the tile that are of the same matrix
    int32_t last;        // of these, that is there. Those behind it are as that, and nobody stores their sums

    __device__ __forceinline__ uint32_t offset(int together) const { return unsigned(min(together, last)) * row_bytes; }
};

}  // namespace orin::cuda

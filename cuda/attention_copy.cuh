// K and V of a tile, from their cells to shared memory as they are stored, and there to f16.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <device/intrinsics.cuh>

#include "attention_matrices.cuh"
#include "half_bits.cuh"

namespace orin::cuda {

// How a thread copies its share of a head's rows: the same word of every so many.
template <int tile>
class RowCopy {
   public:
    // cells: K or V; row_bytes: from cell to cell; head_bytes: of a head
    __device__ __forceinline__ RowCopy(const TileLayout & layout, const void * cells, uint32_t row_bytes,
                                       int head_bytes, int kv_head)
        : word_(layout.word),
          stride_(layout.stored_stride),
          row_bytes_(row_bytes),
          step_(attention_threads / layout.threads_per_row) {
        const int first_byte = kv_head * head_bytes;
        before_ = first_byte % word_;
        const int i = static_cast<int>(threadIdx.x) % layout.threads_per_row;
        has_word_ = i * word_ < before_ + head_bytes;
        from_ = static_cast<const char *>(cells) + first_byte - before_ + i * word_;
        to_ = i * word_;
        first_row_ = static_cast<int>(threadIdx.x) / layout.threads_per_row;
    }

    // Bytes of a row in shared memory that are not the head's.
    __device__ __forceinline__ int before() const { return before_; }

    // Begins to copy n rows; what a product reads behind them becomes zeros. cells: of the rows
    __device__ __forceinline__ void begin(const int * cells, int n, char * stage) const {
        if (!has_word_) {
            return;
        }
        if (word_ == 16) {
            copy<16>(cells, n, stage + to_);
        } else if (word_ == 8) {
            copy<8>(cells, n, stage + to_);
        } else {
            copy<4>(cells, n, stage + to_);
        }
    }

   private:
    template <int bytes>
    __device__ __forceinline__ void copy(const int * cells, int n, char * to) const {
        to += first_row_ * stride_;
        cells += first_row_;
        const int to_next = step_ * stride_;
        if (n == tile) {
            for (int row = 0; row < tile; row += tile_batch * step_) {
#pragma unroll
                for (int i = 0; i < tile_batch; i++) {
                    copy_async<bytes>(to, from_ + uint64_t(uint32_t(*cells)) * row_bytes_);
                    cells += step_;
                    to += to_next;
                }
            }
            return;
        }
        int row = first_row_;
        for (; row < n; row += step_, cells += step_, to += to_next) {
            copy_async<bytes>(to, from_ + uint64_t(uint32_t(*cells)) * row_bytes_);
        }
        for (; row < divide_up(n, matrix_rows) * matrix_rows; row += step_, to += to_next) {
#pragma unroll
            for (int i = 0; i < bytes; i += 4) {
                *reinterpret_cast<uint32_t *>(to + i) = 0;
            }
        }
    }

    int word_;
    int before_;
    bool has_word_;
    const char * from_;  // of cell 0
    int to_;
    int stride_;
    uint32_t row_bytes_;
    int first_row_;
    int step_;
};

// A thread's share of a head's rows of a quantized type: the same eight values of every so many rows become f16.
template <int tile>
class RowDecoder {
   public:
    // before: bytes of a row that are not the head's
    __device__ __forceinline__ RowDecoder(KvType type, int head_dim, int before, const TileLayout & layout)
        : type_(type), stored_stride_(layout.stored_stride), stride_(layout.stride) {
        constexpr int units_of_block = kv_block_values / 8;
        const int n_units = head_dim / 8;
        int threads_per_row = attention_threads * tile_batch / tile;
        while (threads_per_row < n_units) {
            threads_per_row *= 2;
        }
        const int unit = static_cast<int>(threadIdx.x) % threads_per_row;
        const int i = unit % units_of_block;
        has_unit_ = unit < n_units;
        first_row_ = static_cast<int>(threadIdx.x) / threads_per_row;
        step_ = attention_threads / threads_per_row;
        const bool is_q8 = type == KvType::q8_0;
        scale_ = before + unit / units_of_block * (is_q8 ? q8_0_block_bytes : q4_0_block_bytes);
        const int first = scale_ + 2 + i * (is_q8 ? 8 : 4);
        quants_ = first / 4 * 4;
        shift_ = first % 4 * 8;
        next_word_ = shift_ == 0 ? 0 : 4;
        to_ = (unit / units_of_block * kv_block_values + i * (is_q8 ? 8 : 4)) * 2;
    }

    // All rows of a tile. What is stored in those behind its positions is never read as f16. to: f16
    __device__ __forceinline__ void decode(const char * stored, char * to) const {
        if (!has_unit_) {
            return;
        }
        const char * scale = stored + first_row_ * stored_stride_ + scale_;
        const char * quants = stored + first_row_ * stored_stride_ + quants_;
        to += first_row_ * stride_ + to_;
        if (type_ == KvType::q8_0) {
            decode_all<Q8>(scale, quants, to);
        } else {
            decode_all<Q4>(scale, quants, to);
        }
    }

   private:
    // Bytes below 256 are the lowest bits of f16 from 1024 on. Two of the bytes, less `offset`, times the scale.
    static __device__ __forceinline__ uint32_t scaled(uint32_t bytes, unsigned which, uint32_t offset, __half2 scale) {
        const uint32_t pair = __byte_perm(bytes, 0x64646464, which);
        return as_bits(__hmul2(__hsub2(as_half2(pair), as_half2(offset)), scale));
    }
    static constexpr unsigned lower_two = 0x4140;
    static constexpr unsigned upper_two = 0x4342;

    static __device__ __forceinline__ uint32_t word_at(const char * address) {
        return *reinterpret_cast<const uint32_t *>(address);
    }

    // Eight values as they are stored.
    struct Q8 {
        uint32_t words[3];

        __device__ __forceinline__ void load(const char * quants, int next_word) {
            words[0] = word_at(quants);
            words[1] = word_at(quants + 4);
            words[2] = word_at(quants + 4 + next_word);
        }
        __device__ __forceinline__ void decode(__half2 scale, int shift, char * to) const {
            constexpr uint32_t offset = 0x64806480;  // 1024 + 128
            const uint32_t first = __funnelshift_r(words[0], words[1], unsigned(shift)) ^ 0x80808080;
            const uint32_t second = __funnelshift_r(words[1], words[2], unsigned(shift)) ^ 0x80808080;
            *reinterpret_cast<uint4 *>(to) = {
                scaled(first, lower_two, offset, scale), scaled(first, upper_two, offset, scale),
                scaled(second, lower_two, offset, scale), scaled(second, upper_two, offset, scale)};
        }
    };
    struct Q4 {
        uint32_t words[2];

        __device__ __forceinline__ void load(const char * quants, int next_word) {
            words[0] = word_at(quants);
            words[1] = word_at(quants + next_word);
        }
        __device__ __forceinline__ void decode(__half2 scale, int shift, char * to) const {
            constexpr uint32_t offset = 0x64086408;  // 1024 + 8
            const uint32_t both = __funnelshift_r(words[0], words[1], unsigned(shift));
            const uint32_t low = both & 0x0F0F0F0F;
            const uint32_t high = both >> 4 & 0x0F0F0F0F;
            *reinterpret_cast<uint2 *>(to) = {scaled(low, lower_two, offset, scale),
                                              scaled(low, upper_two, offset, scale)};
            *reinterpret_cast<uint2 *>(to + kv_block_values) = {scaled(high, lower_two, offset, scale),
                                                                scaled(high, upper_two, offset, scale)};
        }
    };

    template <typename Packed>
    __device__ __forceinline__ void decode_all(const char * scale, const char * quants, char * to) const {
        const int next = step_ * stored_stride_;
        for (int row = 0; row < tile; row += tile_batch * step_) {
            Packed packed[tile_batch];
            __half scales[tile_batch];
#pragma unroll
            for (int i = 0; i < tile_batch; i++) {
                packed[i].load(quants, next_word_);
                scales[i] = *reinterpret_cast<const __half *>(scale);
                quants += next;
                scale += next;
            }
#pragma unroll
            for (int i = 0; i < tile_batch; i++) {
                packed[i].decode(__half2half2(scales[i]), shift_, to);
                to += step_ * stride_;
            }
        }
    }

    KvType type_;
    bool has_unit_;
    int stored_stride_;
    int stride_;
    int first_row_;
    int step_;
    int scale_;      // bytes from the beginning of a row
    int quants_;     // the same, of the word that the first value is in
    int shift_;      // bits of that word before it
    int next_word_;  // bytes from a word to the one that it is completed from: itself, where it is complete
    int to_;
};

}  // namespace orin::cuda

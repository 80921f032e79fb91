// The bytes of K and V: one reserved range of addresses, of which the system hands out memory as cells are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ggml-cpp.h"

namespace orin {

struct KvLayerSize {
    size_t k_row_bytes;  // of one cell
    size_t v_row_bytes;
};

struct KvLayer {
    char * k;  // [n_cells, k_row_bytes]
    char * v;  // [n_cells, v_row_bytes]
};

class KvStorage {
   public:
    // Throws std::bad_alloc where not even addresses are left.
    KvStorage(const std::vector<KvLayerSize> & layers, int64_t n_cells);
    ~KvStorage();
    KvStorage(const KvStorage &) = delete;
    KvStorage & operator=(const KvStorage &) = delete;

    int64_t n_cells() const { return n_cells_; }
    size_t bytes_per_cell() const { return bytes_per_cell_; }
    KvLayer layer(size_t index) const { return layers_[index]; }
    // What tensors in this memory belong to.
    ggml_backend_buffer_t buffer() const { return buffer_.get(); }

    // In every layer. PRECOND: the ranges lie within the cells and do not overlap.
    void copy_cells(int64_t from, int64_t to, int32_t n);
    // One cell as bytes: of each layer its K row, then its V row. bytes: [bytes_per_cell]
    void read_cell(int64_t cell, char * bytes) const;
    void write_cell(int64_t cell, const char * bytes);
    // Gives the memory of all cells from this one on back to the system; what they held is lost.
    void give_back(int64_t first_cell);

   private:
    // visit(rows, bytes of a row) for K and V of every layer, in the order of read_cell().
    template <typename Visit>
    void for_all_rows(const Visit & visit) const {
        for (size_t i = 0; i < layers_.size(); i++) {
            visit(layers_[i].k, sizes_[i].k_row_bytes);
            visit(layers_[i].v, sizes_[i].v_row_bytes);
        }
    }

    std::vector<KvLayerSize> sizes_;
    int64_t n_cells_;
    size_t bytes_per_cell_;
    size_t n_bytes_;
    char * memory_;
    std::vector<KvLayer> layers_;
    ggml_backend_buffer_ptr buffer_;  // last: refers to the memory
};

}  // namespace orin

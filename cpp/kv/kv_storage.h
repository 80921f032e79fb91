// The bytes of K and V of all cells of a pool. Addresses are there for all of them; memory comes as it is asked for,
// where that is possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ggml-backend.h"

namespace orin {

struct KvLayerSize {
    size_t k_row_bytes;  // of one cell
    size_t v_row_bytes;
};

struct KvLayer {
    char * k;  // [n_cells, k_row_bytes]
    char * v;  // [n_cells, v_row_bytes]
};

// The message says what was asked for, what is free and what to lower.
struct OutOfMemory : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct KvGrowth {
    bool grows;       // memory comes as it is asked for
    std::string how;  // or why not
};

class KvStorage {
   public:
    virtual ~KvStorage() = default;
    KvStorage(const KvStorage &) = delete;
    KvStorage & operator=(const KvStorage &) = delete;

    int64_t n_cells() const { return n_cells_; }
    size_t bytes_per_cell() const { return bytes_per_cell_; }
    KvLayer layer(size_t index) const { return {pieces_[2 * index].data, pieces_[2 * index + 1].data}; }
    // What tensors in this memory belong to: by it the scheduler knows the device.
    virtual ggml_backend_buffer_t buffer() const = 0;
    virtual KvGrowth growth() const = 0;

    // Memory for the first n cells. Throws OutOfMemory, and there is as much as before.
    virtual void commit(int64_t n) = 0;
    // Gives back the memory of all cells from this one on, as far as that is possible; what they held is lost.
    virtual void give_back(int64_t first_cell) = 0;
    virtual size_t committed_bytes() const = 0;
    virtual int64_t committed_cells() const = 0;  // the first so many have memory

    // All that follows is for committed cells. What queued work reads or writes must be done before, but for copies,
    // which may be queued behind it.

    // In every layer, on the stream of a backend; at once where that is null. PRECOND: the ranges do not overlap.
    void copy_cells(int64_t from, int64_t to, int32_t n, ggml_backend_t stream);
    // Cells as bytes: of each cell, of each layer its K row, then its V row. bytes: [n, bytes_per_cell]
    void read_cells(int64_t first, int32_t n, char * bytes) const;
    void write_cells(int64_t first, int32_t n, const char * bytes);

   protected:
    // K or V of one layer.
    struct Piece {
        size_t row_bytes;
        char * data;
    };

    KvStorage(const std::vector<KvLayerSize> & layers, int64_t n_cells);

    virtual void copy(const char * from, char * to, size_t n_bytes, ggml_backend_t stream) = 0;
    virtual void read(const char * from, char * bytes, size_t n_bytes) const = 0;
    virtual void write(const char * bytes, char * to, size_t n_bytes) = 0;

    std::vector<Piece> pieces_;  // [layers, 2]; who derives from this sets `data`

   private:
    int64_t n_cells_;
    size_t bytes_per_cell_ = 0;
};

// In the memory of the CPU, or of a GPU. no_growth: why all of a GPU's is there from the start, as zeros; "": it may
// come as it is asked for. Throws OutOfMemory, and std::bad_alloc where not even addresses are left.
std::unique_ptr<KvStorage> make_kv_storage(ggml_backend_dev_t device, const std::vector<KvLayerSize> & layers,
                                           int64_t n_cells, const std::string & no_growth);

}  // namespace orin

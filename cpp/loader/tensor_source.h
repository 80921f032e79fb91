// The tensors that one call of the load hook is to load, and how each gets there.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ggml-backend.h"
#include "ggml.h"

struct llama_model_loader;

namespace orin {

enum class Way {
    mapped,   // its address is in the mapped file
    lazy,     // the same, and llama.cpp reads its rows when they are needed
    copied,   // to memory of the host, any part at any time
    rows,     // ggml repacks it for the CPU's dot products, some rows at a time
    device,   // by the device, any part at any time
    at_once,  // its buffer takes it only as a whole
};

struct TensorSource {
    ggml_tensor * tensor = nullptr;
    Way way = Way::copied;
    uint32_t part = 0;    // which file
    uint64_t offset = 0;  // in it
    uint64_t nbytes = 0;
};

// Rows of which ggml interleaves no more than this many.
constexpr int64_t rows_repacked_at_once = 16;

// Of the tensors in this context those that the files have. Mapped ones get their addresses here.
std::vector<TensorSource> find_sources(llama_model_loader & loader, ggml_context * tensors,
                                       const std::unordered_map<uint32_t, ggml_backend_buffer *> & buffers);

}  // namespace orin

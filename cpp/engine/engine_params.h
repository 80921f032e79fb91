// What an engine is made with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kv_types.h"

namespace orin {

enum class Paging {
    off,
    cells_only,  // pages, but stock attention: the oracle of the tests
    on,
};

// Where llama.cpp's own attention computes.
enum class FlashAttention { automatic, on, off };

struct EngineParams {
    int32_t n_ctx = 0;           // tokens of one sequence, at least 1
    int32_t chunk_size = 512;    // prompt tokens of a step
    int32_t max_batch = 16;      // sequences computed at once, where memory is paged
    int32_t prompt_outputs = 1;  // prompt tokens of a step whose logits are wanted, at most; more only with max_batch 1
    int32_t threads = 1;
    std::vector<int32_t> cpus;  // cores that the engine's own threads may use; none: all
    KvTypes kv_types;
    FlashAttention flash_attention = FlashAttention::automatic;
    bool rope = true;
    // On a GPU that has all layers, where memory is paged:
    bool sampling = true;                    // tokens are drawn there
    bool uploads = true;                     // inputs go there through pinned memory
    bool lanes = true;                       // steps without prompt tokens are padded to few sizes
    bool gather = true;                      // prompts' attention reads what is gathered from pages
    bool matrices = true;                    // products of weights are computed by our kernels
    bool growth = true;                      // the KV cache gets memory as it needs it, where that works
    std::map<std::string, int32_t> kernels;  // MatrixChoices by name, in place of those for the device
    Paging paging = Paging::on;
    int32_t page_size = 16;
    int32_t kv_pages = 0;  // that sequences and cached prefixes may take together; holds n_ctx tokens at least
    bool prefix_cache = true;
};

}  // namespace orin

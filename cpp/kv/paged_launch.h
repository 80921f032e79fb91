// Paged attention on a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "ggml-cpp.h"

namespace orin {

struct PagedAttentionSetup;

// Lets CUDA run paged attention nodes; any number of times.
void register_paged_attention_op();

// What the nodes of an engine share on a GPU. Launches that use it must be in one order: of one stream, or of several
// that wait for each other.
struct DeviceAttention {
    ggml_backend_dev_t device;
    ggml_backend_buffer_ptr memory;
    float * workspace;
    size_t workspace_bytes;
    int32_t * counters;
    size_t counter_bytes;
    int32_t n_multiprocessors;
    int32_t max_single_tokens;  // in larger steps, sequences have several tokens
};

// The largest step there can be.
struct DeviceAttentionLimits {
    struct Layer {
        int32_t n_head;
        int32_t n_head_kv;
        int32_t head_dim_k;
        int32_t head_dim_v;
    };
    std::vector<Layer> layers;
    ggml_type k_type;
    ggml_type v_type;
    int32_t n_tokens;
    int32_t max_single_tokens;
};

// Throws OutOfMemory.
DeviceAttention make_device_attention(ggml_backend_dev_t device, const DeviceAttentionLimits & limits);

// Whether a node of the setup can be launched; its sources need no memory yet.
bool paged_attention_is_supported(const ggml_tensor * node);

}  // namespace orin

// The hooks that patched llama.cpp and ggml files call: the only header of ours that they include, so it needs nothing
// of ours or of theirs, and is valid C for those that are C. docs/hooks.md says where each call sits.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_backend;
struct ggml_tensor;

// A RoPE node carries the address of its table in the two parameter slots that upstream leaves at 0.
enum { ORIN_ROPE_SLOT_LOW = 0, ORIN_ROPE_SLOT_HIGH = 3 };

// The table stamped on a RoPE node, or null. `op_params` are the node's 16 parameters.
static inline void * orin_rope_table(const int32_t * op_params) {
    const uint64_t low = (uint32_t)op_params[ORIN_ROPE_SLOT_LOW];
    const uint64_t high = (uint32_t)op_params[ORIN_ROPE_SLOT_HIGH];
    return (void *)(uintptr_t)(high << 32 | low);
}

bool orin_rope_fill_from_table(void * table, const int32_t * positions, int64_t token, int64_t n_tokens, float * row);

// Writes the row of [cos, sin] pairs of one token. False: nothing was written, compute it the stock way.
// positions: [n_tokens], or [4, n_tokens] for multi-section RoPE; row: [n_dims].
static inline bool orin_rope_fill(const int32_t * op_params, const int32_t * positions, int64_t token, int64_t n_tokens,
                                  float * row) {
    void * table = orin_rope_table(op_params);
    return table != 0 && orin_rope_fill_from_table(table, positions, token, n_tokens, row);
}

// Whether a GGML_OP_CUSTOM node has a CUDA launcher that takes its shapes and types.
bool orin_cuda_custom_supports(const struct ggml_tensor * op);

// Launches a GGML_OP_CUSTOM node on a cudaStream_t. Returns a cudaError_t.
int orin_cuda_custom_launch(struct ggml_tensor * op, void * stream);

// Of a MUL_MAT node, and 0 upstream: whether cuBLAS makes it of weights decoded to f16, with sums and results in f32.
enum { ORIN_MUL_MAT_SLOT = 15 };

static inline bool orin_takes_cublas(const int32_t * op_params) {
    return op_params[ORIN_MUL_MAT_SLOT] != 0;
}

// Queues the copy of an input of a graph to `copy`, which is on `backend`, on the stream of that backend; the host's
// memory of `input` may change when this returns. False: nothing was done, copy it the stock way. `hooks` is the
// engine's orin::EngineHooks, or null.
bool orin_upload_input(void * hooks, struct ggml_backend * backend, const struct ggml_tensor * input,
                       struct ggml_tensor * copy);

// A context keeps this many graphs apart, each in memory of its own: one that is built again lies where it lay, so that
// a CUDA graph captured from it is still good.
enum { ORIN_GRAPH_SLOTS = 16 };

// Which of them a graph with this number of outputs takes. Stock has two: without outputs, and with any.
int orin_graph_slot(void * hooks, uint32_t n_outputs);

#ifdef __cplusplus
}

#include <functional>
#include <unordered_map>

class llm_graph_result;
struct ggml_backend_buffer;
struct ggml_context;
struct llama_cparams;
struct llama_memory_context_i;
struct llama_memory_i;
struct llama_memory_params;
struct llama_model;
struct llama_model_loader;

// The progress callback of a load that reads the tensors' data itself; its data is the load's orin::ModelLoad.
bool orin_load_progress(float fraction, void * load);

static inline bool orin_reads(bool (*progress)(float fraction, void * load)) {
    return progress == orin_load_progress;
}

// Loads the data of these tensors, which have their buffers, or, where a file is mapped (`buffers` has the mapping's by
// file), get their addresses in it. False: it was stopped. Throws std::exception, and leaves to llama.cpp to free all.
bool orin_load_tensors(void * load, llama_model_loader & loader, ggml_context * tensors,
                       std::unordered_map<uint32_t, ggml_backend_buffer *> & buffers);

// llama_model_quantize, on the thread that called it. An exception stops it.
// Rows of this tensor are no whole blocks of the ggml_type that it was to have.
void orin_quantize_fallback(const ggml_tensor * tensor, int wanted_type);
// This tensor is next, and gets this ggml_type; called in a dry run, too.
void orin_quantize_tensor(const ggml_tensor * tensor, int new_type);
// As many rows of it as these were quantized and written.
void orin_quantize_rows(int64_t n_rows);

// In both, `hooks` is the engine's orin::EngineHooks, or null for stock behaviour.

// The KV cache of a context whose model has nothing but attention, in all layers that `filter` does not leave out:
// plain, or with a sliding window in some of them. `reuse` names the layer whose cache another one reads, or is below
// 0. Null: make the stock one.
llama_memory_i * orin_create_memory(void * hooks, const llama_model & model, const llama_memory_params & params,
                                    const llama_cparams & cparams, const std::function<bool(int32_t)> & filter,
                                    const std::function<int32_t(int32_t)> & reuse);

// A model graph is complete, not yet allocated.
void orin_graph_built(void * hooks, llm_graph_result & result, const llama_memory_context_i * memory);
#endif

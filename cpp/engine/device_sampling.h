// Drawing tokens on a GPU: what the sampling nodes of an engine's graphs read there and write there, for two steps
// under way. Of a step only token ids come back to the host, and the log-probabilities that were asked for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "../hooks/sampling_node.h"
#include "computer.h"
#include "ggml-cpp.h"

namespace orin {

constexpr int32_t max_device_bias = 4096;

struct DeviceSamplingSizes {
    int32_t n_sequences;
    int32_t n_vocab;
    int32_t max_outputs;  // of a step, idle lanes included
    int32_t max_recent;   // tokens that penalties look at: the engine's context
};

// One thread, but for check(). When it ends, nothing that it queued may be under way.
class DeviceSampling {
   public:
    // Throws EngineError where there is no memory.
    DeviceSampling(ggml_backend_dev_t device, const DeviceSamplingSizes & sizes);

    // For graphs: see use_device_sampling().
    SamplingSetup & setup() { return setup_; }

    // Throws EngineError where an answer asks for more than there is room for. Any thread.
    void check(const Sampler & sampler, int64_t n_logprobs) const;

    // In this order for each step, and at most two that are not collected. `backend` computes it, after all that was
    // queued before on another one (StreamOrder).
    //
    // Before a graph of batch.rows, then n_idle rows that are outputs and that nobody asks for.
    void prepare(const StepBatch & batch, const std::vector<OutputDraw> & draws, int32_t n_idle,
                 ggml_backend_t backend);
    // After it was queued.
    void queue_result(ggml_backend_t backend);
    // Or the step that was prepared last is not computed.
    void abandon() { n_prepared_--; }
    // Waits for the oldest step. drawn: of the outputs of its batch; errors are left to the caller.
    void collect(std::vector<DrawnOutput> & drawn);

   private:
    // The answer that a row of the tables is of.
    struct Holder {
        RequestId request = 0;  // none
        size_t n_seen = 0;      // tokens that its penalties have seen on the device
    };
    struct Asked {
        RequestId request;
        int32_t n_logprobs;
    };
    struct UnderWay {
        ggml_backend_buffer_ptr pinned;
        int32_t * tokens;                   // there: [max_outputs]
        sampling::TokenLogprob * logprobs;  // there: [max_outputs, max_top_logprobs + 1]
        char * uploads;                     // there: room for what the tables have of one sequence
        size_t n_uploaded;                  // bytes of it that are taken
        ggml_backend_event_ptr is_done;
        std::vector<Asked> outputs;  // of the batch
    };

    size_t n_under_way(RequestId request) const;
    void make_tables(ggml_backend_dev_t device);
    UnderWay make_step(ggml_backend_dev_t device) const;
    size_t upload_bytes() const;
    sampling::Lane lane_of(const OutputDraw & draw, SequenceId sequence, RequestId request, ggml_backend_t backend);
    void bring(const Sampler & sampler, SequenceId sequence, ggml_backend_t backend);
    void upload(ggml_tensor * table, SequenceId sequence, const void * row, size_t n_bytes, ggml_backend_t backend);
    const UnderWay & step(int64_t number) const { return steps_[static_cast<size_t>(number) % steps_.size()]; }
    UnderWay & step(int64_t number) { return steps_[static_cast<size_t>(number) % steps_.size()]; }

    const DeviceSamplingSizes sizes_;
    ggml_context_ptr context_;
    ggml_backend_buffer_ptr tables_;
    SamplingSetup setup_;
    std::vector<Holder> holders_;  // [n_sequences]
    std::array<UnderWay, 2> steps_;
    int64_t n_prepared_ = 0;
    int64_t n_collected_ = 0;
};

}  // namespace orin

// Computes the steps that a scheduler plans, and draws their tokens: where keys and values are kept, which context of
// llama.cpp is asked, and where logits are sampled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "../sampling/logprobs.h"
#include "../scheduler/step_batch.h"
#include "runtime.h"
#include "sampler.h"

namespace orin {

// The memory of a paged KV cache.
struct KvUse {
    int64_t page_bytes = 0;  // 0: nothing is paged
    int64_t committed_bytes = 0;
};

// There is no memory for pages that a step writes first, and nothing of it was begun. The message says what was asked
// for, what is free and what to lower.
struct KvFull : EngineError {
    KvFull(const std::string & message, int32_t n) : EngineError(message), n_pages(n) {}
    int32_t n_pages;  // that have memory: the lowest, the scratch page not counted
};

struct StepTimes {
    double upload_ms = 0.0;    // bringing the rows into llama.cpp's form, and copies on write
    double compute_ms = 0.0;   // in llama.cpp; for a step started ahead, since the one before was collected
    double sampling_ms = 0.0;  // drawing tokens, log-probabilities included, where that is a phase of its own
};

// How the token of one output of a batch is drawn.
struct OutputDraw {
    Sampler * sampler;
    int32_t n_logprobs;  // likeliest tokens to report; -1: no log-probabilities
    uint64_t position;   // of the token to draw, in its sequence
};

struct DrawnOutput {
    int32_t token;                                 // or a sampling::Failure
    std::vector<sampling::TokenLogprob> logprobs;  // see sampling::top_logprobs; none for a failure
    std::exception_ptr error;                      // with a failure: what was found, where that is known
};

class Computer {
   public:
    virtual ~Computer() = default;

    // Starts a step; draws: how its outputs are drawn, their samplers stay until it is collected. Throws EngineError,
    // KvFull and Interrupted among them: the step has failed then, and is not collected.
    virtual void start(const StepBatch & batch, const std::vector<OutputDraw> & draws) = 0;
    // Waits for the oldest step that was started and is not collected: what was drawn for each of its outputs. Valid,
    // and the caller's to change, until the next call. Throws as start() does: the step has failed then; the one
    // started after it is to be collected all the same, and nothing of it may be used.
    virtual std::vector<DrawnOutput> & collect() = 0;
    // 2 where a drawn token reaches the next step on the device, so that a step may be started before the one before
    // it is collected; else 1.
    virtual int32_t max_steps_under_way() const { return 1; }
    // Tokens of the step collected last that were not computed, for they were there already.
    virtual int32_t n_found() const { return 0; }
    // The rest is for a caller who has no step under way, but for what is const.
    // All that could be found again and is not in use is given up.
    virtual void forget() = 0;
    virtual KvUse kv_use() const { return {}; }
    // Whether much memory is not needed any more.
    virtual bool wants_trim() const { return false; }
    // Gives it back.
    virtual void trim() {}

    // Of the step collected last.
    const StepTimes & times() const { return times_; }
    // Graphs that had to be built since the start, all contexts together.
    int64_t n_graphs_built() const { return n_graphs_built_; }

   protected:
    StepTimes times_;
    int64_t n_graphs_built_ = 0;
};

}  // namespace orin

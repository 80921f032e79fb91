#include "gpu_computer.h"

#include <algorithm>
#include <stdexcept>

#include "clock.h"
#include "gpu.h"
#include "lanes.h"

namespace orin {
namespace {

// What on_gpu() says of a failure.
auto step_of(size_t n_tokens) {
    return [n_tokens] { return "a step of " + std::to_string(n_tokens) + " tokens failed on the GPU"; };
}

bool still_answers(llama_context * context) {
    const AbortGuard guard;
    try {
        llama_synchronize(context);
        return true;
    } catch (const std::exception &) {
        return false;
    }
}

// Null: the host draws.
std::unique_ptr<DeviceSampling> make_sampling(const EngineParams & params, const Model & model) {
    if (!params.sampling || !model.has_table_on_gpu()) {
        return nullptr;
    }
    DeviceSamplingSizes sizes{};
    sizes.n_sequences = params.max_batch + 1;
    sizes.n_vocab = model.n_vocab();
    sizes.max_outputs = params.max_batch + 1;  // while memory is reserved
    sizes.max_recent = params.n_ctx;
    return std::make_unique<DeviceSampling>(model.gpu(), sizes);
}

}  // namespace

GpuComputer::GpuComputer(PagedKv & pages, const EngineParams & params, const Model & model)
    : PagedComputer(pages, params, model.n_vocab(), params.lanes),
      gpu_(model.gpu()),
      order_(model.gpu()),
      sampling_(make_sampling(params, model)) {
    pool_.set_wait([this] { synchronize(); });
}

bool GpuComputer::make_contexts(Model & model, EngineHooks & hooks, const StopCheck & stop) {
    model_ = &model;
    hooks_ = &hooks;
    stop_ = stop;
    return PagedComputer::make_contexts(model, hooks, stop);
}

void GpuComputer::check(const Sampler & sampler, int64_t n_logprobs) const {
    if (sampling_ != nullptr) {
        sampling_->check(sampler, n_logprobs);
    }
}

void GpuComputer::start(const StepBatch & batch, const std::vector<OutputDraw> & draws) {
    if (sampling_ == nullptr) {
        LogitsComputer::start(batch, draws);
    } else {
        attempt(batch, &draws);
    }
    under_way_.push_back(queued_);
}

void GpuComputer::compute(const StepBatch & batch) {
    if (sampling_ != nullptr) {
        throw std::logic_error("logits are computed where tokens are drawn on the GPU");
    }
    attempt(batch, nullptr);
}

void GpuComputer::attempt(const StepBatch & batch, const std::vector<OutputDraw> * draws) {
    ensure_contexts();
    try {
        on_gpu(gpu_, step_of(batch.rows.size()), [&] { queue(batch, draws); });
    } catch (const EngineError &) {
        recover();
        throw;
    }
}

void GpuComputer::queue(const StepBatch & batch, const std::vector<OutputDraw> * draws) {
    const double started = now_ms();
    llama_context * context = context_for(batch);
    ggml_backend_t backend = backend_of(*context);
    order_.enter(backend);
    grow();
    pool_.copy_pages(batch.copies, backend);
    take_rows(batch);
    const int32_t n_idle = add_idle_lanes(context);
    if (draws != nullptr) {
        sampling_->prepare(batch, *draws, n_idle, backend);
    }
    const double uploaded = now_ms();
    try {
        compute_uploaded(context);
        if (draws != nullptr) {
            sampling_->queue_result(backend);
        }
    } catch (...) {
        if (draws != nullptr) {
            sampling_->abandon();
        }
        throw;
    }
    queued_ = {context, batch.rows.size(), uploaded - started, uploaded};
}

void GpuComputer::compute_uploaded(llama_context * context) {
    UploadRing * uploads = hooks_->uploads();
    if (uploads != nullptr) {
        uploads->begin_step();
    }
    compute_rows_in(context);
    if (uploads != nullptr) {
        uploads->end_step();
    }
}

// A step with prompt tokens is not padded: its size is never the same for long.
int32_t GpuComputer::add_idle_lanes(llama_context * context) {
    if (context != decode_.get() || !has_idle_lanes_) {
        return 0;
    }
    const int32_t n_idle = padded_lanes(rows_.size(), params_.max_batch) - rows_.size();
    for (int32_t i = 0; i < n_idle; i++) {
        rows_.add(0, i, params_.max_batch, true);
    }
    return n_idle;
}

std::vector<DrawnOutput> & GpuComputer::collect() {
    const UnderWay step = under_way_.front();
    under_way_.pop_front();
    try {
        on_gpu(gpu_, step_of(step.n_tokens), [&] {
            if (sampling_ != nullptr) {
                sampling_->collect(drawn_);
            } else {
                llama_synchronize(step.context);
            }
        });
    } catch (const EngineError &) {
        recover();
        throw;
    }
    const double done = now_ms();
    times_ = {step.upload_ms, done - std::max(step.queued_ms, last_done_ms_), 0.0};
    last_done_ms_ = done;
    return sampling_ == nullptr ? LogitsComputer::collect() : drawn_;
}

const float * GpuComputer::logits(size_t output) const {
    const float * row = nullptr;
    const auto what = [] { return "logits could not be brought from the GPU"; };
    on_gpu(gpu_, what, [&] { row = PagedComputer::logits(output); });
    return row;
}

// Where the GPU cannot be waited for, its memory stays as it is until another time.
void GpuComputer::trim() {
    try {
        PagedComputer::trim();
    } catch (const EngineError &) {
        recover();
    }
}

void GpuComputer::synchronize() {
    const auto what = [] { return "the GPU did not finish what it was told"; };
    on_gpu(gpu_, what, [&] {
        for (llama_context * context : {prefill_.get(), decode_.get()}) {
            if (context != nullptr) {
                llama_synchronize(context);
            }
        }
    });
}

void GpuComputer::ensure_contexts() {
    if (prefill_ != nullptr && decode_ != nullptr) {
        return;
    }
    if (!gpu_memory(gpu_)) {
        throw EngineError("the GPU does not answer since a call of it failed: end this program and start it again");
    }
    if (!PagedComputer::make_contexts(*model_, *hooks_, stop_)) {
        throw EngineError("after a failure of the GPU no context could be made: " + hook_.refusal());
    }
}

// A context that a failure has left unusable is given up: freeing it would end the process. The next step makes
// another one.
void GpuComputer::recover() {
    for (ContextPtr * context : {&prefill_, &decode_}) {
        if (*context != nullptr && !still_answers(context->get())) {
            (void)context->release();
            order_.forget();
        }
    }
}

}  // namespace orin

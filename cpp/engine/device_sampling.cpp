#include "device_sampling.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "../sampling/rule.h"
#include "gpu.h"

namespace orin {
namespace {

constexpr size_t logprobs_per_output = sampling::max_top_logprobs + 1;

ggml_backend_buffer_ptr pinned_memory(ggml_backend_dev_t device, size_t n_bytes) {
    ggml_backend_buffer_type_t type = ggml_backend_dev_host_buffer_type(device);
    ggml_backend_buffer_ptr buffer(
        ggml_backend_buft_alloc_buffer(type != nullptr ? type : ggml_backend_cpu_buffer_type(), n_bytes));
    if (!buffer) {
        throw EngineError("no " + std::to_string(n_bytes >> 10) +
                          " KiB of pinned memory for sampling on the GPU: close other programs");
    }
    return buffer;
}

[[noreturn]] void refuse(const std::string & what, int64_t asked, int64_t limit) {
    throw EngineError(std::to_string(asked) + " " + what + " were asked for: sampling on the GPU has room for " +
                      std::to_string(limit) + ". Ask for fewer, or sample on the CPU (--hooks -sampling).");
}

}  // namespace

DeviceSampling::DeviceSampling(ggml_backend_dev_t device, const DeviceSamplingSizes & sizes)
    : sizes_(sizes), holders_(static_cast<size_t>(sizes.n_sequences)) {
#ifdef ORIN_CUDA
    register_sampling_ops();
#endif
    make_tables(device);
    for (UnderWay & step : steps_) {
        step = make_step(device);
    }
}

void DeviceSampling::make_tables(ggml_backend_dev_t device) {
    constexpr int n_tables = 6;
    context_.reset(ggml_init({n_tables * ggml_tensor_overhead(), nullptr, true}));
    const auto table = [&](ggml_type type, int64_t row, int64_t n_rows, const char * name) {
        ggml_tensor * tensor = ggml_new_tensor_2d(context_.get(), type, row, n_rows);
        ggml_set_name(tensor, name);
        return tensor;
    };
    const auto n_workspace = static_cast<int64_t>(sampling_workspace_bytes(sizes_.max_outputs, sizes_.n_vocab));
    SamplingTables & tables = setup_.tables;
    tables.last_drawn = table(GGML_TYPE_I32, sizes_.n_sequences, 1, "sampling_last_drawn");
    tables.recent = table(GGML_TYPE_I32, sizes_.max_recent, sizes_.n_sequences, "sampling_recent");
    tables.bias = table(GGML_TYPE_I32, 2 * max_device_bias, sizes_.n_sequences, "sampling_bias");
    tables.workspace = table(GGML_TYPE_I8, n_workspace, 1, "sampling_workspace");
    tables.drawn = table(GGML_TYPE_I32, sizes_.max_outputs, 1, "sampling_drawn");
    tables.logprobs = table(GGML_TYPE_I32, 2 * logprobs_per_output, sizes_.max_outputs, "sampling_logprobs");
    ggml_backend_buffer_type_t type = ggml_backend_dev_buffer_type(device);
    tables_.reset(ggml_backend_alloc_ctx_tensors_from_buft(context_.get(), type));
    if (!tables_) {
        throw gpu_error(device, "sampling for " + std::to_string(sizes_.max_outputs) + " sequences at once",
                        "there is no room for its tables",
                        "Lower max_batch or --kv-memory, or sample on the CPU (--hooks -sampling).");
    }
    ggml_backend_buffer_clear(tables_.get(), 0);
}

size_t DeviceSampling::upload_bytes() const {
    return static_cast<size_t>(sizes_.max_recent) * sizeof(int32_t) + max_device_bias * sizeof(sampling::Bias);
}

DeviceSampling::UnderWay DeviceSampling::make_step(ggml_backend_dev_t device) const {
    const auto n_outputs = static_cast<size_t>(sizes_.max_outputs);
    const size_t n_logprobs = n_outputs * logprobs_per_output;
    UnderWay step{};
    step.pinned = pinned_memory(
        device, n_logprobs * sizeof(sampling::TokenLogprob) + n_outputs * sizeof(int32_t) + upload_bytes());
    step.logprobs = static_cast<sampling::TokenLogprob *>(ggml_backend_buffer_get_base(step.pinned.get()));
    step.tokens = reinterpret_cast<int32_t *>(step.logprobs + n_logprobs);
    step.uploads = reinterpret_cast<char *>(step.tokens + n_outputs);
    step.is_done.reset(ggml_backend_event_new(device));
    if (!step.is_done) {
        throw EngineError("this GPU's backend has no events: sample on the CPU (--hooks -sampling)");
    }
    return step;
}

void DeviceSampling::check(const Sampler & sampler, int64_t n_logprobs) const {
    if (sampler.bias().size() > max_device_bias) {
        refuse("logit biases", static_cast<int64_t>(sampler.bias().size()), max_device_bias);
    }
    if (std::min<int64_t>(n_logprobs, sizes_.n_vocab) > sampling::max_top_logprobs) {
        refuse("log-probabilities at each place", n_logprobs, sampling::max_top_logprobs);
    }
    if (sampler.penalty_window() > static_cast<size_t>(sizes_.max_recent)) {
        refuse("recent tokens for penalties", static_cast<int64_t>(sampler.penalty_window()), sizes_.max_recent);
    }
}

void DeviceSampling::prepare(const StepBatch & batch, const std::vector<OutputDraw> & draws, int32_t n_idle,
                             ggml_backend_t backend) {
    if (n_prepared_ - n_collected_ == static_cast<int64_t>(steps_.size())) {
        throw std::logic_error("more steps are under way than sampling has results for");
    }
    UnderWay & prepared = step(n_prepared_);
    prepared.n_uploaded = 0;
    prepared.outputs.clear();
    SamplingStep & told = setup_.step;
    told.lanes.clear();
    told.fed_from.clear();
    for (const BatchRow & row : batch.rows) {
        told.fed_from.push_back(row.token == unknown_token ? row.sequence : -1);
    }
    told.fed_from.resize(told.fed_from.size() + static_cast<size_t>(n_idle), -1);
    for (size_t i = 0; i < draws.size(); i++) {
        const RequestId request = batch.outputs[i].request;
        const SequenceId sequence = batch.rows[static_cast<size_t>(batch.outputs[i].row)].sequence;
        told.lanes.push_back(lane_of(draws[i], sequence, request, backend));
        prepared.outputs.push_back({request, draws[i].n_logprobs});
    }
    sampling::Lane idle{};
    idle.sequence = -1;
    idle.recent_slot = -1;
    idle.n_logprobs = -1;
    told.lanes.resize(told.lanes.size() + static_cast<size_t>(n_idle), idle);
    n_prepared_++;
}

size_t DeviceSampling::n_under_way(RequestId request) const {
    size_t n = 0;
    for (int64_t number = n_collected_; number < n_prepared_; number++) {
        for (const Asked & output : step(number).outputs) {
            n += output.request == request;
        }
    }
    return n;
}

sampling::Lane DeviceSampling::lane_of(const OutputDraw & draw, SequenceId sequence, RequestId request,
                                       ggml_backend_t backend) {
    const Sampler & sampler = *draw.sampler;
    Holder & holder = holders_[static_cast<size_t>(sequence)];
    const size_t n_seen = sampler.n_seen() + n_under_way(request);  // on the device
    if (holder.request != request || holder.n_seen != n_seen) {     // another answer, or it was elsewhere meanwhile
        bring(sampler, sequence, backend);
    }
    holder = {request, n_seen + 1};
    sampling::Lane lane{};
    lane.params = sampler.params();
    lane.position = draw.position;
    lane.sequence = sequence;
    lane.recent_slot = -1;
    lane.n_bias = static_cast<int32_t>(sampler.bias().size());
    lane.n_logprobs = draw.n_logprobs;
    if (sampling::has_penalties(lane.params) && sampler.penalty_window() > 0) {
        lane.n_recent = static_cast<int32_t>(std::min(n_seen, sampler.penalty_window()));
        lane.recent_slot = static_cast<int32_t>(n_seen % sampler.penalty_window());
    }
    return lane;
}

void DeviceSampling::bring(const Sampler & sampler, SequenceId sequence, ggml_backend_t backend) {
    if (sampling::has_penalties(sampler.params())) {
        upload(setup_.tables.recent, sequence, sampler.recent().data(), sampler.recent().size() * sizeof(int32_t),
               backend);
    }
    std::vector<sampling::Bias> bias = sampler.bias();
    sampling::group_bias(bias.data(), static_cast<int32_t>(bias.size()));
    upload(setup_.tables.bias, sequence, bias.data(), bias.size() * sizeof(sampling::Bias), backend);
}

void DeviceSampling::upload(ggml_tensor * table, SequenceId sequence, const void * row, size_t n_bytes,
                            ggml_backend_t backend) {
    if (n_bytes == 0) {
        return;
    }
    UnderWay & current = step(n_prepared_);
    if (current.n_uploaded + n_bytes > upload_bytes()) {  // many answers begin at once
        ggml_backend_synchronize(backend);
        current.n_uploaded = 0;
    }
    char * pinned = current.uploads + current.n_uploaded;
    std::memcpy(pinned, row, n_bytes);
    current.n_uploaded += n_bytes;
    ggml_backend_tensor_set_async(backend, table, pinned, static_cast<size_t>(sequence) * table->nb[1], n_bytes);
}

void DeviceSampling::queue_result(ggml_backend_t backend) {
    UnderWay & queued = step(n_prepared_ - 1);
    if (!queued.outputs.empty()) {
        ggml_backend_tensor_get_async(backend, setup_.tables.drawn, queued.tokens, 0,
                                      queued.outputs.size() * sizeof(int32_t));
    }
    for (size_t i = 0; i < queued.outputs.size(); i++) {
        const int32_t n_logprobs = queued.outputs[i].n_logprobs;
        if (n_logprobs >= 0) {
            const size_t n_bytes = (static_cast<size_t>(n_logprobs) + 1) * sizeof(sampling::TokenLogprob);
            ggml_backend_tensor_get_async(backend, setup_.tables.logprobs, queued.logprobs + i * logprobs_per_output,
                                          i * setup_.tables.logprobs->nb[1], n_bytes);
        }
    }
    ggml_backend_event_record(queued.is_done.get(), backend);
}

void DeviceSampling::collect(std::vector<DrawnOutput> & drawn) {
    UnderWay & oldest = step(n_collected_++);  // whether it failed or not
    ggml_backend_event_synchronize(oldest.is_done.get());
    drawn.clear();
    for (size_t i = 0; i < oldest.outputs.size(); i++) {
        const int32_t n_logprobs = oldest.outputs[i].n_logprobs;
        drawn.push_back({oldest.tokens[i], {}, nullptr});
        if (oldest.tokens[i] >= 0 && n_logprobs >= 0) {
            const sampling::TokenLogprob * first = oldest.logprobs + i * logprobs_per_output;
            drawn.back().logprobs.assign(first, first + n_logprobs + 1);
        }
    }
}

}  // namespace orin

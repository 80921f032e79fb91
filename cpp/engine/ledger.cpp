#include "ledger.h"

namespace orin {

EngineStats Ledger::stats() const {
    const std::lock_guard lock(mutex_);
    return published_;
}

std::vector<AnswerRecord> Ledger::answers() const {
    const std::lock_guard lock(mutex_);
    return answers_.after(0);
}

std::vector<StepRecord> Ledger::steps_after(int64_t number) const {
    const std::lock_guard lock(mutex_);
    return log_.after(number);
}

void Ledger::publish(Stepper & stepper) {
    Scheduler & scheduler = stepper.scheduler();
    counts_.graphs_built = stepper.computer().n_graphs_built();
    counts_.scheduler = scheduler.counters();
    // The scheduler does not know what the computer found beyond its pages.
    counts_.scheduler.tokens_prefilled -= counts_.found_tokens;
    counts_.scheduler.prefix_tokens_reused += counts_.found_tokens;
    counts_.running = scheduler.n_running();
    counts_.waiting = static_cast<int64_t>(scheduler.n_requests()) - counts_.running;
    counts_.max_lanes = scheduler.config().max_batch;
    counts_.pages = scheduler.kv().counters();
    counts_.page_size = scheduler.kv().page_size();
    const KvUse kv = stepper.computer().kv_use();
    counts_.page_bytes = kv.page_bytes;
    counts_.committed_bytes = kv.committed_bytes;
    published_ = counts_;
}

void Ledger::close() {
    counts_.running = counts_.waiting = 0;
    published_ = counts_;
}

void Ledger::log(StepRecord record) {
    record.kv_tokens = published_.pages.tokens;
    record.kv_bytes_used = published_.pages.used * published_.page_bytes;
    record.kv_bytes_committed = published_.committed_bytes;
    if (published_.page_bytes == 0) {
        record.kv_lookups = record.kv_misses = record.kv_evictions = 0;
    }
    log_.add(record);
    (record.n_prompt_tokens > 0 ? counts_.bytes_after_prefill : counts_.bytes_after_decode) = record.kv_bytes_used;
    published_.bytes_after_prefill = counts_.bytes_after_prefill;
    published_.bytes_after_decode = counts_.bytes_after_decode;
}

}  // namespace orin

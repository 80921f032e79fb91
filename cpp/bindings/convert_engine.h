// Conversions from the structures of cpp/engine.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <vector>

#include "../engine/answer_log.h"
#include "../engine/completion.h"
#include "../engine/engine_stats.h"
#include "../hooks/upload.h"
#include "convert_pages.h"
#include "convert_sampling.h"

namespace orin {

inline const char * to_string(Ending ending) {
    switch (ending) {
        case Ending::none:
            return "";
        case Ending::stop:
            return "stop";
        case Ending::length:
            return "length";
        case Ending::cancelled:
            return "cancelled";
        case Ending::deadline:
            return "deadline";
        case Ending::failed:
            return "failed";
    }
    return "";
}

// [(token, time_ms, [(token, logprob)])]
inline pybind11::list to_list(const std::vector<DrawnToken> & tokens) {
    pybind11::list result;
    for (const DrawnToken & token : tokens) {
        result.append(pybind11::make_tuple(token.token, token.time_ms, to_pairs(token.logprobs)));
    }
    return result;
}

inline pybind11::dict to_dict(const CompletionReport & report) {
    pybind11::dict result;
    result["submitted_ms"] = report.submitted_ms;
    result["started_ms"] = report.started_ms;
    result["prefilled_ms"] = report.prefilled_ms;
    result["ended_ms"] = report.ended_ms;
    result["upload_ms"] = report.upload_ms;
    result["sampling_ms"] = report.sampling_ms;
    result["cached_tokens"] = report.cached_tokens;
    result["preemptions"] = report.preemptions;
    result["ending"] = to_string(report.ending);
    return result;
}

inline pybind11::dict to_dict(const UploadCounters & counters) {
    using namespace pybind11::literals;
    return pybind11::dict("steps"_a = counters.steps, "copies"_a = counters.copies, "bytes"_a = counters.bytes,
                          "fallbacks"_a = counters.fallbacks, "pinned_bytes"_a = counters.pinned_bytes);
}

inline pybind11::list to_list(const std::vector<AnswerRecord> & answers) {
    using namespace pybind11::literals;
    pybind11::list result;
    for (const AnswerRecord & answer : answers) {
        pybind11::object tpot_ms = pybind11::none();
        if (answer.n_tokens > 1) {
            tpot_ms = pybind11::float_(answer.tpot_ms);
        }
        result.append(pybind11::dict("number"_a = answer.number, "ended_ms"_a = answer.ended_ms,
                                     "ttft_ms"_a = answer.ttft_ms, "tpot_ms"_a = tpot_ms,
                                     "prompt_tokens"_a = answer.n_prompt_tokens, "tokens"_a = answer.n_tokens));
    }
    return result;
}

inline pybind11::dict to_dict(const EngineStats & stats) {
    using namespace pybind11::literals;
    const SchedulerCounters & scheduler = stats.scheduler;
    const PageCounters & pages = stats.pages;
    pybind11::dict result;
    result["requests"] =
        pybind11::dict("running"_a = stats.running, "waiting"_a = stats.waiting, "submitted"_a = scheduler.submitted,
                       "finished"_a = scheduler.finished, "cancelled"_a = scheduler.cancelled,
                       "expired"_a = scheduler.expired, "failed"_a = stats.failed, "preempted"_a = scheduler.preempted);
    result["steps"] = pybind11::dict("total"_a = scheduler.steps, "prefill"_a = stats.prefill_steps,
                                     "decode"_a = stats.decode_steps, "failed"_a = scheduler.failed_steps);
    result["tokens"] =
        pybind11::dict("prefilled"_a = scheduler.tokens_prefilled, "recomputed"_a = scheduler.tokens_recomputed,
                       "decoded"_a = scheduler.tokens_decoded, "reused"_a = scheduler.prefix_tokens_reused);
    result["time_ms"] = pybind11::dict("plan"_a = stats.times.plan_ms, "upload"_a = stats.times.upload_ms,
                                       "prefill"_a = stats.times.prefill_ms, "decode"_a = stats.times.decode_ms,
                                       "sampling"_a = stats.times.sampling_ms, "publish"_a = stats.times.publish_ms);
    result["lanes"] = pybind11::dict("running"_a = stats.running, "max"_a = stats.max_lanes);
    result["graphs_built"] = stats.graphs_built;
    result["kv"] = pybind11::none();
    if (stats.page_bytes > 0) {
        const int64_t n_pages = pages.used + pages.cached + pages.free;
        result["kv"] = pybind11::dict(
            "page_size"_a = stats.page_size, "pages_used"_a = pages.used, "pages_cached"_a = pages.cached,
            "pages_free"_a = pages.free, "pages_shared"_a = pages.shared,
            "bytes_used"_a = pages.used * stats.page_bytes, "bytes_committed"_a = stats.committed_bytes,
            "bytes_after_prefill"_a = stats.bytes_after_prefill, "bytes_after_decode"_a = stats.bytes_after_decode,
            "bytes_reserved"_a = n_pages * stats.page_bytes, "hit_rate"_a = pages.hit_rate(),
            "fragmentation"_a = pages.fragmentation(stats.page_size), "lookups"_a = pages.lookups,
            "misses"_a = pages.misses, "evictions"_a = pages.evictions, "copies"_a = pages.copies,
            "prefix_queries"_a = pages.prefix_queries, "prefix_hits"_a = pages.prefix_hits);
    }
    return result;
}

inline pybind11::list to_list(const std::vector<StepRecord> & records) {
    using namespace pybind11::literals;
    pybind11::list result;
    for (const StepRecord & record : records) {
        result.append(pybind11::dict(
            "number"_a = record.number, "started_ms"_a = record.started_ms, "duration_ms"_a = record.duration_ms,
            "compute_ms"_a = record.compute_ms, "sampling_ms"_a = record.sampling_ms,
            "n_prompt_tokens"_a = record.n_prompt_tokens, "n_decode_tokens"_a = record.n_decode_tokens,
            "kv_tokens"_a = record.kv_tokens, "kv_bytes_used"_a = record.kv_bytes_used,
            "kv_bytes_committed"_a = record.kv_bytes_committed, "kv_lookups"_a = record.kv_lookups,
            "kv_misses"_a = record.kv_misses, "kv_evictions"_a = record.kv_evictions,
            "preemptions"_a = record.preemptions, "publish_ms"_a = record.publish_ms));
    }
    return result;
}

}  // namespace orin

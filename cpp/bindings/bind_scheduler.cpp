// _native.Scheduler: requests over a page pool, for tests and tools.
#include <pybind11/gil_safe_call_once.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>

#include "../scheduler/scheduler.h"
#include "convert.h"
#include "convert_pages.h"

namespace py = pybind11;
using namespace orin;

namespace {

Policy to_policy(const std::string & name) {
    for (const Policy policy : {Policy::balanced, Policy::ttft, Policy::tpot}) {
        if (name == to_string(policy)) {
            return policy;
        }
    }
    throw py::value_error("policy is '" + name + "': expected balanced, ttft or tpot");
}

py::dict to_dict(const StepPlan & plan) {
    py::list prefill;
    for (const PrefillPart & part : plan.prefill) {
        prefill.append(py::make_tuple(part.id, part.n_tokens, part.reaches_end));
    }
    py::dict result;
    result["drop"] = plan.drop;
    result["expire"] = plan.expire;
    result["preempt"] = plan.preempt;
    result["admit"] = plan.admit;
    result["overtaken"] = plan.overtaken;
    result["decode"] = plan.decode;
    result["prefill"] = prefill;
    result["stalls_decode"] = plan.stalls_decode;
    return result;
}

py::dict to_dict(const SchedulerCounters & counters) {
    py::dict result;
    result["submitted"] = counters.submitted;
    result["finished"] = counters.finished;
    result["cancelled"] = counters.cancelled;
    result["expired"] = counters.expired;
    result["admitted"] = counters.admitted;
    result["preempted"] = counters.preempted;
    result["steps"] = counters.steps;
    result["failed_steps"] = counters.failed_steps;
    result["tokens_prefilled"] = counters.tokens_prefilled;
    result["tokens_recomputed"] = counters.tokens_recomputed;
    result["tokens_decoded"] = counters.tokens_decoded;
    result["prefix_tokens_reused"] = counters.prefix_tokens_reused;
    return result;
}

// Says at first use what a row is to NumPy: importing NumPy starts threads, importing this module must not.
void register_rows() {
    PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<bool> registered;
    registered.call_once_and_store_result([] {
        PYBIND11_NUMPY_DTYPE(BatchRow, token, sequence, position, cell, wants_logits);
        return true;
    });
}

py::array rows(const StepBatch & batch) {
    register_rows();
    return py::array_t<BatchRow>(static_cast<py::ssize_t>(batch.rows.size()), batch.rows.data());
}

std::vector<std::tuple<int32_t, RequestId>> outputs(const StepBatch & batch) {
    std::vector<std::tuple<int32_t, RequestId>> result;
    for (const BatchOutput & output : batch.outputs) {
        result.emplace_back(output.row, output.request);
    }
    return result;
}

std::vector<RequestId> finish_step(Scheduler & scheduler, const std::vector<std::tuple<int32_t, bool>> & sampled) {
    std::vector<Sampled> tokens;
    for (const auto & [token, ends] : sampled) {
        tokens.push_back({token, ends});
    }
    return scheduler.finish_step(tokens);
}

void translate(std::exception_ptr pointer) {
    try {
        std::rethrow_exception(pointer);
    } catch (const RequestTooLong & error) {
        raise_in_python("PromptTooLong", error.what());
    }
}

}  // namespace

void bind_scheduler(py::module_ & m) {
    py::register_local_exception_translator(translate);
    const PlannerConfig defaults;

    py::class_<StepBatch>(m, "StepBatch")
        .def_property_readonly("rows", &rows)
        .def_readonly("n_decode_rows", &StepBatch::n_decode_rows)
        .def_property_readonly("outputs", &outputs)
        .def_property_readonly("copies", [](const StepBatch & batch) { return to_tuples(batch.copies); });

    py::class_<Scheduler>(m, "Scheduler")
        .def(py::init([](int32_t n_pages, int32_t page_size, int32_t max_tokens, int32_t window, bool prefix_cache,
                         const std::string & policy, int32_t chunk_size, int32_t max_batch, int32_t headroom_pages,
                         int32_t max_overtakes, int32_t max_stall_steps, int32_t tpot_divisor, double head_start_ms) {
                 PagedKvConfig kv;
                 kv.n_pages = n_pages;
                 kv.page_size = page_size;
                 kv.max_sequences = max_batch;
                 kv.max_tokens = max_tokens;
                 kv.window = window;
                 kv.prefix_cache = prefix_cache;
                 return std::make_unique<Scheduler>(
                     PlannerConfig{to_policy(policy), chunk_size, max_batch, headroom_pages, max_overtakes,
                                   max_stall_steps, tpot_divisor, head_start_ms},
                     kv);
             }),
             py::kw_only(), py::arg("n_pages"), py::arg("page_size") = PagedKvConfig{}.page_size, py::arg("max_tokens"),
             py::arg("window") = 0, py::arg("prefix_cache") = true, py::arg("policy") = to_string(defaults.policy),
             py::arg("chunk_size") = defaults.chunk_size, py::arg("max_batch") = defaults.max_batch,
             py::arg("headroom_pages") = defaults.headroom_pages, py::arg("max_overtakes") = defaults.max_overtakes,
             py::arg("max_stall_steps") = defaults.max_stall_steps, py::arg("tpot_divisor") = defaults.tpot_divisor,
             py::arg("head_start_ms") = defaults.head_start_ms)
        .def(
            "submit",
            [](Scheduler & scheduler, std::vector<int32_t> prompt, int32_t max_tokens, double now_ms, int32_t priority,
               std::optional<double> deadline_ms) {
                RequestParams params;
                params.prompt = std::move(prompt);
                params.max_tokens = max_tokens;
                params.priority = priority;
                params.deadline_ms = deadline_ms.value_or(params.deadline_ms);
                return scheduler.submit(params, now_ms);
            },
            py::arg("prompt"), py::kw_only(), py::arg("max_tokens"), py::arg("now_ms"), py::arg("priority") = 0,
            py::arg("deadline_ms") = std::nullopt)
        .def("cancel", &Scheduler::cancel, py::arg("request"))
        .def("plan", &Scheduler::plan, py::arg("now_ms"), py::return_value_policy::reference_internal)
        .def("last_plan", [](const Scheduler & scheduler) { return to_dict(scheduler.last_plan()); })
        .def("describe_plan", [](const Scheduler & scheduler) { return scheduler.last_plan().to_string(); })
        .def("finish_step", &finish_step, py::arg("sampled"))
        .def("fail_step", &Scheduler::fail_step)
        .def("tokens", &Scheduler::tokens, py::arg("request"))
        .def_property_readonly("n_requests", &Scheduler::n_requests)
        .def("counters", [](const Scheduler & scheduler) { return to_dict(scheduler.counters()); })
        .def_property_readonly("kv", &Scheduler::kv, py::return_value_policy::reference_internal);
}

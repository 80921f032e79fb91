// Python's view of cpp/engine: argument conversion, the GIL and exceptions; no logic.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../engine/llama_stepper.h"
#include "../engine/runner.h"
#include "../engine/runtime.h"
#include "../kv/kv_rows.h"
#include "convert.h"
#include "convert_engine.h"
#include "convert_sampling.h"
#include "stepper_facts.h"
#include "without_gil.h"

namespace py = pybind11;
using namespace orin;

namespace {

void translate(std::exception_ptr pointer) {
    try {
        std::rethrow_exception(pointer);
    } catch (const LoadError & error) {
        raise_in_python("ModelFileError", error.what());
    } catch (const EngineError & error) {
        raise_in_python("OrinError", error.what());
    } catch (const OutOfMemory & error) {
        raise_in_python("OrinError", error.what());
    }
}

FlashAttention flash_named(const std::string & name) {
    if (name == "auto") {
        return FlashAttention::automatic;
    }
    return name == "on" ? FlashAttention::on : FlashAttention::off;
}

EngineParams engine_params(int32_t n_ctx, int32_t chunk_size, int32_t max_batch, int32_t threads,
                           std::vector<int32_t> cpus, const std::string & k_type, const std::string & v_type,
                           const std::string & flash_attention, const std::set<std::string> & hooks,
                           std::map<std::string, int32_t> kernels, int32_t page_size, int32_t kv_pages,
                           bool prefix_cache, int32_t prompt_outputs) {
    EngineParams params;
    params.n_ctx = n_ctx;
    params.chunk_size = chunk_size;
    params.max_batch = max_batch;
    params.threads = threads;
    params.cpus = std::move(cpus);
    params.kv_types = {kv_type_named(k_type), kv_type_named(v_type)};
    params.flash_attention = flash_named(flash_attention);
    params.rope = hooks.count("rope") > 0;
    params.sampling = hooks.count("sampling") > 0;
    params.uploads = hooks.count("uploads") > 0;
    params.lanes = hooks.count("lanes") > 0;
    params.gather = hooks.count("gather") > 0;
    params.matrices = hooks.count("matrices") > 0;
    params.growth = hooks.count("growth") > 0;
    params.kernels = std::move(kernels);
    const Paging paged = hooks.count("attention") > 0 ? Paging::on : Paging::cells_only;
    params.paging = hooks.count("pages") > 0 ? paged : Paging::off;
    params.page_size = page_size;
    params.kv_pages = kv_pages;
    params.prefix_cache = prefix_cache;
    params.prompt_outputs = prompt_outputs;
    return params;
}

// A fork has no engine thread and must not wait for it: what it inherited stays as it is.
class RunnerHandle {
   public:
    RunnerHandle(std::shared_ptr<Model> model, const EngineParams & params)
        : process_(getpid()),
          runner_(new Runner(
              [&](const StopCheck & stop) {
                  auto stepper = std::make_unique<LlamaStepper>(model, params, stop);
                  stepper_ = stepper.get();
                  return stepper;
              },
              params.cpus)) {}
    ~RunnerHandle() {
        if (getpid() == process_) {
            py::gil_scoped_release release;
            delete runner_;
        }
    }
    RunnerHandle(const RunnerHandle &) = delete;
    RunnerHandle & operator=(const RunnerHandle &) = delete;

    Runner & operator*() const {
        if (getpid() != process_) {
            throw EngineError("this engine belongs to the process that made it: make a new one after the fork");
        }
        return *runner_;
    }
    Runner * operator->() const { return &**this; }

    // What does not change may be asked at any time, the rest between two steps.
    LlamaStepper & stepper() const { return *stepper_; }
    template <typename Work>
    void between_steps(const Work & work) const {
        without_gil([&] {
            (**this).between_steps([&] {
                const AbortGuard guard;  // work may ask a GPU for what it has
                work(*stepper_);
            });
        });
    }

   private:
    const pid_t process_;
    LlamaStepper * stepper_ = nullptr;
    Runner * const runner_;
};

// Nobody can take the tokens of a completion that Python has let go.
class CompletionHandle {
   public:
    explicit CompletionHandle(std::shared_ptr<Completion> completion) : completion_(std::move(completion)) {}
    ~CompletionHandle() { completion_->cancel(); }
    CompletionHandle(const CompletionHandle &) = delete;
    CompletionHandle & operator=(const CompletionHandle &) = delete;

    Completion * operator->() const { return completion_.get(); }

   private:
    const std::shared_ptr<Completion> completion_;
};

}  // namespace

void bind_engine(py::module_ & m) {
    py::register_local_exception_translator(translate);

    py::class_<Sampler>(m, "Sampler")
        .def(py::init([](const sampling::Params & params, int32_t penalty_window, const TokenValues & logit_bias) {
                 return std::make_unique<Sampler>(params, penalty_window, to_bias(logit_bias));
             }),
             py::arg("params"), py::kw_only(), py::arg("penalty_window"), py::arg("logit_bias"))
        .def("see", &Sampler::see, py::arg("token"));

    m.def("kernel_choices", [] {
        py::list result;
        for (const ChoiceRange & range : choice_ranges()) {
            result.append(to_dict(range));
        }
        return result;
    });

    py::class_<EngineParams>(m, "EngineParams")
        .def(py::init(&engine_params), py::kw_only(), py::arg("n_ctx"), py::arg("chunk_size"), py::arg("max_batch"),
             py::arg("threads"), py::arg("cpus") = std::vector<int32_t>(), py::arg("k_type"), py::arg("v_type"),
             py::arg("flash_attention") = "auto", py::arg("hooks"),
             py::arg("kernels") = std::map<std::string, int32_t>(), py::arg("page_size"), py::arg("kv_pages"),
             py::arg("prefix_cache"), py::arg("prompt_outputs") = 1);

    py::class_<CompletionHandle>(m, "Completion")
        .def(
            "wait",
            [](const CompletionHandle & completion, size_t n_seen, double timeout_ms) {
                return without_gil([&] { return completion->wait(n_seen, timeout_ms); });
            },
            py::arg("n_seen"), py::arg("timeout_ms"))
        .def(
            "tokens_from",
            [](const CompletionHandle & completion, size_t first) {
                return to_list(without_gil([&] { return completion->tokens_from(first); }));
            },
            py::arg("first"))
        .def("report",
             [](const CompletionHandle & completion) {
                 return to_dict(without_gil([&] { return completion->report(); }));
             })
        .def("cancel", [](const CompletionHandle & completion) { without_gil([&] { completion->cancel(); }); });

    py::class_<RunnerHandle> handle(m, "Runner");
    def_stepper_facts(handle);
    handle
        .def(py::init<std::shared_ptr<Model>, const EngineParams &>(), py::arg("model"), py::arg("params"),
             py::call_guard<py::gil_scoped_release>())
        .def_property_readonly("chunk_size",
                               [](const RunnerHandle & runner) { return runner.stepper().params().chunk_size; })
        .def(
            "submit",
            [](const RunnerHandle & runner, std::vector<int32_t> prompt, int32_t max_tokens, const Sampler & sampler,
               int64_t n_logprobs, bool ignore_eos, int32_t priority, double timeout_ms) {
                runner.stepper().check(sampler, n_logprobs);
                const auto n_there = static_cast<int32_t>(std::min<int64_t>(n_logprobs, runner.stepper().n_vocab()));
                CompletionParams params = {std::move(prompt), max_tokens, n_there, ignore_eos, priority, timeout_ms};
                return std::make_unique<CompletionHandle>(
                    without_gil([&] { return runner->submit(std::move(params), sampler); }));
            },
            py::arg("prompt"), py::kw_only(), py::arg("max_tokens"), py::arg("sampler"), py::arg("n_logprobs"),
            py::arg("ignore_eos"), py::arg("priority"), py::arg("timeout_ms"))
        .def("stats",
             [](const RunnerHandle & runner) {
                 py::dict result = to_dict(without_gil([&] { return runner->stats(); }));
                 result["answers"] = to_list(without_gil([&] { return runner->answers(); }));
                 return result;
             })
        .def("steps_after",
             [](const RunnerHandle & runner, int64_t number) {
                 return to_list(without_gil([&] { return runner->steps_after(number); }));
             })
        .def("forget",
             [](const RunnerHandle & runner) {
                 runner.between_steps([](LlamaStepper & stepper) { stepper.computer().forget(); });
             })
        .def(
            "set_budget",
            [](const RunnerHandle & runner, int32_t n_pages) {
                bool done = false;
                runner.between_steps([&](LlamaStepper & stepper) { done = stepper.set_kv_budget(n_pages); });
                return done;
            },
            py::arg("n_pages"))
        .def("kv_row_bytes",
             [](const RunnerHandle & runner) {
                 size_t bytes = 0;
                 runner.between_steps([&](LlamaStepper & stepper) {
                     bytes = stepper.is_paged() ? stepper.kv_pool().storage()->bytes_per_cell() : 0;
                 });
                 return bytes;
             })
        .def(
            "read_kv",
            [](const RunnerHandle & runner, const std::vector<int32_t> & tokens, int32_t first, int32_t n) {
                std::string rows;
                runner.between_steps(
                    [&](LlamaStepper & stepper) { rows = read_kv(stepper.kv_pool(), tokens, first, n); });
                return py::bytes(rows);
            },
            py::arg("tokens"), py::arg("first"), py::arg("n"))
        .def(
            "write_kv",
            [](const RunnerHandle & runner, const std::vector<int32_t> & tokens, int32_t first,
               const std::string & rows) {
                int32_t n_cached = 0;
                runner.between_steps(
                    [&](LlamaStepper & stepper) { n_cached = write_kv(stepper.kv_pool(), tokens, first, rows); });
                return n_cached;
            },
            py::arg("tokens"), py::arg("first"), py::arg("rows"))
        .def("rope_counters",
             [](const RunnerHandle & runner) {
                 RopeCounters counters{};
                 runner.between_steps([&](LlamaStepper & stepper) { counters = stepper.rope_counters(); });
                 return to_dict(counters);
             })
        .def("upload_counters",
             [](const RunnerHandle & runner) {
                 UploadCounters counters{};
                 runner.between_steps([&](LlamaStepper & stepper) { counters = stepper.upload_counters(); });
                 return to_dict(counters);
             })
        .def(
            "add_doorbell", [](const RunnerHandle & runner, int fd) { runner->doorbells().add(fd); }, py::arg("fd"))
        .def(
            "remove_doorbell", [](const RunnerHandle & runner, int fd) { runner->doorbells().remove(fd); },
            py::arg("fd"))
        .def("close", [](const RunnerHandle & runner) { without_gil([&] { runner->close(); }); });
}

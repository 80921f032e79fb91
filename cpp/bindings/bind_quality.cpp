// Python's view of cpp/quality: argument conversion, the GIL and exceptions; no logic.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "../engine/clock.h"
#include "../quality/logit_stats.h"
#include "../quality/rows_in_threads.h"
#include "../quality/window_runner.h"
#include "convert.h"
#include "interruptible.h"
#include "stepper_facts.h"
#include "without_gil.h"

namespace py = pybind11;
using namespace orin;

namespace {

using Rows = py::array_t<float, py::array::c_style>;
using EncodedRows = py::array_t<uint16_t, py::array::c_style>;
using Tokens = py::array_t<int32_t, py::array::c_style | py::array::forcecast>;
using Values = py::array_t<double, py::array::c_style>;

constexpr double signals_every_ms = 50.0;

void translate(std::exception_ptr pointer) {
    try {
        std::rethrow_exception(pointer);
    } catch (const BadLogits & error) {
        raise_in_python("OrinError", error.what());
    }
}

// A runner that Ctrl-C stops within a step on a CPU.
class RunnerHandle {
   public:
    RunnerHandle(std::shared_ptr<Model> model, const EngineParams & params)
        : runner_(without_gil(
              [&] { return std::make_unique<WindowRunner>(std::move(model), params, StopCheck{stops, this}); })) {}
    ~RunnerHandle() {
        without_gil([&] { runner_.reset(); });
    }
    RunnerHandle(const RunnerHandle &) = delete;
    RunnerHandle & operator=(const RunnerHandle &) = delete;

    WindowRunner & operator*() { return *runner_; }
    WindowRunner * operator->() { return runner_.get(); }
    const LlamaStepper & stepper() const { return runner_->stepper(); }

    Rows next_rows(int32_t n) {
        n = std::min(n, runner_->n_left());
        Rows rows({n, stepper().n_vocab()});
        float * data = rows.mutable_data();
        steps_.run([&] { runner_->next_rows(n, data); });
        return rows;
    }

   private:
    static bool stops(void * data) {
        auto & self = *static_cast<RunnerHandle *>(data);
        if (now_ms() < self.next_look_ms_) {
            return false;
        }
        const bool goes_on = self.steps_.goes_on(look_for_signals);
        self.next_look_ms_ = now_ms() + signals_every_ms;
        return !goes_on;
    }

    double next_look_ms_ = 0.0;
    Interruptible steps_;
    std::unique_ptr<WindowRunner> runner_;  // last: asks the others
};

// Throws ValueError in Python where rows are not [n, n_vocab] with a token each.
void check(const py::array & rows, const Tokens & tokens, int64_t n_words, int32_t n_vocab) {
    if (rows.ndim() != 2 || rows.shape(1) != n_words || tokens.ndim() != 1 || tokens.shape(0) != rows.shape(0)) {
        throw py::value_error("expected rows [n, " + std::to_string(n_words) + "] and tokens [n]");
    }
    for (py::ssize_t i = 0; i < tokens.size(); i++) {
        if (tokens.data()[i] < 0 || tokens.data()[i] >= n_vocab) {
            throw py::value_error("a token is not in the vocabulary: " + std::to_string(tokens.data()[i]));
        }
    }
}

int32_t n_vocab_of(const Rows & logits) {
    if (logits.ndim() != 2 || logits.shape(1) < 1) {
        throw py::value_error("expected logits [n, n_vocab]");
    }
    return static_cast<int32_t>(logits.shape(1));
}

Values token_nlls(const Rows & logits, const Tokens & tokens, int32_t n_threads) {
    const int32_t n_vocab = n_vocab_of(logits);
    check(logits, tokens, n_vocab, n_vocab);
    Values nlls(logits.shape(0));
    double * out = nlls.mutable_data();
    without_gil([&, rows = logits.data(), next = tokens.data(), n = logits.shape(0)] {
        rows_in_threads(n, n_threads, [&](int64_t i) { out[i] = token_nll(rows + i * n_vocab, n_vocab, next[i]); });
    });
    return nlls;
}

template <typename Reference, typename Compare>
py::dict compare_all(const Reference & reference, const Rows & logits, const Tokens & tokens, int64_t n_words,
                     int32_t n_threads, const Compare & compare) {
    const int32_t n_vocab = n_vocab_of(logits);
    check(logits, tokens, n_vocab, n_vocab);
    check(reference, tokens, n_words, n_vocab);
    const py::ssize_t n = logits.shape(0);
    Values nll(n), reference_nll(n), kl_divergence(n), max_logit(n);
    py::array_t<bool> same_top(n);
    const std::vector<double *> out = {nll.mutable_data(), reference_nll.mutable_data(), kl_divergence.mutable_data(),
                                       max_logit.mutable_data()};
    without_gil(
        [&, old = reference.data(), rows = logits.data(), next = tokens.data(), same = same_top.mutable_data()] {
            rows_in_threads(n, n_threads, [&](int64_t i) {
                const RowDifference found = compare(old + i * n_words, rows + i * n_vocab, n_vocab, next[i]);
                out[0][i] = found.nll;
                out[1][i] = found.reference_nll;
                out[2][i] = found.kl_divergence;
                out[3][i] = found.max_logit;
                same[i] = found.same_top;
            });
        });
    using namespace pybind11::literals;
    return py::dict("nll"_a = nll, "reference_nll"_a = reference_nll, "kl_divergence"_a = kl_divergence,
                    "max_logit"_a = max_logit, "same_top"_a = same_top);
}

EncodedRows encode(const Rows & logits, int32_t n_threads) {
    const int32_t n_vocab = n_vocab_of(logits);
    const int64_t n_words = encoded_words(n_vocab);
    EncodedRows encoded({static_cast<int64_t>(logits.shape(0)), n_words});
    without_gil([&, rows = logits.data(), out = encoded.mutable_data(), n = logits.shape(0)] {
        rows_in_threads(n, n_threads, [&](int64_t i) { encode_row(rows + i * n_vocab, n_vocab, out + i * n_words); });
    });
    return encoded;
}

}  // namespace

void bind_quality(py::module_ & m) {
    py::register_local_exception_translator(translate);

    py::class_<RunnerHandle> handle(m, "WindowRunner");
    handle.def(py::init<std::shared_ptr<Model>, const EngineParams &>(), py::arg("model"), py::arg("params"))
        .def(
            "begin",
            [](RunnerHandle & runner, std::vector<int32_t> tokens, int32_t first, bool one_by_one) {
                const WindowSteps steps = one_by_one ? WindowSteps::one_by_one : WindowSteps::chunks;
                without_gil([&] { runner->begin(std::move(tokens), first, steps); });
            },
            py::arg("tokens"), py::kw_only(), py::arg("first"), py::arg("one_by_one"))
        .def("next_rows", &RunnerHandle::next_rows, py::arg("n"));
    def_stepper_facts(handle);

    m.def("token_nlls", &token_nlls, py::arg("logits"), py::arg("tokens"), py::kw_only(), py::arg("n_threads"));
    m.def(
        "compare_rows",
        [](const Rows & reference, const Rows & logits, const Tokens & tokens, int32_t n_threads) {
            return compare_all(reference, logits, tokens, n_vocab_of(logits), n_threads, compare_rows);
        },
        py::arg("reference"), py::arg("logits"), py::arg("tokens"), py::kw_only(), py::arg("n_threads"));
    m.def(
        "compare_encoded",
        [](const EncodedRows & reference, const Rows & logits, const Tokens & tokens, int32_t n_threads) {
            return compare_all(reference, logits, tokens, encoded_words(n_vocab_of(logits)), n_threads,
                               compare_encoded);
        },
        py::arg("reference"), py::arg("logits"), py::arg("tokens"), py::kw_only(), py::arg("n_threads"));
    m.def("encode_rows", &encode, py::arg("logits"), py::kw_only(), py::arg("n_threads"));
    m.def("encoded_words", &encoded_words, py::arg("n_vocab"));
}

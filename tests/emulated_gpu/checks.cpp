// What tests/gpu/test_gpu_emulated_backend.py asks of the backend, through ggml's own functions.
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../cpp/hooks/affine_op.h"
#include "../../cpp/hooks/include/orin_hooks.h"
#include "../simt/counters.h"
#include "buffers.h"
#include "device.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-impl.h"

namespace emulated_gpu {
namespace {

constexpr int n_values = 4;

void expect(float found, float expected, const char * what) {
    if (found != expected) {
        throw std::runtime_error(std::string(what) + ": " + std::to_string(found) + ", expected " +
                                 std::to_string(expected));
    }
}

// y = f(x) of a few numbers, of which the first is looked at.
class Graph {
   public:
    using Build = std::function<ggml_tensor *(ggml_context *, ggml_tensor *)>;

    explicit Graph(const Build & build) : backend_(ggml_backend_dev_init(device(), nullptr)) {
        const size_t bytes = 8 * ggml_tensor_overhead() + ggml_graph_overhead();
        context_.reset(ggml_init({bytes, /*mem_buffer=*/nullptr, /*no_alloc=*/true}));
        x_ = ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, n_values);
        y_ = build(context_.get(), x_);
        graph_ = ggml_new_graph(context_.get());
        ggml_build_forward_expand(graph_, y_);
        buffer_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), backend_.get()));
        set(1.0f);
    }

    ggml_backend_t backend() { return backend_.get(); }
    ggml_tensor * x() { return x_; }
    ggml_tensor * y() { return y_; }
    ggml_cgraph * graph() { return graph_; }
    void set(float value) {
        const std::vector<float> values(n_values, value);
        ggml_backend_tensor_set(x_, values.data(), 0, values.size() * sizeof(value));
    }
    void queue() { ggml_backend_graph_compute_async(backend_.get(), graph_); }
    float result() {
        float value = 0.0f;
        ggml_backend_synchronize(backend_.get());
        ggml_backend_tensor_get(y_, &value, 0, sizeof(value));
        return value;
    }
    float run() {
        queue();
        return result();
    }

   private:
    ggml_backend_ptr backend_;
    ggml_context_ptr context_;
    ggml_backend_buffer_ptr buffer_;
    ggml_tensor * x_ = nullptr;
    ggml_tensor * y_ = nullptr;
    ggml_cgraph * graph_ = nullptr;
};

ggml_tensor * doubled(ggml_context * context, ggml_tensor * x) {
    return ggml_scale(context, x, 2.0f);
}

void set_scale(Graph & graph, float scale) {
    std::memcpy(graph.y()->op_params, &scale, sizeof(scale));
}

void queued_nodes_do_not_change() {
    Graph graph(doubled);
    void * data = graph.y()->data;
    graph.queue();
    set_scale(graph, 5.0f);
    graph.y()->data = nullptr;
    ggml_backend_synchronize(graph.backend());
    graph.y()->data = data;
    expect(graph.result(), 2.0f, "what was queued");
}

void graphs_are_captured_when_nothing_has_changed() {
    Graph graph(doubled);
    expect(graph.run(), 2.0f, "eager");
    graph.set(2.0f);
    expect(graph.run(), 4.0f, "captured");
    graph.set(3.0f);
    expect(graph.run(), 6.0f, "replayed");
    set_scale(graph, 5.0f);
    expect(graph.run(), 15.0f, "changed, so eager");
    expect(graph.run(), 15.0f, "captured again");
    graph.graph()->uid = 77;
    graph.run();  // takes the number up
    set_scale(graph, 9.0f);
    expect(graph.run(), 15.0f, "the same number, so not looked at");
}

void a_launcher_reads_the_host_only_when_it_is_captured() {
    orin::register_affine_op();
    orin::AffineFactors factors{1.0f, 10.0f};
    Graph graph([&](ggml_context * context, ggml_tensor * x) { return orin::affine_node(context, x, &factors); });
    for (int i = 0; i < 3; i++) {
        expect(graph.run(), 11.0f, "before");
    }
    factors.bias = 20.0f;
    expect(graph.run(), 11.0f, "a replay");
}

void tables_for_rope_on_the_cpu_are_not_looked_at() {
    Graph graph([](ggml_context * context, ggml_tensor * x) {
        ggml_tensor * positions = ggml_new_tensor_1d(context, GGML_TYPE_I32, 1);
        return ggml_rope(context, ggml_reshape_3d(context, x, n_values, 1, 1), positions, n_values, 0);
    });
    ggml_tensor * positions = graph.y()->src[1];
    const int32_t position = 0;
    ggml_backend_tensor_set(positions, &position, 0, sizeof(position));
    graph.y()->op_params[ORIN_ROPE_SLOT_LOW] = 16;  // no address
    expect(graph.run(), 1.0f, "the first position");
}

// 1, or 2 where the pinned buffer was used again before it had been read.
float uploaded(bool waits) {
    Graph graph(doubled);
    ggml_backend_buffer_ptr pinned(ggml_backend_buft_alloc_buffer(pinned_buffer_type(), sizeof(float)));
    ggml_backend_event_t event = ggml_backend_event_new(device());
    auto * value = static_cast<float *>(ggml_backend_buffer_get_base(pinned.get()));
    *value = 1.0f;
    ggml_backend_tensor_set_async(graph.backend(), graph.x(), value, 0, sizeof(*value));
    ggml_backend_event_record(event, graph.backend());
    if (waits) {
        ggml_backend_event_synchronize(event);
    }
    *value = 2.0f;
    const float result = graph.run();
    ggml_backend_event_free(event);
    return result / 2.0f;
}

void pinned_memory_is_read_when_the_copy_is_made() {
    expect(uploaded(true), 1.0f, "with a wait");
    expect(uploaded(false), 2.0f, "without a wait, late");
}

void a_backend_waits_for_the_event_of_another() {
    for (const bool waits : {true, false}) {
        Graph first(doubled);
        Graph second(doubled);
        ggml_backend_event_t event = ggml_backend_event_new(device());
        first.queue();
        ggml_backend_event_record(event, first.backend());
        if (waits) {
            ggml_backend_event_wait(second.backend(), event);
        }
        // Its x is the other's y.
        second.set(100.0f);
        second.graph()->nodes[0]->src[0]->data = first.y()->data;
        float garbage = 50.0f;
        ggml_backend_tensor_set(first.y(), &garbage, 0, sizeof(garbage));
        expect(second.run(), waits ? 4.0f : 100.0f, waits ? "with a wait" : "without a wait");
        ggml_backend_event_free(event);
    }
}

const std::map<std::string, void (*)()> checks = {
    {"queued nodes do not change", queued_nodes_do_not_change},
    {"graphs are captured when nothing has changed", graphs_are_captured_when_nothing_has_changed},
    {"a launcher reads the host only when it is captured", a_launcher_reads_the_host_only_when_it_is_captured},
    {"tables for RoPE on the CPU are not looked at", tables_for_rope_on_the_cpu_are_not_looked_at},
    {"pinned memory is read when the copy is made", pinned_memory_is_read_when_the_copy_is_made},
    {"a backend waits for the event of another", a_backend_waits_for_the_event_of_another},
};

}  // namespace
}  // namespace emulated_gpu

// What is wrong, or "".
extern "C" __attribute__((visibility("default"))) const char * emulated_gpu_check(const char * name) {
    static std::string wrong;
    try {
        emulated_gpu::checks.at(name)();
        wrong = "";
    } catch (const std::exception & error) {
        wrong = error.what();
    }
    return wrong.c_str();
}

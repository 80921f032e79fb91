#include "backend.h"

#include <cuda_runtime.h>

#include <atomic>
#include <memory>

#include "../../cpp/hooks/include/orin_hooks.h"
#include "../simt/counters.h"
#include "../simt/runtime_handles.h"
#include "buffers.h"
#include "captured_graphs.h"
#include "device.h"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "stock_nodes.h"

namespace emulated_gpu {
namespace {

std::atomic<int> n_captures{0};  // of the process

struct Backend {
    cudaStream_t stream = nullptr;
    CapturedGraphs graphs;

    Backend() { check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
    // As ggml's, but that one waits for ever.
    ~Backend() {
        GGML_ASSERT(n_captures == 0 && "a backend is freed after a capture that was never ended");
        check(cudaStreamDestroy(stream), "cudaStreamDestroy");
    }
};

Backend & of(ggml_backend_t backend) {
    return *static_cast<Backend *>(backend->context);
}

ggml_backend_buffer_t buffer_of(const ggml_tensor * tensor) {
    return tensor->view_src != nullptr ? tensor->view_src->buffer : tensor->buffer;
}

char * data_of(const ggml_tensor * tensor) {
    return static_cast<char *>(tensor->data);
}

// --- graphs

bool needs_work(const ggml_tensor & node) {
    switch (node.op) {
        case GGML_OP_NONE:
        case GGML_OP_RESHAPE:
        case GGML_OP_VIEW:
        case GGML_OP_PERMUTE:
        case GGML_OP_TRANSPOSE:
            return false;
        default:
            return !ggml_is_empty(&node) && (node.flags & GGML_TENSOR_FLAG_COMPUTE) != 0;
    }
}

void check_buffers(const ggml_tensor & node) {
    GGML_ASSERT(is_device_buffer(buffer_of(&node)) && "a node of the emulated GPU outside its memory");
    for (const ggml_tensor * source : node.src) {
        GGML_ASSERT((source == nullptr || is_device_buffer(buffer_of(source))) &&
                    "a source of a node of the emulated GPU outside its memory");
    }
}

void queue(std::shared_ptr<StockNodes> & nodes, cudaStream_t stream) {
    if (nodes->is_empty()) {
        return;
    }
    nodes->finish();
    simt::enqueue_in(stream, "nodes of ggml", [run = std::move(nodes)] { run->run(); });
    nodes = std::make_shared<StockNodes>();
}

void launch_custom(ggml_tensor & node, cudaStream_t stream) {
    simt::count("custom_launches");
    const auto error = static_cast<cudaError_t>(orin_cuda_custom_launch(&node, stream));
    check(error, node.name);
    check(cudaGetLastError(), node.name);
}

void queue_nodes(const ggml_cgraph & graph, cudaStream_t stream) {
    auto stock = std::make_shared<StockNodes>();
    for (int i = 0; i < graph.n_nodes; i++) {
        ggml_tensor & node = *graph.nodes[i];
        if (!needs_work(node)) {
            continue;
        }
        check_buffers(node);
        if (node.op == GGML_OP_CUSTOM) {
            queue(stock, stream);
            launch_custom(node, stream);
        } else {
            stock->add(node);
        }
    }
    queue(stock, stream);
}

ggml_status compute(ggml_backend_t backend, ggml_cgraph * graph) {
    Backend & own = of(backend);
    const simt::Batch batch(simt::stream_of(own.stream));
    CapturedGraph & captured = own.graphs[graph->nodes[0]];
    switch (captured.next_run(*graph)) {
        case CapturedGraph::Run::eagerly:
            simt::count("graphs_run_eagerly");
            queue_nodes(*graph, own.stream);
            return GGML_STATUS_SUCCESS;
        case CapturedGraph::Run::captured_now: {
            simt::count("graphs_captured");
            n_captures++;
            check(cudaStreamBeginCapture(own.stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
            queue_nodes(*graph, own.stream);
            cudaGraph_t recorded = nullptr;
            check(cudaStreamEndCapture(own.stream, &recorded), "cudaStreamEndCapture");
            n_captures--;
            captured.keep(recorded);
            break;
        }
        case CapturedGraph::Run::replayed:
            simt::count("graphs_replayed");
            break;
    }
    captured.replay(own.stream);
    return GGML_STATUS_SUCCESS;
}

// --- tensors, events

const char * get_name(ggml_backend_t) {
    return "CUDA0";
}

void free_backend(ggml_backend_t backend) {
    delete &of(backend);
    delete backend;
}

void set_async(ggml_backend_t backend, ggml_tensor * tensor, const void * data, size_t offset, size_t bytes) {
    GGML_ASSERT(is_device_buffer(buffer_of(tensor)));
    simt::count("async_sets");
    const auto kind = cudaMemcpyHostToDevice;
    check(cudaMemcpyAsync(data_of(tensor) + offset, data, bytes, kind, of(backend).stream), "copy to the device");
}

void get_async(ggml_backend_t backend, const ggml_tensor * tensor, void * data, size_t offset, size_t bytes) {
    GGML_ASSERT(is_device_buffer(buffer_of(tensor)));
    simt::count("async_gets");
    const auto kind = cudaMemcpyDeviceToHost;
    check(cudaMemcpyAsync(data, data_of(tensor) + offset, bytes, kind, of(backend).stream), "copy to the host");
}

bool copy_async(ggml_backend_t from_backend, ggml_backend_t to_backend, const ggml_tensor * from, ggml_tensor * to) {
    const bool are_ours = from_backend->iface.get_name == get_name && to_backend->iface.get_name == get_name;
    if (!are_ours || !is_device_buffer(buffer_of(from)) || !is_device_buffer(buffer_of(to))) {
        return false;
    }
    const simt::Batch batch(simt::stream_of(of(from_backend).stream));
    const auto kind = cudaMemcpyDeviceToDevice;
    const cudaStream_t stream = of(from_backend).stream;
    check(cudaMemcpyAsync(to->data, from->data, ggml_nbytes(to), kind, stream), "copy on the device");
    simt::wait_in(simt::stream_of(of(to_backend).stream), simt::mark(simt::stream_of(stream)));
    return true;
}

void synchronize(ggml_backend_t backend) {
    check(cudaStreamSynchronize(of(backend).stream), "cudaStreamSynchronize");
}

void record_event(ggml_backend_t backend, ggml_backend_event_t event) {
    simt::count("events_recorded");
    check(cudaEventRecord(static_cast<cudaEvent_t>(event->context), of(backend).stream), "cudaEventRecord");
}

void wait_for_event(ggml_backend_t backend, ggml_backend_event_t event) {
    check(cudaStreamWaitEvent(of(backend).stream, static_cast<cudaEvent_t>(event->context)), "cudaStreamWaitEvent");
}

const ggml_backend_i backend_functions = {
    get_name,
    free_backend,
    set_async,
    get_async,
    /*set_tensor_2d_async=*/nullptr,
    /*get_tensor_2d_async=*/nullptr,
    copy_async,
    synchronize,
    /*graph_plan_create=*/nullptr,
    /*graph_plan_free=*/nullptr,
    /*graph_plan_update=*/nullptr,
    /*graph_plan_compute=*/nullptr,
    compute,
    record_event,
    wait_for_event,
    /*graph_optimize=*/nullptr,
};

ggml_guid_t guid() {
    static ggml_guid own = {'e', 'm', 'u', 'l', 'a', 't', 'e', 'd', ' ', 'G', 'P', 'U', 0, 0, 0, 1};
    return &own;
}

}  // namespace

ggml_backend_t new_backend() {
    return new ggml_backend{guid(), backend_functions, device(), new Backend};
}

}  // namespace emulated_gpu

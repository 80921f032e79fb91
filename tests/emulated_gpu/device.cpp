#include "device.h"

#include "../simt/runtime_handles.h"
#include "backend.h"
#include "buffers.h"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "supported_ops.h"

namespace emulated_gpu {
namespace {

constexpr int64_t offload_from_rows = 32;  // as ggml's CUDA backend does

const char * get_name(ggml_backend_dev_t) {
    return "CUDA0";
}

const char * get_description(ggml_backend_dev_t) {
    return "emulated GPU";
}

void get_memory(ggml_backend_dev_t, size_t * free, size_t * total) {
    check(cudaMemGetInfo(free, total), "cudaMemGetInfo");
}

enum ggml_backend_dev_type get_type(ggml_backend_dev_t) {
    return simt::is_integrated() ? GGML_BACKEND_DEVICE_TYPE_IGPU : GGML_BACKEND_DEVICE_TYPE_GPU;
}

void get_props(ggml_backend_dev_t dev, ggml_backend_dev_props * props) {
    *props = {};
    props->name = get_name(dev);
    props->description = get_description(dev);
    props->type = get_type(dev);
    get_memory(dev, &props->memory_free, &props->memory_total);
    props->caps.async = true;
    props->caps.host_buffer = true;
    props->caps.buffer_from_host_ptr = false;
    props->caps.events = true;
    props->caps.mmap_support = !simt::is_integrated();
}

ggml_backend_t init_backend(ggml_backend_dev_t, const char *) {
    return new_backend();
}

ggml_backend_buffer_type_t get_buffer_type(ggml_backend_dev_t) {
    return device_buffer_type();
}

ggml_backend_buffer_type_t get_host_buffer_type(ggml_backend_dev_t) {
    return pinned_buffer_type();
}

bool supports_op(ggml_backend_dev_t, const ggml_tensor * op) {
    return supports(*op);
}

bool supports_buffer_type(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
    return type == device_buffer_type();
}

bool offload_op(ggml_backend_dev_t, const ggml_tensor * op) {
    switch (op->op) {
        case GGML_OP_GET_ROWS:
            return false;
        case GGML_OP_MUL_MAT:
            return op->ne[1] >= offload_from_rows;
        case GGML_OP_MUL_MAT_ID:
        case GGML_OP_ROPE:
            return op->ne[2] >= offload_from_rows;
        default:
            return ggml_nrows(op) >= offload_from_rows;
    }
}

ggml_backend_event_t new_event(ggml_backend_dev_t dev) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    return new ggml_backend_event{dev, event};
}

void free_event(ggml_backend_dev_t, ggml_backend_event_t event) {
    check(cudaEventDestroy(static_cast<cudaEvent_t>(event->context)), "cudaEventDestroy");
    delete event;
}

void synchronize_event(ggml_backend_dev_t, ggml_backend_event_t event) {
    check(cudaEventSynchronize(static_cast<cudaEvent_t>(event->context)), "cudaEventSynchronize");
}

const ggml_backend_device_i device_functions = {
    get_name,
    get_description,
    get_memory,
    get_type,
    get_props,
    init_backend,
    get_buffer_type,
    get_host_buffer_type,
    /*buffer_from_host_ptr=*/nullptr,
    supports_op,
    supports_buffer_type,
    offload_op,
    new_event,
    free_event,
    synchronize_event,
};

const char * registry_name(ggml_backend_reg_t) {
    return "CUDA";
}

size_t device_count(ggml_backend_reg_t) {
    return 1;
}

ggml_backend_dev_t get_device(ggml_backend_reg_t, size_t) {
    return device();
}

ggml_backend_reg_t registry() {
    static ggml_backend_reg instance = {
        GGML_BACKEND_API_VERSION,
        {registry_name, device_count, get_device, /*get_proc_address=*/nullptr},
        /*context=*/nullptr,
    };
    return &instance;
}

// When the module is loaded.
const bool is_registered = (ggml_backend_register(registry()), true);

}  // namespace

ggml_backend_dev_t device() {
    static ggml_backend_device instance = {device_functions, registry(), /*context=*/nullptr};
    return &instance;
}

void check(cudaError_t error, const char * what) {
    if (error != cudaSuccess) {
        GGML_LOG_ERROR("CUDA error: %s\n", cudaGetErrorString(error));
        GGML_LOG_ERROR("  in %s\n", what);
        GGML_ABORT("CUDA error");
    }
}

}  // namespace emulated_gpu

// What the GPU did, written down by a library that CUDA's driver loads into any program:
//
//   CUDA_INJECTION64_PATH=libtrace.so ORIN_TRACE=FILE program
//
// A line of FILE for each piece of work, in nanoseconds: "graph START END", "kernel START END", "memset START END",
// "copy START END BYTES KIND" (kind 2: to the host). Kernels of a CUDA graph are part of its line. FILE ends with
// "dropped N", the number of records that were lost, when the program ends.

#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

namespace {

constexpr size_t buffer_bytes = 4 << 20;
constexpr size_t alignment = 8;

std::FILE * out;
size_t n_dropped;

void write_record(const CUpti_Activity * record) {
    const auto line = [](const char * what, const auto * work) {
        std::fprintf(out, "%s %llu %llu", what, static_cast<unsigned long long>(work->start),
                     static_cast<unsigned long long>(work->end));
    };
    // The oldest form of each record that has what is read here: newer ones only add behind it.
    switch (record->kind) {
        case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
            line("graph", reinterpret_cast<const CUpti_ActivityGraphTrace *>(record));
            break;
        case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
            line("kernel", reinterpret_cast<const CUpti_ActivityKernel9 *>(record));
            break;
        case CUPTI_ACTIVITY_KIND_MEMSET:
            line("memset", reinterpret_cast<const CUpti_ActivityMemset3 *>(record));
            break;
        case CUPTI_ACTIVITY_KIND_MEMCPY: {
            const auto * copy = reinterpret_cast<const CUpti_ActivityMemcpy5 *>(record);
            line("copy", copy);
            std::fprintf(out, " %llu %d", static_cast<unsigned long long>(copy->bytes), copy->copyKind);
            break;
        }
        default:
            return;
    }
    std::fputc('\n', out);
}

void CUPTIAPI give_buffer(uint8_t ** buffer, size_t * size, size_t * max_records) {
    *buffer = static_cast<uint8_t *>(std::aligned_alloc(alignment, buffer_bytes));
    *size = *buffer ? buffer_bytes : 0;
    *max_records = 0;
}

void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t * buffer, size_t, size_t valid) {
    CUpti_Activity * record = nullptr;
    while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        write_record(record);
    size_t dropped = 0;
    cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
    n_dropped += dropped;
    std::free(buffer);
}

void finish() {
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    std::fprintf(out, "dropped %zu\n", n_dropped);
    std::fclose(out);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
    const char * path = std::getenv("ORIN_TRACE");
    out = path ? std::fopen(path, "w") : nullptr;
    if (!out)
        return 0;
    cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    for (const auto kind : {CUPTI_ACTIVITY_KIND_GRAPH_TRACE, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                            CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_MEMCPY}) {
        const CUptiResult status = cuptiActivityEnable(kind);
        if (status != CUPTI_SUCCESS) {
            const char * words = "";
            cuptiGetResultString(status, &words);
            std::fprintf(out, "failed %s\n", words);
            std::fclose(out);
            return 0;
        }
    }
    std::atexit(finish);
    return 1;
}

// A stand-in for CUPTI with five records: what tells that cupti_trace.cpp asks for them, reads the right fields of
// them, and writes a whole file. FAKE_CUPTI_FAILS makes it refuse to start.
#include <cupti.h>

#include <cstdlib>
#include <cstring>

namespace {

CUpti_BuffersCallbackRequestFunc give;
CUpti_BuffersCallbackCompleteFunc take;
int n_enabled;

template <class Record>
uint8_t * put(uint8_t * at, CUpti_ActivityKind kind, uint64_t start, uint64_t end) {
    auto * record = reinterpret_cast<Record *>(at);
    std::memset(at, 0, sizeof(Record));
    record->kind = kind;
    record->start = start;
    record->end = end;
    return at + sizeof(Record);
}

// Sizes by kind, for the walk over a buffer.
size_t size_of(const CUpti_Activity * record) {
    switch (record->kind) {
        case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
            return sizeof(CUpti_ActivityGraphTrace2);
        case CUPTI_ACTIVITY_KIND_MEMCPY:
            return sizeof(CUpti_ActivityMemcpy6);
        case CUPTI_ACTIVITY_KIND_MEMSET:
            return sizeof(CUpti_ActivityMemset4);
        default:
            return sizeof(CUpti_ActivityKernel10);
    }
}

}  // namespace

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc a, CUpti_BuffersCallbackCompleteFunc b) {
    give = a;
    take = b;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind) {
    if (!give || std::getenv("FAKE_CUPTI_FAILS"))
        return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    n_enabled++;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult, const char ** words) {
    *words = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t) {
    uint8_t * buffer;
    size_t size, most;
    give(&buffer, &size, &most);
    uint8_t * at = put<CUpti_ActivityKernel10>(buffer, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 1, 2);
    at = put<CUpti_ActivityGraphTrace2>(at, CUPTI_ACTIVITY_KIND_GRAPH_TRACE, 10, 20);
    at = put<CUpti_ActivityMemset4>(at, CUPTI_ACTIVITY_KIND_MEMSET, 21, 22);
    auto * copy = reinterpret_cast<CUpti_ActivityMemcpy6 *>(at);
    at = put<CUpti_ActivityMemcpy6>(at, CUPTI_ACTIVITY_KIND_MEMCPY, 23, 24);
    copy->bytes = 16;
    copy->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
    at = put<CUpti_ActivityGraphTrace2>(at, CUPTI_ACTIVITY_KIND_GRAPH_TRACE, n_enabled * 10, 50);
    take(nullptr, 0, buffer, size, static_cast<size_t>(at - buffer));
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t * buffer, size_t valid, CUpti_Activity ** record) {
    uint8_t * next = *record ? reinterpret_cast<uint8_t *>(*record) + size_of(*record) : buffer;
    if (next >= buffer + valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = reinterpret_cast<CUpti_Activity *>(next);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t * dropped) {
    *dropped = 0;
    return CUPTI_SUCCESS;
}

}  // extern "C"

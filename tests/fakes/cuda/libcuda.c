// A stand-in for NVIDIA's driver library, with one GPU. Environment variables choose how it fails:
//   FAKE_CUDA_FAIL=cuInit:999,cuMemCreate:2   these calls return these errors; after 700 all fail
//   FAKE_CUDA_ABORT=cuMemCreate               this call aborts the process
//   FAKE_CUDA_HANG=cuInit                     this call never returns
//   FAKE_CUDA_LIMIT=BYTES                     more than this is out of memory
//   FAKE_CUDA_ADDRESSES=BYTES                 no longer range of addresses can be reserved
//   FAKE_CUDA_FREE=BYTES                      what cuMemGetInfo says is free
//   FAKE_CUDA_INTEGRATED=1                    the GPU shares the machine's memory
//   FAKE_CUDA_VMM=0                           the GPU has no virtual memory management
//   FAKE_CUDA_GB_S=NUMBER                     traffic of copies, in a time that is only counted
//   FAKE_CUDA_LOG=PATH                        a line for each call and its size, for how large a
//                                             core file may be, and for what is
//                                             left when the context is given back
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

typedef uint64_t Address;

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_CONTEXT = 201,
    ILLEGAL_ADDRESS = 700
};
#define GRANULE ((size_t)2 << 20)  // recommended
#define LEAST_GRANULE ((size_t)1 << 20)
#define TOTAL ((size_t)64 << 30)
#define MOST_BLOCKS 64

typedef struct {
    int type;
    int id;
} Location;

typedef struct {
    int type;
    int handle_types;
    Location location;
    void * metadata;
    unsigned char flags[8];
} Properties;

typedef struct {
    Location location;
    int flags;
} Access;

static int initialized, broken, has_context, has_handle, is_mapped;
static size_t reserved, created;
static struct {
    Address address;
    size_t size;
} blocks[MOST_BLOCKS];
static double now_ms;

static const Address RANGE = 0x7000000000, HANDLE = 0x700000001234;

static size_t number(const char * variable, size_t otherwise) {
    const char * text = getenv(variable);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void log_line(const char * name, size_t size) {
    const char * path = getenv("FAKE_CUDA_LOG");
    FILE * file = path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    fprintf(file, "%s %zu\n", name, size);
    fclose(file);
}

static int is_named(const char * variable, const char * call) {
    const char * text = getenv(variable);
    return text && strcmp(text, call) == 0;
}

// What every call does first: the error it was told to return, or OK.
static int begin(const char * call, size_t size) {
    log_line(call, size);
    if (is_named("FAKE_CUDA_ABORT", call)) {
        fprintf(stderr, "NvRmMemInitNvmap failed\nNvRmMemInit failed\n\n");
        abort();
    }
    while (is_named("FAKE_CUDA_HANG", call))
        pause();
    const char * at = getenv("FAKE_CUDA_FAIL");
    for (size_t length = strlen(call); at; at = strchr(at, ','), at = at ? at + 1 : NULL)
        if (strncmp(at, call, length) == 0 && at[length] == ':') {
            int failure = atoi(at + length + 1);
            if (failure == ILLEGAL_ADDRESS)
                broken = failure;
            if (failure == NO_DEVICE)
                fprintf(stderr, "\nNvRmMemInitNvmap failed with Permission denied\nNvRmMemInit failed\n");
            return failure;
        }
    if (broken)  // as after a kernel that failed: the context is good for nothing more
        return broken;
    int needs_none = strcmp(call, "cuInit") == 0 || strcmp(call, "cuDriverGetVersion") == 0;
    return initialized || needs_none ? OK : NOT_INITIALIZED;
}

#define BEGIN(size)                            \
    do {                                       \
        int failure = begin(__func__, (size)); \
        if (failure)                           \
            return failure;                    \
    } while (0)

#define REQUIRE(condition)        \
    do {                          \
        if (!(condition))         \
            return INVALID_VALUE; \
    } while (0)

#define REQUIRE_CONTEXT()           \
    do {                            \
        if (!has_context)           \
            return INVALID_CONTEXT; \
    } while (0)

int cuInit(unsigned flags) {
    BEGIN(0);
    REQUIRE(flags == 0);
    struct rlimit core;
    getrlimit(RLIMIT_CORE, &core);
    log_line("core", core.rlim_cur);
    initialized = 1;
    return OK;
}

int cuDriverGetVersion(int * version) {
    BEGIN(0);
    *version = 12060;
    return OK;
}

int cuGetErrorName(int error, const char ** name) {
    switch (error) {
        case INVALID_VALUE:
            *name = "CUDA_ERROR_INVALID_VALUE";
            break;
        case OUT_OF_MEMORY:
            *name = "CUDA_ERROR_OUT_OF_MEMORY";
            break;
        case NOT_INITIALIZED:
            *name = "CUDA_ERROR_NOT_INITIALIZED";
            break;
        case NO_DEVICE:
            *name = "CUDA_ERROR_NO_DEVICE";
            break;
        case INVALID_CONTEXT:
            *name = "CUDA_ERROR_INVALID_CONTEXT";
            break;
        case ILLEGAL_ADDRESS:
            *name = "CUDA_ERROR_ILLEGAL_ADDRESS";
            break;
        case 999:
            *name = "CUDA_ERROR_UNKNOWN";
            break;
        default:
            *name = NULL;
            return INVALID_VALUE;
    }
    return OK;
}

int cuDeviceGet(int * device, int ordinal) {
    BEGIN(0);
    REQUIRE(ordinal == 0);
    *device = 0;
    return OK;
}

int cuDeviceGetName(char * name, int length, int device) {
    BEGIN(0);
    REQUIRE(device == 0);
    snprintf(name, length, "Orin");
    return OK;
}

int cuDeviceGetAttribute(int * value, int attribute, int device) {
    BEGIN(0);
    REQUIRE(device == 0);
    switch (attribute) {
        case 13:
        case 36:
        case 37:
        case 38:
            *value = 1;
            return OK;
        case 16: {  // what MPS leaves of 132 multiprocessors, which are given out in pairs
            size_t percent = number("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", 100);
            *value = (int)(132 * percent / 200 * 2);
            return OK;
        }
        case 18:
            *value = (int)number("FAKE_CUDA_INTEGRATED", 0);
            return OK;
        case 75:
            *value = 8;
            return OK;
        case 76:
            *value = 7;
            return OK;
        case 102:
            *value = (int)number("FAKE_CUDA_VMM", 1);
            return OK;
        default:
            return INVALID_VALUE;
    }
}

int cuDeviceTotalMem_v2(size_t * bytes, int device) {
    BEGIN(0);
    REQUIRE(device == 0);
    *bytes = TOTAL;
    return OK;
}

int cuDevicePrimaryCtxRetain(void ** context, int device) {
    BEGIN(0);
    REQUIRE(device == 0);
    *context = &has_context;
    return OK;
}

int cuCtxSetCurrent(void * context) {
    BEGIN(0);
    REQUIRE(context == &has_context);
    has_context = 1;
    return OK;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    BEGIN(0);
    REQUIRE(device == 0);
    size_t left = reserved + has_handle + is_mapped;
    for (int i = 0; i < MOST_BLOCKS; i++)
        left += blocks[i].size;
    log_line("left", left);
    has_context = 0;
    return OK;
}

int cuMemGetInfo_v2(size_t * free_bytes, size_t * total) {
    BEGIN(0);
    REQUIRE_CONTEXT();
    *free_bytes = number("FAKE_CUDA_FREE", TOTAL);
    *total = TOTAL;
    return OK;
}

int cuMemAlloc_v2(Address * address, size_t size) {
    BEGIN(size);
    REQUIRE_CONTEXT();
    size_t used = size;
    int place = -1;
    for (int i = 0; i < MOST_BLOCKS; i++) {
        used += blocks[i].size;
        if (blocks[i].size == 0)
            place = i;
    }
    if (place < 0 || used > number("FAKE_CUDA_LIMIT", TOTAL)) {
        printf("NvMapMemAllocInternalTagged: 1075072515 error 12\n");
        fflush(stdout);
        return OUT_OF_MEMORY;
    }
    // Above 4 GiB, where an address cut to 32 bits is seen.
    blocks[place].address = ((Address)(place + 1) << 40) + GRANULE;
    blocks[place].size = size;
    *address = blocks[place].address;
    return OK;
}

static size_t block_size(Address address) {
    for (int i = 0; i < MOST_BLOCKS; i++)
        if (blocks[i].size && blocks[i].address == address)
            return blocks[i].size;
    return 0;
}

int cuMemFree_v2(Address address) {
    BEGIN(block_size(address));
    REQUIRE(block_size(address));
    for (int i = 0; i < MOST_BLOCKS; i++)
        if (blocks[i].address == address)
            blocks[i].size = 0;
    return OK;
}

static int is_right(const Properties * properties) {
    static const unsigned char none[8];
    return properties->type == 1 && properties->handle_types == 0 && properties->location.type == 1 &&
           properties->location.id == 0 && !properties->metadata && memcmp(properties->flags, none, sizeof none) == 0;
}

int cuMemGetAllocationGranularity(size_t * granularity, const Properties * properties, int option) {
    BEGIN(0);
    REQUIRE(is_right(properties) && (option == 0 || option == 1));
    *granularity = option == 0 ? LEAST_GRANULE : GRANULE;
    return OK;
}

int cuMemCreate(Address * handle, size_t size, const Properties * properties, uint64_t flags) {
    BEGIN(size);
    REQUIRE_CONTEXT();
    REQUIRE(is_right(properties) && flags == 0 && size > 0 && size % LEAST_GRANULE == 0 && !has_handle);
    has_handle = 1;
    created = size;
    *handle = HANDLE;
    return OK;
}

int cuMemRelease(Address handle) {
    BEGIN(0);
    REQUIRE(handle == HANDLE && has_handle);
    has_handle = 0;
    return OK;
}

int cuMemAddressReserve(Address * address, size_t size, size_t alignment, Address wanted, uint64_t flags) {
    BEGIN(size);
    REQUIRE_CONTEXT();
    REQUIRE(size > 0 && size % LEAST_GRANULE == 0 && alignment == 0 && wanted == 0 && flags == 0 && !reserved);
    if (size > number("FAKE_CUDA_ADDRESSES", TOTAL))
        return OUT_OF_MEMORY;
    reserved = size;
    *address = RANGE;
    return OK;
}

int cuMemAddressFree(Address address, size_t size) {
    BEGIN(size);
    REQUIRE(address == RANGE && size == reserved && !is_mapped);
    reserved = 0;
    return OK;
}

int cuMemMap(Address address, size_t size, size_t offset, Address handle, uint64_t flags) {
    BEGIN(size);
    REQUIRE(address == RANGE && reserved && size == created && offset == 0);
    REQUIRE(handle == HANDLE && has_handle && flags == 0 && !is_mapped);
    is_mapped = 1;
    return OK;
}

int cuMemUnmap(Address address, size_t size) {
    BEGIN(size);
    REQUIRE(address == RANGE && size == created && is_mapped);
    is_mapped = 0;
    return OK;
}

int cuMemSetAccess(Address address, size_t size, const Access * access, size_t count) {
    BEGIN(size);
    REQUIRE(address == RANGE && size == created && is_mapped && count == 1);
    REQUIRE(access->location.type == 1 && access->location.id == 0 && access->flags == 3);
    return OK;
}

int cuMemcpyDtoDAsync_v2(Address target, Address source, size_t size, void * stream) {
    BEGIN(size);
    REQUIRE(target != source && block_size(target) >= size && block_size(source) >= size && !stream);
    now_ms += 2.0 * size / number("FAKE_CUDA_GB_S", 100) / 1e6;
    return OK;
}

int cuEventCreate(void ** event, unsigned flags) {
    BEGIN(0);
    REQUIRE(flags == 0);
    *event = calloc(1, sizeof(double));
    return OK;
}

int cuEventRecord(void * event, void * stream) {
    BEGIN(0);
    REQUIRE(!stream);
    *(double *)event = now_ms;
    return OK;
}

int cuEventSynchronize(void * event) {
    BEGIN(0);
    REQUIRE(event);
    return OK;
}

int cuEventElapsedTime(float * ms, void * start, void * end) {
    BEGIN(0);
    *ms = (float)(*(double *)end - *(double *)start);
    return OK;
}

int cuEventDestroy_v2(void * event) {
    BEGIN(0);
    free(event);
    return OK;
}

// A stand-in for NVIDIA's management library, with one GPU that is like an H200. Compiled with -DOLD it lacks what
// drivers of JetPack 6 lack, with -DNEW what CUDA 14 takes away. Environment variables choose how it fails:
//   FAKE_NVML_INIT=CODE                 the library cannot be started
//   FAKE_NVML_REFUSE=CODE               this is what every question is answered with
//   FAKE_NVML_REFUSED=NAME,NAME         or only these questions
#include <stdlib.h>
#include <string.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };
enum { CLOCK_SM = 1, CLOCK_MEM = 2 };

typedef struct {
    unsigned long long total, free, used;
} Memory;

typedef struct {
    unsigned gpu, memory;
} Utilization;

typedef struct {
    unsigned version, sensor;
    int temperature;
} Temperature;

static int users;
static char gpu;

static int code(const char * variable) {
    const char * text = getenv(variable);
    return text ? atoi(text) : OK;
}

static int refusal(const char * question, const void * device) {
    const char * refused = getenv("FAKE_NVML_REFUSED");
    if (users < 1)
        return UNINITIALIZED;
    if (device != &gpu)
        return INVALID_ARGUMENT;
    if (refused)
        return strstr(refused, question) ? NOT_SUPPORTED : OK;
    return code("FAKE_NVML_REFUSE");
}

#define ANSWER(question, statement)         \
    int status = refusal(question, device); \
    if (status == OK) {                     \
        statement;                          \
    }                                       \
    return status

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int status = code("FAKE_NVML_INIT");
    users += status == OK;
    return status;
}

int nvmlShutdown(void) {
    if (users < 1)
        return UNINITIALIZED;
    users--;
    return OK;
}

const char * nvmlErrorString(int status) {
    return status == NOT_SUPPORTED ? "Not Supported" : status == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void ** device) {
    *device = &gpu;
    return users < 1 ? UNINITIALIZED : index == 0 ? OK : NOT_FOUND;
}

int nvmlDeviceGetUtilizationRates(void * device, Utilization * answer) {
    ANSWER("Utilization", *answer = ((Utilization){97, 61}));
}

int nvmlDeviceGetMemoryInfo(void * device, Memory * answer) {
    ANSWER("Memory", *answer = ((Memory){150754820096, 150754820096 - 5368709120, 5368709120}));
}

int nvmlDeviceGetPowerUsage(void * device, unsigned * milliwatt) {
    ANSWER("Power", *milliwatt = 612500);
}

int nvmlDeviceGetTotalEnergyConsumption(void * device, unsigned long long * millijoule) {
    ANSWER("Energy", *millijoule = 9876543210123);
}

int nvmlDeviceGetClockInfo(void * device, int clock, unsigned * mhz) {
    ANSWER("Clock", *mhz = clock == CLOCK_SM ? 1980 : clock == CLOCK_MEM ? 3201 : 0);
}

#ifndef NEW
int nvmlDeviceGetTemperature(void * device, int sensor, unsigned * celsius) {
    ANSWER("Temperature", *celsius = sensor == 0 ? 71 : 0);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void * device, unsigned long long * reasons) {
    ANSWER("Reasons", *reasons = 0x24);
}
#endif

#ifndef OLD
int nvmlDeviceGetTemperatureV(void * device, Temperature * answer) {
    ANSWER("Temperature", answer->temperature = answer->sensor == 0 ? 71 : 0);
}

int nvmlDeviceGetCurrentClocksEventReasons(void * device, unsigned long long * reasons) {
    ANSWER("Reasons", *reasons = 0x24);
}
#endif

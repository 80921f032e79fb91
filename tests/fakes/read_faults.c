// Preloaded into a process, makes a disk of one of its files: one that fails, is slow, or does not do all it could.
// FAULT_FILE: what the file's path ends with. FAULT: see the kinds below. FAULT_AT: from which byte on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

static bool is_fault(const char * kind) {
    const char * wanted = getenv("FAULT");
    return wanted != NULL && strcmp(wanted, kind) == 0;
}

static bool is_the_file(const char * path) {
    const char * wanted = getenv("FAULT_FILE");
    const size_t length = strlen(path);
    return wanted != NULL && length >= strlen(wanted) && strcmp(path + length - strlen(wanted), wanted) == 0;
}

static bool is_open_as(int descriptor) {
    char link[64];
    char path[4096];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
    const ssize_t n = readlink(link, path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    return is_the_file(path);
}

static off_t fault_at(void) {
    const char * at = getenv("FAULT_AT");
    return at == NULL ? 0 : atoll(at);
}

static ssize_t faulty_pread(int descriptor, void * data, size_t n, off_t offset) {
    static ssize_t (*real)(int, void *, size_t, off_t);
    static _Thread_local unsigned n_calls;
    if (real == NULL) {
        real = (ssize_t (*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
    }
    if (!is_open_as(descriptor)) {
        return real(descriptor, data, n, offset);
    }
    const bool is_direct = (fcntl(descriptor, F_GETFL) & O_DIRECT) != 0;
    const off_t end = offset + (off_t)n;
    if (is_fault("eio") && end > fault_at()) {
        if (offset < fault_at() && !is_direct) {
            return real(descriptor, data, (size_t)(fault_at() - offset), offset);
        }
        errno = EIO;
        return -1;
    }
    if (is_fault("refuse direct reads") && is_direct && offset >= fault_at()) {
        errno = EINVAL;
        return -1;
    }
    if (is_fault("interrupted") && n_calls++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    if (is_fault("short") && n > 4096) {
        n = (n / 2 + 4095) / 4096 * 4096;
    }
    if (is_fault("slow")) {
        usleep(100 * 1000);
    }
    return real(descriptor, data, n, offset);
}

ssize_t pread(int descriptor, void * data, size_t n, off_t offset) {
    return faulty_pread(descriptor, data, n, offset);
}

ssize_t pread64(int descriptor, void * data, size_t n, off_t offset) {
    return faulty_pread(descriptor, data, n, offset);
}

// What a disk that cannot be read does to a mapping.
int madvise(void * address, size_t length, int advice) {
    static int (*real)(void *, size_t, int);
    if (real == NULL) {
        real = (int (*)(void *, size_t, int))dlsym(RTLD_NEXT, "madvise");
    }
    if (advice == MADV_POPULATE_READ && getenv("FAULT") != NULL) {
        errno = EFAULT;
        return -1;
    }
    return real(address, length, advice);
}

int open(const char * path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const bool makes_file = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
    const mode_t mode = makes_file ? va_arg(more, mode_t) : 0;
    va_end(more);
    static int (*real)(const char *, int, ...);
    if (real == NULL) {
        real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    }
    if (is_fault("no O_DIRECT") && (flags & O_DIRECT) != 0) {
        errno = EINVAL;
        return -1;
    }
    return real(path, flags, mode);
}

int open64(const char * path, int flags, ...) __attribute__((alias("open")));

// A jump from one stack to another looks like a mistake to the checks of the C library.
#undef _FORTIFY_SOURCE

#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace simt {
namespace {

constexpr size_t guard_bytes = 4096;
constexpr size_t stack_bytes = 256 << 10;  // taken from the system as it is touched

}  // namespace

Fiber::Fiber()
    : memory_(mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (memory_ == MAP_FAILED || mprotect(memory_, guard_bytes, PROT_NONE) != 0) {
        throw std::bad_alloc();
    }
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = static_cast<char *>(memory_) + guard_bytes;
    inside_.uc_stack.ss_size = stack_bytes;
    inside_.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
}

Fiber::~Fiber() {
    munmap(memory_, guard_bytes + stack_bytes);
}

void Fiber::start(const std::function<void()> & body) {
    body_ = &body;
    ended_ = false;
    error_ = nullptr;
}

void Fiber::resume() {
    note_leaving(&fake_outside_, inside_.uc_stack.ss_sp, stack_bytes);
    switch_in();
    note_arrived(fake_outside_);
    if (error_) {
        std::rethrow_exception(std::exchange(error_, nullptr));
    }
}

void Fiber::give_way() {
    note_leaving(&fake_inside_, outside_bottom_, outside_size_);
    switch_out();
    note_arrived(fake_inside_);
}

void Fiber::enter(unsigned high, unsigned low) {
    auto * self = reinterpret_cast<Fiber *>((static_cast<uintptr_t>(high) << 32) | low);
    self->note_arrived(nullptr);
    self->run();
}

// One body after another.
void Fiber::run() {
    for (;;) {
        try {
            (*body_)();
        } catch (...) {
            error_ = std::current_exception();
        }
        ended_ = true;
        give_way();
    }
}

#ifdef __SANITIZE_ADDRESS__
void Fiber::switch_in() {
    swapcontext(&outside_, &inside_);
}

void Fiber::switch_out() {
    swapcontext(&inside_, &outside_);
}
#else
// Without the system calls for signals that swapcontext makes: a kernel switches a million times a second.
void Fiber::switch_in() {
    if (_setjmp(outside_place_) != 0) {
        return;
    }
    if (was_entered_) {
        _longjmp(inside_place_, 1);
    }
    was_entered_ = true;
    setcontext(&inside_);
}

void Fiber::switch_out() {
    if (_setjmp(inside_place_) == 0) {
        _longjmp(outside_place_, 1);
    }
}
#endif

#ifdef __SANITIZE_ADDRESS__
void Fiber::note_leaving(void ** save, const void * bottom, size_t size) {
    __sanitizer_start_switch_fiber(save, bottom, size);
}

void Fiber::note_arrived(void * save) {
    const void * bottom = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(save, &bottom, &size);
    if (bottom != static_cast<char *>(memory_) + guard_bytes) {
        outside_bottom_ = bottom;
        outside_size_ = size;
    }
}
#else
void Fiber::note_leaving(void **, const void *, size_t) {}
void Fiber::note_arrived(void *) {}
#endif

}  // namespace simt

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
}

Fiber::~Fiber() {
    munmap(memory_, guard_bytes + stack_bytes);
}

void Fiber::start(std::function<void()> body) {
    body_ = std::move(body);
    ended_ = false;
    error_ = nullptr;
    fake_inside_ = nullptr;
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = static_cast<char *>(memory_) + guard_bytes;
    inside_.uc_stack.ss_size = stack_bytes;
    inside_.uc_link = nullptr;
    const auto self = reinterpret_cast<uintptr_t>(this);
    makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
}

void Fiber::resume() {
    note_leaving(&fake_outside_, inside_.uc_stack.ss_sp, stack_bytes);
    swapcontext(&outside_, &inside_);
    note_arrived(fake_outside_);
    if (error_) {
        std::rethrow_exception(std::exchange(error_, nullptr));
    }
}

void Fiber::give_way() {
    note_leaving(ended_ ? nullptr : &fake_inside_, outside_bottom_, outside_size_);
    swapcontext(&inside_, &outside_);
    note_arrived(fake_inside_);
}

void Fiber::enter(unsigned high, unsigned low) {
    auto * self = reinterpret_cast<Fiber *>((static_cast<uintptr_t>(high) << 32) | low);
    self->note_arrived(nullptr);
    self->run();
}

void Fiber::run() {
    try {
        body_();
    } catch (...) {
        error_ = std::current_exception();
    }
    ended_ = true;
    give_way();
}

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

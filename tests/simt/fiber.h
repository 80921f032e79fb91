// A function with a stack of its own, which runs until it gives way and goes on where it was.
#pragma once

#include <ucontext.h>

#include <csetjmp>
#include <cstddef>
#include <exception>
#include <functional>

namespace simt {

class Fiber {
   public:
    Fiber();
    ~Fiber();
    Fiber(const Fiber &) = delete;
    Fiber & operator=(const Fiber &) = delete;

    // Takes up `body`, which must outlive it, at the next resume(). PRECOND: what it did before has ended.
    void start(const std::function<void()> & body);
    // From outside: runs it until it gives way, ends or throws. What it throws is thrown here.
    void resume();
    bool has_ended() const { return ended_; }

    // From inside: back to who resumed it.
    void give_way();

   private:
    static void enter(unsigned high, unsigned low);
    [[noreturn]] void run();
    void switch_in();
    void switch_out();
    // The address sanitizer has to know on which stack the program is.
    void note_leaving(void ** save, const void * bottom, size_t size);
    void note_arrived(void * save);

    void * memory_;  // a page that cannot be touched, then the stack
    const std::function<void()> * body_ = nullptr;
    std::exception_ptr error_;
    bool ended_ = true;
    ucontext_t inside_{};
    ucontext_t outside_{};
    bool was_entered_ = false;
    jmp_buf inside_place_;
    jmp_buf outside_place_;
    void * fake_inside_ = nullptr;
    void * fake_outside_ = nullptr;
    const void * outside_bottom_ = nullptr;
    size_t outside_size_ = 0;
};

}  // namespace simt

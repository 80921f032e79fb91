// Runs a function on a thread of its own with a large stack, for code that recurses as deep as its input is long.
#pragma once

#include <cstddef>
#include <functional>

namespace orin {

// Waits for `work`; what it throws is thrown here. Stack pages that are not touched cost nothing.
// Throws EngineError when the system has no room for the stack.
void run_on_stack(size_t stack_bytes, const std::function<void()> & work);

}  // namespace orin

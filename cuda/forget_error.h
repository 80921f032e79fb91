// What the runtime remembers of a call that failed.
#pragma once

namespace orin::cuda {

// Until somebody asks, the runtime keeps a thread's last error, and who launches a kernel next is blamed for it. To be
// called by who has told that error, or lives with it.
void forget_error();

}  // namespace orin::cuda

// What other threads want of the engine's thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace orin {

class Completion;

struct Mail {
    std::vector<std::shared_ptr<Completion>> submitted;
    std::vector<std::function<void()>> commands;  // to be done between two steps; they do not throw
    bool has_cancelled = false;                   // some completion: it knows itself
    bool closing = false;

    bool empty() const { return submitted.empty() && commands.empty() && !has_cancelled && !closing; }
};

class Mailbox {
   public:
    // False, and nothing kept, once it is closing.
    bool submit(std::shared_ptr<Completion> completion);
    bool command(std::function<void()> work);
    void note_cancelled();
    void close();

    bool is_closing() const;
    // What came since the last call; waits for something where `wait` is set.
    Mail take(bool wait);

   private:
    mutable std::mutex mutex_;
    std::condition_variable arrived_;
    Mail mail_;
};

}  // namespace orin

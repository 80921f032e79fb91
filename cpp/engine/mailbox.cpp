#include "mailbox.h"

#include <utility>

namespace orin {

bool Mailbox::submit(std::shared_ptr<Completion> completion) {
    const std::lock_guard lock(mutex_);
    if (mail_.closing) {
        return false;
    }
    mail_.submitted.push_back(std::move(completion));
    arrived_.notify_one();
    return true;
}

bool Mailbox::command(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (mail_.closing) {
        return false;
    }
    mail_.commands.push_back(std::move(work));
    arrived_.notify_one();
    return true;
}

void Mailbox::note_cancelled() {
    const std::lock_guard lock(mutex_);
    mail_.has_cancelled = true;
    arrived_.notify_one();
}

void Mailbox::close() {
    const std::lock_guard lock(mutex_);
    mail_.closing = true;
    arrived_.notify_one();
}

bool Mailbox::is_closing() const {
    const std::lock_guard lock(mutex_);
    return mail_.closing;
}

Mail Mailbox::take(bool wait) {
    std::unique_lock lock(mutex_);
    if (wait) {
        arrived_.wait(lock, [this] { return !mail_.empty(); });
    }
    Mail mail = std::exchange(mail_, {});
    mail_.closing = mail.closing;
    return mail;
}

}  // namespace orin

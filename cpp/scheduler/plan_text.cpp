// Plans and their parts as text.
#include "planner.h"

namespace orin {

namespace {

void add_ids(std::string & text, const char * name, const std::vector<RequestId> & ids) {
    if (ids.empty()) {
        return;
    }
    text += text.empty() ? "" : "; ";
    text += name;
    for (const RequestId id : ids) {
        text += " " + std::to_string(id);
    }
}

}  // namespace

const char * to_string(Policy policy) {
    switch (policy) {
        case Policy::balanced:
            return "balanced";
        case Policy::ttft:
            return "ttft";
        case Policy::tpot:
            return "tpot";
    }
    return "";
}

void StepPlan::clear() {
    for (std::vector<RequestId> * ids : {&drop, &expire, &preempt, &admit, &overtaken, &decode}) {
        ids->clear();
    }
    prefill.clear();
    stalls_decode = false;
}

std::string StepPlan::to_string() const {
    std::string text;
    add_ids(text, "drop", drop);
    add_ids(text, "expire", expire);
    add_ids(text, "preempt", preempt);
    add_ids(text, "admit", admit);
    add_ids(text, "overtaken", overtaken);
    add_ids(text, "decode", decode);
    if (!prefill.empty()) {
        text += text.empty() ? "prefill" : "; prefill";
        for (const PrefillPart & part : prefill) {
            text += " " + std::to_string(part.id) + ":" + std::to_string(part.n_tokens) + (part.reaches_end ? "!" : "");
        }
    }
    if (stalls_decode) {
        text += "; decode stalls";
    }
    return text.empty() ? "nothing" : text;
}

}  // namespace orin

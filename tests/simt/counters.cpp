#include "counters.h"

#include <map>
#include <mutex>

namespace simt {
namespace {

struct Counters {
    std::mutex lock;
    std::map<std::string, int64_t> values;
};

Counters & counters() {
    static auto * all = new Counters;  // never destroyed: others end later
    return *all;
}

}  // namespace

void count(const char * name, int64_t n) {
    const std::lock_guard<std::mutex> lock(counters().lock);
    counters().values[name] += n;
}

std::string counters_json() {
    const std::lock_guard<std::mutex> lock(counters().lock);
    std::string text = "{";
    for (const auto & [name, value] : counters().values) {
        text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + std::to_string(value);
    }
    return text + "}";
}

void reset_counters() {
    const std::lock_guard<std::mutex> lock(counters().lock);
    counters().values.clear();
}

}  // namespace simt

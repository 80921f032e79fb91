#include "model_load.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <initializer_list>

#include "../engine/clock.h"
#include "../gguf/error.h"
#include "../hooks/include/orin_hooks.h"
#include "llama-model-loader.h"
#include "mapped_load.h"
#include "staged_load.h"

namespace orin {
namespace {

// Parts of a split model are found by llama.cpp, which does not keep their names.
std::string path_of(int descriptor) {
    std::array<char, 4096> path{};
    const ssize_t n = readlink(gguf::text("/proc/self/fd/", descriptor).c_str(), path.data(), path.size());
    return n > 0 ? std::string(path.data(), static_cast<size_t>(n)) : std::string("a part of the model");
}

// What llama.cpp does behind its own load of the last tensors.
void unmap_what_is_not_used(llama_model_loader & loader) {
    for (size_t i = 0; loader.use_mmap && i < loader.mappings.size(); i++) {
        const auto [first, last] = loader.mmaps_used[i];
        loader.mappings[i]->unmap_fragment(0, first);
        if (last != 0) {
            loader.mappings[i]->unmap_fragment(last, loader.mappings[i]->size());
        }
    }
}

}  // namespace

ModelLoad::ModelLoad(std::string path, bool check_tensors, Progress progress)
    : path_(std::move(path)), check_tensors_(check_tensors), progress_(std::move(progress)) {}

bool ModelLoad::report(float fraction) {
    if (!was_stopped_ && progress_ && !progress_(std::min(fraction, 1.0f))) {
        was_stopped_ = true;
    }
    return !was_stopped_;
}

bool ModelLoad::load_tensors(llama_model_loader & loader, ggml_context * tensors,
                             const std::unordered_map<uint32_t, ggml_backend_buffer *> & buffers) {
    const double now = now_ms();
    const double waited_ms = report_.upload_ms;
    bool is_done = false;
    try {
        is_done = load_all(loader, tensors, buffers);
    } catch (...) {
        error_ = std::current_exception();
    }
    report_.read_ms += now_ms() - now - (report_.upload_ms - waited_ms);
    return is_done;
}

bool ModelLoad::load_all(llama_model_loader & loader, ggml_context * tensors,
                         const std::unordered_map<uint32_t, ggml_backend_buffer *> & buffers) {
    const size_t done_before = loader.size_done;
    if (!report(static_cast<float>(loader.size_done) / static_cast<float>(loader.size_data)) ||
        !load_ways(loader, find_sources(loader, tensors, buffers))) {
        return false;
    }
    report_.bytes += loader.size_done - done_before;
    if (loader.size_done < loader.size_data) {
        return true;
    }
    unmap_what_is_not_used(loader);
    return report(1.0f);
}

bool ModelLoad::load_ways(llama_model_loader & loader, const std::vector<TensorSource> & all) {
    const auto load = [&](std::initializer_list<Way> ways, Caching caching, const auto & how) {
        std::vector<TensorSource> sources;
        uint64_t bytes = 0;
        for (const TensorSource & source : all) {
            if (std::find(ways.begin(), ways.end(), source.way) != ways.end()) {
                sources.push_back(source);
                bytes += source.nbytes;
            }
        }
        const auto go_on = [&](uint64_t done_bytes) {
            return report(static_cast<float>(loader.size_done + done_bytes) / static_cast<float>(loader.size_data));
        };
        if (!sources.empty() && !how({std::move(sources), files_of(loader, caching), check_tensors_, go_on})) {
            return false;
        }
        loader.size_done += bytes;
        return true;
    };
    const auto map = [&](const LoadPart & part) { return load_mapped(part, loader); };
    const auto leave = [&](const LoadPart & part) { return check_tensors_ ? map(part) : true; };
    const auto upload = [&](const LoadPart & part) { return load_to_device(part, report_.upload_ms); };
    // Where files are mapped, processes share what is cached of them, and find it again when they start anew.
    const Caching for_host = loader.use_mmap ? Caching::keep : Caching::bypass;
    return load({Way::mapped}, Caching::keep, map) && load({Way::lazy}, Caching::keep, leave) &&
           load({Way::copied, Way::rows}, for_host, load_to_host) && load({Way::at_once}, for_host, load_at_once) &&
           load({Way::device}, Caching::bypass, upload);
}

ModelLoad::Files & ModelLoad::files_of(const llama_model_loader & loader, Caching caching) {
    Files & files = caching == Caching::keep ? cached_ : bypassing_;
    while (files.size() < loader.files.size()) {
        const llama_file & file = *loader.files[files.size()];
        const std::string path = files.empty() ? path_ : path_of(file.file_id());
        files.push_back(std::make_unique<DataFile>(file.file_id(), file.size(), path, caching));
    }
    return files;
}

LoadReport ModelLoad::summary() const {
    LoadReport report = report_;
    for (const auto & file : bypassing_) {
        report.direct_bytes += file->direct_bytes();
    }
    return report;
}

}  // namespace orin

bool orin_load_progress(float fraction, void * load) {
    return static_cast<orin::ModelLoad *>(load)->report(fraction);
}

bool orin_load_tensors(void * load, llama_model_loader & loader, ggml_context * tensors,
                       std::unordered_map<uint32_t, ggml_backend_buffer *> & buffers) {
    return static_cast<orin::ModelLoad *>(load)->load_tensors(loader, tensors, buffers);
}

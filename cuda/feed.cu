#include <device/launch.cuh>

#include "feed.h"

namespace orin::cuda {
namespace {

constexpr int32_t feed_threads = 128;  // a step has so few tokens that one block of threads does

__global__ void __launch_bounds__(feed_threads) feed_kernel(FeedParams p) {
    for (auto i = static_cast<int32_t>(threadIdx.x); i < p.n_tokens; i += feed_threads) {
        const int32_t sequence = p.sequences[i];
        p.tokens[i] = sequence < 0 ? p.given[i] : max(p.last_drawn[sequence], 0);
    }
}

__global__ void __launch_bounds__(feed_threads) publish_kernel(PublishParams p) {
    for (auto i = static_cast<int32_t>(threadIdx.x); i < p.n_rows; i += feed_threads) {
        const sampling::Lane & lane = p.lanes[i];
        if (lane.sequence < 0) {
            continue;
        }
        p.last_drawn[lane.sequence] = p.tokens[i];
        if (lane.recent_slot >= 0) {
            p.recent[int64_t(lane.sequence) * p.max_recent + lane.recent_slot] = p.tokens[i];
        }
    }
}

}  // namespace

cudaError_t feed(const FeedParams & params, cudaStream_t stream) {
    const bool has_all = params.given != nullptr && params.sequences != nullptr && params.last_drawn != nullptr &&
                         params.tokens != nullptr;
    if (params.n_tokens < 0 || (params.n_tokens > 0 && !has_all)) {
        return cudaErrorInvalidValue;
    }
    if (params.n_tokens == 0) {
        return cudaSuccess;
    }
    ORIN_LAUNCH(feed_kernel, 1, feed_threads, 0, stream, params);
    return cudaGetLastError();
}

cudaError_t publish(const PublishParams & params, cudaStream_t stream) {
    const bool has_all = params.lanes != nullptr && params.tokens != nullptr && params.last_drawn != nullptr &&
                         (params.max_recent == 0 || params.recent != nullptr);
    if (params.n_rows < 0 || params.max_recent < 0 || (params.n_rows > 0 && !has_all)) {
        return cudaErrorInvalidValue;
    }
    if (params.n_rows == 0) {
        return cudaSuccess;
    }
    ORIN_LAUNCH(publish_kernel, 1, feed_threads, 0, stream, params);
    return cudaGetLastError();
}

}  // namespace orin::cuda

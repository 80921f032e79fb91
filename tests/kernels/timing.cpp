#include "timing.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "device_array.h"

namespace orin::kernels {
namespace {

constexpr int warmups = 2;

// A stream with one graph.
class Graph {
   public:
    explicit Graph(const std::vector<Launch> & launches) {
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
        cudaGraph_t graph = nullptr;
        check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
        cudaError_t error = cudaSuccess;
        for (const Launch & launch : launches) {
            error = error == cudaSuccess ? launch(stream_) : error;
        }
        check(cudaStreamEndCapture(stream_, &graph), "capture");
        check(error, "launch");
        check(cudaGraphInstantiate(&executable_, graph, 0), "graph");
        check(cudaGraphDestroy(graph), "graph");
    }
    ~Graph() {
        cudaGraphExecDestroy(executable_);
        cudaStreamDestroy(stream_);
    }
    Graph(const Graph &) = delete;
    Graph & operator=(const Graph &) = delete;

    cudaStream_t stream() const { return stream_; }
    void launch() { check(cudaGraphLaunch(executable_, stream_), "graph"); }
    void wait() { check(cudaStreamSynchronize(stream_), "kernel"); }

   private:
    cudaStream_t stream_ = nullptr;
    cudaGraphExec_t executable_ = nullptr;
};

#ifdef ORIN_EMULATED
double time_us(Graph & graph) {
    const auto start = std::chrono::steady_clock::now();
    graph.launch();
    graph.wait();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}
#else
double time_us(Graph & graph) {
    cudaEvent_t first = nullptr;
    cudaEvent_t last = nullptr;
    float ms = 0;
    check(cudaEventCreate(&first), "event");
    check(cudaEventCreate(&last), "event");
    check(cudaEventRecord(first, graph.stream()), "event");
    graph.launch();
    check(cudaEventRecord(last, graph.stream()), "event");
    graph.wait();
    check(cudaEventElapsedTime(&ms, first, last), "event");
    check(cudaEventDestroy(first), "event");
    check(cudaEventDestroy(last), "event");
    return double(ms) * 1e3;
}
#endif

}  // namespace

Memory::Memory(size_t bytes) : bytes_(bytes) {
    check(cudaMalloc(&memory_, std::max<size_t>(bytes, 1)), "cudaMalloc");
}

Memory::Memory(Memory && other) noexcept : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}

Memory::~Memory() {
    cudaFree(memory_);
}

void Memory::fill(const void * pattern, size_t bytes) {
    size_t filled = std::min(bytes, bytes_);
    check(cudaMemcpy(memory_, pattern, filled, cudaMemcpyHostToDevice), "copy to the device");
    while (filled < bytes_) {
        const size_t next = std::min(filled, bytes_ - filled);
        check(cudaMemcpy(at<void>(filled), memory_, next, cudaMemcpyDeviceToDevice), "copy");
        filled += next;
    }
}

void Memory::zero() {
    check(cudaMemset(memory_, 0, bytes_), "memset");
}

std::vector<double> time_launches(const std::vector<Launch> & launches, int repetitions) {
    Graph graph(launches);
    for (int i = 0; i < warmups; i++) {
        graph.launch();
    }
    graph.wait();
    std::vector<double> times_us;
    for (int i = 0; i < repetitions; i++) {
        times_us.push_back(time_us(graph) / double(launches.size()));
    }
    return times_us;
}

}  // namespace orin::kernels

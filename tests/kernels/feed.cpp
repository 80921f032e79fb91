#include "feed.h"

#include <pybind11/stl.h>

#include <vector>

#include "bind_kernels.h"
#include "device_array.h"

namespace py = pybind11;

namespace orin::kernels {
namespace {

using Ints = DeviceArray<int32_t>;
using Bytes = DeviceArray<uint8_t>;

// The tokens that feed() writes: [n_tokens].
Ints::Array feed(const Ints::Array & given, const Ints::Array & sequences, const Ints::Array & last_drawn) {
    Ints device_given(given);
    Ints device_sequences(sequences);
    Ints device_last(last_drawn);
    Ints tokens(Ints::Array(given.size()));
    check(cuda::feed({device_given.data(), device_sequences.data(), device_last.data(), tokens.data(),
                      static_cast<int32_t>(given.size())},
                     nullptr),
          "feed");
    return tokens.read();
}

// Returns last_drawn and recent as publish() leaves them. recent: [n_sequences, max_recent].
py::tuple publish(const Ints::Array & tokens, const std::vector<int32_t> & sequences,
                  const std::vector<int32_t> & slots, const Ints::Array & last_drawn, const Ints::Array & recent) {
    std::vector<sampling::Lane> lanes(sequences.size());
    for (size_t i = 0; i < lanes.size(); i++) {
        lanes[i].sequence = sequences[i];
        lanes[i].recent_slot = slots[i];
    }
    Bytes device_lanes(Bytes::Array(static_cast<py::ssize_t>(lanes.size() * sizeof(lanes[0])),
                                    reinterpret_cast<const uint8_t *>(lanes.data())));
    Ints device_tokens(tokens);
    Ints device_last(last_drawn);
    Ints device_recent(recent);
    cuda::PublishParams p{};
    p.lanes = reinterpret_cast<const sampling::Lane *>(device_lanes.data());
    p.tokens = device_tokens.data();
    p.last_drawn = device_last.data();
    p.recent = device_recent.data();
    p.max_recent = static_cast<int32_t>(recent.shape(1));
    p.n_rows = static_cast<int32_t>(lanes.size());
    check(cuda::publish(p, nullptr), "publish");
    return py::make_tuple(device_last.read(), device_recent.read());
}

}  // namespace

void bind_feed(py::module_ & module) {
    module.def("feed", &feed, py::arg("given"), py::arg("sequences"), py::arg("last_drawn"));
    module.def("publish", &publish, py::arg("tokens"), py::arg("sequences"), py::arg("slots"), py::arg("last_drawn"),
               py::arg("recent"));
}

}  // namespace orin::kernels

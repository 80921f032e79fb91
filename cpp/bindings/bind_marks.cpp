// Python's view of the marks for profilers of the GPU.
#include <pybind11/pybind11.h>

#include <string>

#include "../engine/step_range.h"

void bind_marks(pybind11::module_ & m) {
    m.def(
        "push_range", [](const std::string & name) { orin::push_range(name.c_str()); },
        "Begins to name what this thread does, for profilers of the GPU. Built without CUDA it does nothing.");
    m.def("pop_range", &orin::pop_range, "Ends the range of this thread that was begun last.");
}

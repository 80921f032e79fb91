// What a handle of something that computes by a LlamaStepper tells Python of it: how it runs on this device.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "../engine/llama_stepper.h"
#include "convert_engine.h"

namespace orin {

// Handle has stepper(). Nothing of this waits for a step.
template <typename Class>
void def_stepper_facts(Class & handle) {
    using Handle = typename Class::type;
    handle.def_property_readonly("is_paged", [](const Handle & self) { return self.stepper().is_paged(); })
        .def_property_readonly("hooks", [](const Handle & self) { return self.stepper().hooks_in_use(); })
        .def_property_readonly("kv_memory", [](const Handle & self) { return self.stepper().kv_memory(); })
        .def_property_readonly("kernels", [](const Handle & self) { return self.stepper().kernels(); })
        .def_property_readonly("refusal", [](const Handle & self) { return self.stepper().refusal(); })
        .def("rope_store_report", [](const Handle & self) { return to_dict(self.stepper().rope_store_report()); })
        .def("matrix_report", [](const Handle & self) { return to_dict(self.stepper().matrix_report()); });
}

}  // namespace orin

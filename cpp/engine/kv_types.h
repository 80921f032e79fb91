// The element types of a KV cache: keys have one, values have one.
#pragma once

#include <string>

#include "ggml.h"
#include "runtime.h"

namespace orin {

struct KvTypes {
    ggml_type k = GGML_TYPE_F16;
    ggml_type v = GGML_TYPE_F16;
};

// Throws EngineError for a name that is none of a type that K or V may have.
inline ggml_type kv_type_named(const std::string & name) {
    for (ggml_type type : {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
        if (name == ggml_type_name(type)) {
            return type;
        }
    }
    throw EngineError("unknown KV type '" + name + "': expected f16, bf16, q8_0 or q4_0");
}

// As people write it: one name where both are the same, else K:V.
inline std::string to_string(KvTypes types) {
    const std::string k = ggml_type_name(types.k);
    return types.k == types.v ? k : k + ":" + ggml_type_name(types.v);
}

}  // namespace orin

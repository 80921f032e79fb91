#include "tensor_table.h"

#include "checked.h"
#include "limits.h"

namespace orin::gguf {

namespace {

void read_name(Reader & reader, Header & header, Place & place, TensorInfo & tensor) {
    tensor.name = reader.string(limits::max_name_bytes, "max_name_bytes", place);
    if (tensor.name.empty()) {
        fail(place, "the name is empty");
    }
    if (tensor.name.find('\0') != std::string::npos) {
        fail(place, "the name contains a NUL byte");
    }
    place.name = tensor.name;
    if (!header.tensor_index.emplace(tensor.name, header.tensors.size()).second) {
        fail(place, "the name is there twice");
    }
}

// A tensor without dimensions is a single number: shape [1].
void read_shape(Reader & reader, const Place & place, TensorInfo & tensor) {
    const Place count_place{place.part, place.name, reader.position()};
    const auto n_dims = reader.scalar<uint32_t>(count_place);
    if (n_dims > limits::max_dims) {
        fail(count_place, text(n_dims, " dimensions, more than the limit of ", limits::max_dims, " (max_dims)"));
    }
    tensor.elements = 1;
    for (uint32_t i = 0; i < n_dims; ++i) {
        const Place dim_place{place.part, place.name, reader.position()};
        const auto size = reader.scalar<uint64_t>(dim_place);
        if (size == 0) {
            fail(dim_place, text("dimension ", i, " is 0"));
        }
        if (size > limits::max_dimension) {
            fail(dim_place, text("dimension ", i, " is ", size, ", more than the limit of ", limits::max_dimension,
                                 " (max_dimension)"));
        }
        const auto elements = checked_mul(tensor.elements, size);
        if (!elements || *elements > INT64_MAX) {
            fail(dim_place, text("dimension ", i, " of ", size, " makes more elements than can be counted"));
        }
        tensor.elements = *elements;
        tensor.shape.push_back(size);
    }
    if (tensor.shape.empty()) {
        tensor.shape.push_back(1);
    }
}

void read_type(Reader & reader, const Place & place, TensorInfo & tensor) {
    const Place type_place{place.part, place.name, reader.position()};
    const auto id = reader.scalar<uint32_t>(type_place);
    tensor.type = find_tensor_type(id);
    if (!tensor.type) {
        fail(type_place, text("tensor type ", id, " is unknown"), Advice::unsupported);
    }
    if (tensor.shape[0] % tensor.type->block_elements != 0) {
        fail(type_place, text("rows of ", tensor.shape[0], " elements are not made of ", tensor.type->name,
                              " blocks of ", tensor.type->block_elements));
    }
    const auto nbytes = checked_mul(tensor.elements / tensor.type->block_elements, tensor.type->block_bytes);
    if (!nbytes || *nbytes > INT64_MAX) {
        fail(type_place,
             text(tensor.elements, " elements of type ", tensor.type->name, " make more bytes than can be counted"));
    }
    tensor.nbytes = *nbytes;
}

// Reads where the data starts and checks that it is `expected`. Both count from the start of the data.
void read_data_offset(Reader & reader, const Header & header, const Place & place, uint64_t expected,
                      TensorInfo & tensor) {
    const Place offset_place{place.part, place.name, reader.position()};
    tensor.offset = reader.scalar<uint64_t>(offset_place);
    if (tensor.offset % header.alignment != 0) {
        fail(offset_place,
             text("data offset ", tensor.offset, " is not a multiple of the alignment ", header.alignment));
    }
    if (tensor.offset == expected) {
        return;
    }
    const std::string before = header.tensors.empty()
                                   ? std::string("the start of the data")
                                   : text("the end of tensor '", printable(header.tensors.back().name), "'");
    const char * relation = tensor.offset < expected ? "overlaps what is before" : "leaves a gap after";
    fail(offset_place, text("data offset ", tensor.offset, " ", relation, " ", before, " (expected ", expected, ")"));
}

// Offset of the byte behind the tensor's data and padding, from the start of the data.
uint64_t end_of(const TensorInfo & tensor, const Header & header, const Place & place) {
    const auto end = checked_add(tensor.offset, tensor.nbytes);
    const auto padded = end ? checked_align(*end, header.alignment) : end;
    if (!padded || *padded > INT64_MAX) {
        fail(place, text("its ", tensor.nbytes, " bytes at data offset ", tensor.offset, " end beyond any file"));
    }
    return *padded;
}

// Turns data offsets into file offsets and checks that the data is there.
void place_data(Reader & reader, Header & header) {
    if (header.tensors.empty()) {
        header.data_offset = reader.position();
        return;
    }
    header.data_offset = *checked_align(reader.position(), header.alignment);
    const TensorInfo & last = header.tensors.back();
    const uint64_t need = header.data_offset + last.offset + last.nbytes;
    for (TensorInfo & tensor : header.tensors) {
        tensor.offset += header.data_offset;
        const uint64_t end = tensor.offset + tensor.nbytes;
        if (end > header.file_bytes) {
            fail({Part::tensor, tensor.name, tensor.offset},
                 text("its data ends at ", end, ", but the file at ", header.file_bytes, "; ", need - header.file_bytes,
                      " of ", need, " bytes are missing"),
                 Advice::unfinished);
        }
    }
}

}  // namespace

void read_tensor_table(Reader & reader, uint64_t n, Header & header) {
    uint64_t expected = 0;
    for (uint64_t i = 0; i < n; ++i) {
        const uint64_t start = reader.position();
        Place place{Part::tensor, text("tensors[", i, "]"), start};
        TensorInfo tensor;
        tensor.info_offset = start;
        read_name(reader, header, place, tensor);
        read_shape(reader, place, tensor);
        read_type(reader, place, tensor);
        read_data_offset(reader, header, place, expected, tensor);
        expected = end_of(tensor, header, place);
        header.tensors.push_back(std::move(tensor));
    }
    place_data(reader, header);
}

}  // namespace orin::gguf

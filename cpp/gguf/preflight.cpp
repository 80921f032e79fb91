#include "preflight.h"

#include "error.h"
#include "hparams.h"
#include "parse.h"
#include "split.h"
#include "vocab.h"
#include "weights.h"

namespace orin::gguf {

namespace {

void check_model(const Header & header) {
    const HParams hp = check_hparams(header);
    const uint64_t n_vocab = check_vocab(header);
    if (!header.tensors.empty()) {
        check_weights(header, hp, n_vocab);
    }
}

}  // namespace

Header check_container(const std::string & path) {
    try {
        return parse_header(FileSource(path));
    } catch (const ModelFileError & error) {
        throw error.in_file(path);
    }
}

Header check_file(const std::string & path) {
    try {
        Header header = parse_header(FileSource(path));
        add_parts(path, header);
        check_model(header);
        return header;
    } catch (const ModelFileError & error) {
        throw error.in_file(path);
    }
}

Header check_source(const ByteSource & source) {
    Header header = parse_header(source);
    if (count_parts(header) == 1) {
        check_model(header);
    }
    return header;
}

}  // namespace orin::gguf

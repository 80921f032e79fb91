// Runs the fuzz target once over every file of the folders given, where there is no libFuzzer.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t * data, size_t size);

int main(int argc, char ** argv) {
    size_t n_files = 0;
    for (int i = 1; i < argc; ++i) {
        for (const auto & entry : std::filesystem::recursive_directory_iterator(argv[i])) {
            std::ifstream file(entry.path(), std::ios::binary);
            std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
            LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
            ++n_files;
        }
    }
    std::printf("%zu files, no fault\n", n_files);
    return n_files == 0;  // an empty corpus proves nothing
}

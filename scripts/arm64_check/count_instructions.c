// Counts the instructions of an emulated program: a plugin of QEMU (version 1 of its interface: QEMU 4.2 to 8.2). Each
// time that the program calls getsid() the number of instructions so far becomes a line of the file out=….
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// What it uses of the interface; the header comes with the sources of QEMU only.
struct qemu_plugin_tb;
typedef uint64_t qemu_plugin_id_t;
typedef void (*translated_t)(qemu_plugin_id_t id, struct qemu_plugin_tb * block);
typedef void (*syscall_t)(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
                          uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8);
enum { add_u64 = 0 };
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb * block);
extern void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, translated_t function);
extern void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb * block, int op, void * to, uint64_t value);
extern void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, syscall_t function);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

static uint64_t n_instructions;
static FILE * out;

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb * block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, add_u64, &n_instructions, qemu_plugin_tb_n_insns(block));
}

static void on_syscall(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
                       uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
    const int64_t getsid = 156;  // on aarch64
    if (number == getsid) {
        fprintf(out, "%" PRIu64 "\n", n_instructions);
        fflush(out);
    }
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void * info, int argc, char ** argv) {
    if (argc != 1 || strncmp(argv[0], "out=", 4) != 0 || (out = fopen(argv[0] + 4, "w")) == NULL) {
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
    return 0;
}

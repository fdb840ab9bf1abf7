/* cmd_inspect.c - `kiln inspect`: lists the tensors of a model file or folder. */
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"
#include "weights/weights.h"

#include <stdio.h>
#include <string.h>

static const option options[] = {
    {"--identity", 0, NULL, "also print the digest of the content (reads the whole file)", 0},
    {"--finite", 0, NULL, "also look for NaN and infinity in every tensor", 0},
};
static const manual about = {
    .usage = "kiln inspect PATH [options]",
    .about = "Checks the header of a .safetensors file, or of each one in a model folder, and lists the tensors.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln inspect workflows/models/shapes-sd1\n",
};

static int list(const kiln_weights *w, int finite, error *e)
{
    uint64_t total = 0;
    char text[80], bytes[16];
    for (size_t i = 0; i < weights_count(w); i++) {
        kiln_weight_info info = {.size = sizeof info};
        shape s = {0};
        weights_at(w, i, &info);
        shape_make(&s, info.rank, info.dim);
        print_text(stdout, "%-6s %-24s %s\n", info.dtype ? dtype_name(info.dtype) : "other", shape_text(&s, text),
                   info.name);
        total += info.bytes;
        if (finite && info.dtype && weights_scan_finite(w, info.name, e) != KILN_OK) return 0;
    }
    print_text(stdout, "%zu tensors, %s\n", weights_count(w), str_bytes(bytes, total));
    return 1;
}

int cmd_inspect(int argc, char **argv)
{
    arguments a;
    error e = {0};
    if (!arguments_read(&a, &about, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&about), EXIT_DONE;
    if (a.n_operand != 1) {
        print_text(stderr, "kiln: which file or folder?\nusage: %s\n", about.usage);
        return EXIT_BAD_INPUT;
    }
    char shipped[SHIPPED_PATH_MAX];
    take_shipped(&a.operand[0], shipped);
    kiln_weights *w = weights_open(a.operand[0], &e);
    int ok = w && list(w, argument(&a, "--finite") != NULL, &e);
    const char *identity = ok && argument(&a, "--identity") ? weights_identity(w, &e) : NULL;
    if (identity) print_text(stdout, "identity %s\n", identity);
    weights_unref(w);
    if (e.status == KILN_OK) return EXIT_DONE;
    print_text(stderr, "kiln: error: %s\n", e.message);
    return EXIT_BAD_INPUT;
}

/* golden_value.h - tensors of tests/golden as values for nodes. */
#ifndef KILN_TESTS_IMAGE_GOLDEN_VALUE_H
#define KILN_TESTS_IMAGE_GOLDEN_VALUE_H

#include "node_kit.h"
#include "weights/weights.h"

/* tests/golden/FILE, opened once; a test has one file. */
static inline kiln_weights *goldens_of(const char *file)
{
    static kiln_weights *w;
    char path[1024];
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/%s", test_root(), file);
    if (!w && !CHECK_MSG((w = weights_open(path, &e)) != NULL, "%s", e.message)) exit(1);
    return w;
}

/* A golden as a tensor value. */
static inline kiln_value *golden_of(const char *file, const char *name)
{
    kiln_weight_info info = {.size = sizeof info};
    error e = {0};
    float *into;
    kiln_weights *w = goldens_of(file);
    if (!CHECK_MSG(weights_find(w, name, &info) == KILN_OK, "no golden %s", name)) exit(1);
    kiln_value *v = tensor_of(info.rank, info.dim, NULL, &into);
    if (!CHECK_MSG(weights_read_f32(w, name, into, &e) == KILN_OK, "%s", e.message)) exit(1);
    return v;
}

#endif

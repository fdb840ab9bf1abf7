/* controlnet_kit.h - the small ControlNets of tests/golden/controlnets as folders and single files, and one evaluation
 * of them. */
#ifndef KILN_TESTS_CONTROLNET_KIT_H
#define KILN_TESTS_CONTROLNET_KIT_H

#include "controlnet_family.h"
#include "unet_kinds_kit.h"

/* Puts a prefix before every name. */
static inline void put_prefix_on(formula_file *f, const char *prefix)
{
    for (size_t i = 0; i < f->n; i++) formula_rename(&f->tensor[i], prefix);
}

static inline formula_file *control_tensors(const char *kind)
{
    static formula_file f;
    f.n = 0, f.of = kind;
    each_line("tests/golden/controlnets/names.txt.gz", "kind", kind, add_line, &f);
    CHECK_MSG(f.n > 50, "%zu tensors of %s", f.n, kind);
    return &f;
}

/* A folder with the kind's config.json and these tensors. */
static inline kiln_weights *open_control_folder(const char *kind, const formula_file *f)
{
    char root[300], path[400], from[200];
    error e = {0};
    snprintf(root, sizeof root, "%s/%s", test_folder(), kind);
    mkdir(root, 0700);
    snprintf(path, sizeof path, "%s/config.json", root);
    snprintf(from, sizeof from, "tests/golden/controlnets/%s/config.json", kind);
    copy_text(from, path);
    snprintf(path, sizeof path, "%s/diffusion_pytorch_model.safetensors", root);
    CHECK(formula_write(f, path, NULL));
    kiln_weights *w = weights_open(root, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static inline kiln_value *open_control(kiln_weights *set)
{
    kiln_value *v = set ? controlnet_family.open(rig_host(), rig_ctx(), set) : NULL;
    CHECK_MSG(v != NULL, "%s", rig_message());
    return v;
}

static inline const kiln_net *control_of(const kiln_value *v)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    return models->net(rig_ctx(), v, "CONTROL_NET");
}

static inline kiln_weights *control_goldens(void)
{
    static kiln_weights *g;
    if (!g) g = open_weights("tests/golden/controlnets.safetensors");
    return g;
}

/* ---- one evaluation ---- */

enum { RESULTS_MAX = 24 };

typedef struct {
    char place[RESULTS_MAX][40];
    kiln_t t[RESULTS_MAX];
    array value[RESULTS_MAX];
    size_t n;
} results;

static inline void note_result(const kiln_outputs *out, const char *place, kiln_t t)
{
    results *r = out->self;
    if (!CHECK(r->n < RESULTS_MAX)) return;
    snprintf(r->place[r->n], sizeof r->place[0], "%s", place);
    r->t[r->n++] = t;
}

/* An input's golden; a Union's kind is 3 of 6. {0}: it is left out. */
static inline array control_input(const char *kind, const kiln_input_spec *spec, int typed, uint32_t *number)
{
    if (strcmp(spec->name, "hint") == 0) {
        array a = golden(control_goldens(), "hint");
        size_t half = a.n / 2;
        if (strcmp(kind, "union") == 0) memcpy(a.data + half, a.data, half * sizeof *a.data); /* one hint for both */
        return a;
    }
    if (strcmp(spec->name, "control_type") == 0) {
        array a = {.rank = 2, .dim = {2, 6}, .n = 12};
        if (!typed) return (array){0};
        a.data = calloc(a.n, sizeof *a.data);
        a.data[3] = a.data[9] = 1;
        return a;
    }
    if (spec->kind == KILN_INPUT_SCALAR) return column(golden(control_goldens(), "%s.numbers", kind), (*number)++);
    return golden(control_goldens(), "%s.%s", kind, spec->name);
}

static inline size_t bind_control(const char *kind, const kiln_network *n, int typed, piece *c,
                                  kiln_named_tensor *named)
{
    uint32_t number = 0;
    size_t bound = 0;
    for (uint32_t i = 0; i < n->n_input; i++) {
        kiln_input_spec spec = kiln_input_spec_at(n->input, n->input_stride, i);
        array a = control_input(kind, &spec, typed, &number);
        if (!a.data && spec.flags & KILN_INPUT_OMITTED) continue;
        named[bound++] =
            (kiln_named_tensor){.size = sizeof *named, .name = spec.name, .tensor = piece_input(c, a, KILN_F32)};
    }
    named[bound++] = (kiln_named_tensor){.size = sizeof *named,
                                         .name = "x",
                                         .tensor = piece_input(c, golden(control_goldens(), "%s.x", kind), KILN_F32)};
    named[bound++] = (kiln_named_tensor){.size = sizeof *named,
                                         .name = "timestep",
                                         .tensor = piece_input(c, golden(control_goldens(), "%s.t", kind), KILN_F32)};
    return bound;
}

/* The kind's golden inputs through a control, in f32; free with results_free. */
static inline kiln_status evaluate_control(const char *kind, const kiln_net *net, int typed, results *out)
{
    piece c = piece_new(KILN_F32);
    kiln_named_tensor named[16];
    const kiln_outputs to = {.size = sizeof to, .self = out, .add = note_result};
    kiln_bind bind[RESULTS_MAX];
    out->n = 0;
    size_t n = bind_control(kind, net->network, typed, &c, named);
    net->network->record(net->network, c.ops, c.p, net->weights, named, n, &to);
    for (size_t i = 0; i < out->n; i++) {
        array *a = &out->value[i];
        *a = (array){.n = 1};
        a->rank = c.ops->shape(c.p, out->t[i], a->dim, KILN_MAX_RANK);
        for (uint32_t k = 0; k < a->rank; k++) a->n *= (size_t)a->dim[k];
        a->data = calloc(a->n + 1, sizeof *a->data);
        c.ops->output(c.p, out->place[i], out->t[i]);
        bind[i] = (kiln_bind)KILN_BIND(out->place[i], window_of(a->data, KILN_F32, a->rank, a->dim));
    }
    kiln_status status = c.ops->plan(c.ctx, c.p, NULL);
    if (status == KILN_OK) status = c.ops->run(c.ctx, c.p, c.in, c.n_in, bind, out->n);
    CHECK_MSG(status == KILN_OK, "%s: %s", kind, rig_message());
    for (size_t i = 0; i < c.n_owned; i++) free(c.owned[i]);
    c.ops->program_free(c.p);
    return status;
}

static inline void results_free(results *r)
{
    for (size_t i = 0; i < r->n; i++) free(r->value[i].data);
    r->n = 0;
}

/* Each result against the golden of its skip, or of the middle. */
static inline void check_results(const char *name, const results *r, double tolerance)
{
    for (size_t i = 0; i < r->n; i++) {
        char wanted[80], what[120];
        if (i + 1 < r->n)
            snprintf(wanted, sizeof wanted, "output.%zu.skip", r->n - 2 - i);
        else
            snprintf(wanted, sizeof wanted, "middle");
        CHECK_STR(r->place[i], wanted);
        array g = i + 1 < r->n ? golden(control_goldens(), "%s.out.%zu", name, i)
                               : golden(control_goldens(), "%s.middle", name);
        snprintf(what, sizeof what, "%s %s", name, r->place[i]);
        if (CHECK_EQ(r->value[i].n, g.n))
            check_array(r->value[i].data, g.data, g.n, tolerance, what, __FILE__, __LINE__);
        free(g.data);
    }
}

#endif

/* archived_nodes.c - nodes with a parameter of every type, and one that writes a file; the plugin's table. */
#include "archived.h"

/* ---- every parameter type ---- */

typedef struct {
    int32_t flag, way;
    int64_t count;
    uint64_t seed;
    double share;
    const char *sampler, *text, *path;
} params;

static const kiln_choice ways[] = {
    {.name = "up", .doc = "Up.", .value = 7}, {.name = "down", .doc = "Down.", .value = -3}, {0}};
static const kiln_param param[] = {
    KIT_BOOL(params, flag, 1, "A flag."),
    KIT_ENUM(params, way, ways, 7, "A choice."),
    KIT_INT(params, count, 5, -10, 1000, "A whole number."),
    KIT_SEED(params, seed, "A seed."),
    KIT_FLOAT(params, share, 0.25, 0, 1, 0.01, "A number."),
    {.name = "sampler",
     .type = KILN_P_NAME,
     .offset = offsetof(params, sampler),
     .from = "sampler",
     .def_str = "euler",
     .doc = "A name in a registry."},
    {.name = "text",
     .type = KILN_P_STRING,
     .flags = KILN_PARAM_MULTILINE,
     .offset = offsetof(params, text),
     .def_str = "left out",
     .doc = "A text."},
    {.name = "file",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(params, path),
     .from = "input",
     .doc = "A file."},
};
static const kiln_port params_out[] = {{.name = "STRING", .type = "STRING", .doc = "What they say."}};

static kiln_status params_run(const kiln_call *c)
{
    const params *p = c->params;
    const char *name = strrchr(p->path, '/');
    char text[600];
    int n = snprintf(text, sizeof text, "params %d %d %lld %llu %g %s %s %s", p->flag, p->way, (long long)p->count,
                     (unsigned long long)p->seed, p->share, p->sampler, p->text, name ? name + 1 : p->path);
    c->out[0] = kit_values(c)->new_string(c->ctx, text, (size_t)n);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status params_check(const kiln_call *c)
{
    const params *p = c->params;
    if (p->count != 13) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "count is %lld, which the archived plugin refuses",
                         (long long)p->count);
}

const kiln_node archived_params = {KIT_NODE("ArchivedParams", "Parameters", "archived", "Says its parameters."),
                                   KILN_ARRAY(out, params_out), KIT_PARAMS(params, param), .run = params_run,
                                   .check = params_check};

/* ---- what the others made, into a file ---- */

kiln_status archived_numbers(const kiln_call *c, const char *name, const float *x, size_t n, kiln_value **out)
{
    size_t capacity = strlen(name) + 1 + n * 24, at = 0;
    char *text = c->host->scratch(c->ctx, capacity, KILN_CPU);
    if (!text) return KILN_ERR_NOMEM;
    at = (size_t)snprintf(text, capacity, "%s", name);
    for (size_t i = 0; i < n; i++) at += (size_t)snprintf(text + at, capacity - at, " %.9g", (double)x[i]);
    *out = kit_values(c)->new_string(c->ctx, text, at);
    return *out ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_port write_in[] = {
    {.name = "text", .type = "STRING", .flags = KILN_PORT_LIST, .doc = "Lines."},
    {.name = "latent", .type = "LATENT", .flags = KILN_PORT_OPTIONAL, .dtypes = 1u << KILN_F32, .doc = "Numbers."},
};

static kiln_status write_run(const kiln_call *c)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    const kiln_value_api *v = kit_values(c);
    if (kit_estimating(c)) return KILN_OK;
    kiln_file *f = files->create(c->ctx, KILN_FILES_OUTPUT, "archived", "txt");
    if (!f) return KILN_ERR_IO;
    for (size_t i = 0; i < v->count(c->in[0]); i++) {
        size_t n = 0;
        const char *line = v->get_string(v->list_at(c->in[0], i), &n);
        TRY(c->host->progress(c->ctx, i, v->count(c->in[0]), "lines"));
        TRY(files->write(f, line, n));
        TRY(files->write(f, "\n", 1));
    }
    if (c->in[1]) {
        kiln_tensor t;
        kiln_value *line;
        TRY(kit_samples(c, c->in[1], &t));
        TRY(archived_numbers(c, "latent", t.data, kit_count(&t), &line));
        size_t n = 0;
        const char *text = v->get_string(line, &n);
        kiln_status status = files->write(f, text, n);
        c->host->unref(line);
        TRY(status);
        TRY(files->write(f, "\n", 1));
    }
    return files->commit(f, NULL);
}

const kiln_node archived_write = {
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT | KILN_NODE_ESTIMATES, 1, "ArchivedWrite", "Write", "archived", "Writes lines."),
    KILN_ARRAY(in, write_in), .run = write_run};

/* ---- the table ---- */

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_sampler_api *samplers = host->ability(KILN_SAMPLER_ABILITY);
    const kiln_sampling_api *sampling = host->ability(KILN_SAMPLING_ABILITY);
    if (!samplers || !sampling) return KILN_ERR_UNSUPPORTED;
    TRY(samplers->register_sampler(&archived_sampler));
    return sampling->register_guider(&archived_guider_row);
}

KILN_PLUGIN_OPEN("org.example.archived", "1.0.0", "MIT", open_plugin, &archived_params, &archived_write,
                 &archived_program, &archived_vectors, &archived_model, &archived_conditioning, &archived_guider);

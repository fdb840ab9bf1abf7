/* dump.c - writes the numbers of a LATENT's samples, or of a tensor in a CONDITIONING's entry, as they are:
 * NAME_00001_.f32. For the test alone. */
#include "sdxl.h"

#include "kiln/files.h"

typedef struct {
    const char *name, *key;
    int64_t entry;
} dump_params;

static const kiln_port dump_in[] = {{.name = "what", .type = "*", .doc = "A LATENT or a CONDITIONING."}};
static const kiln_param dump_param[] = {
    {.name = "name",
     .type = KILN_P_STRING,
     .offset = offsetof(dump_params, name),
     .def_str = "x",
     .doc = "Of the file."},
    {.name = "key", .type = KILN_P_STRING, .offset = offsetof(dump_params, key), .def_str = "samples", .doc = "Which."},
    KIT_INT(dump_params, entry, 0, 0, 100, "Of a conditioning."),
};

static kiln_status dump_run(const kiln_call *c)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    const kiln_value_api *v = kit_values(c);
    const dump_params *p = c->params;
    const kiln_value *map = c->in[0], *found;
    kiln_tensor t;
    kit_tensor_clear(&t);
    if (v->kind(map) == KILN_V_LIST) map = v->list_at(map, (size_t)p->entry);
    if (!(found = v->map_get(map, p->key)))
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "there is no '%s' to write", p->key);
    TRY(c->host->view(c->ctx, found, &t));
    kiln_file *f = files->create(c->ctx, KILN_FILES_OUTPUT, p->name, "f32");
    if (!f) return KILN_ERR_IO;
    TRY(files->write(f, t.data, kit_count(&t) * sizeof(float)));
    return files->commit(f, NULL);
}

const kiln_node sdxl_dump_node = {
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT, 1, "SdxlDump", "SdxlDump", "example", "Writes a tensor."), KILN_ARRAY(in, dump_in),
    KIT_PARAMS(dump_params, dump_param), .run = dump_run};

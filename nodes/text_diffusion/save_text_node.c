/* save_text_node.c - SaveText: a text goes into a file of the output folder. ComfyUI's inputs and formats. */
#include "kiln/files.h"
#include "text_nodes.h"

#include <jansson.h>
#include <stdio.h>
#include <strings.h>

enum { FORMAT_TXT, FORMAT_CSV, FORMAT_MD, FORMAT_JSON };

typedef struct {
    const char *prefix;
    int32_t format;
} save_params;

static const kiln_choice format[] = {{.name = "txt", .value = FORMAT_TXT},
                                     {.name = "csv", .value = FORMAT_CSV},
                                     {.name = "md", .value = FORMAT_MD},
                                     {.name = "json", .doc = "indented, where the text is JSON", .value = FORMAT_JSON},
                                     {0}};

static const kiln_files_api *files_of(const kiln_call *c) { return c->host->ability(KILN_FILES_ABILITY); }

/* Where -o FILE names the result: its ending has to be the one that is written. */
static kiln_status check_ending(const kiln_call *c, const char *own)
{
    const char *wanted = files_of(c)->text(c->ctx, "extension");
    if (!wanted || strcasecmp(wanted, own) == 0) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "-o: its name ends in .%.20s, and this node writes .%s files",
                         wanted, own);
}

static kiln_status check(const kiln_call *c)
{
    TRY(check_ending(c, format[((const save_params *)c->params)->format].name));
    return kit_at_param(c, files_of(c)->check(c->ctx, ((const save_params *)c->params)->prefix), "filename_prefix");
}

/* Indented, or NULL where it is no JSON. The caller frees it. */
static char *indented(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    char *made = value ? json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    return made;
}

static kiln_status write_text(const kiln_call *c, const char *text)
{
    const save_params *p = c->params;
    kiln_file *f = files_of(c)->create(c->ctx, KILN_FILES_OUTPUT, p->prefix, format[p->format].name);
    if (!f) return KILN_ERR_IO;
    TRY(files_of(c)->write(f, text, strlen(text)));
    return files_of(c)->commit(f, NULL);
}

static kiln_status save(const kiln_call *c)
{
    const save_params *p = c->params;
    const char *text = kit_values(c)->get_string(c->in[0], NULL);
    if (!text) return c->host->fail(c->ctx, KILN_ERR_INVALID, "'text' is no text");
    c->out[0] = c->host->ref(c->in[0]);
    if (kit_estimating(c)) return KILN_OK;
    char *json = p->format == FORMAT_JSON ? indented(text) : NULL;
    kiln_status status = write_text(c, json ? json : text);
    free(json);
    if (status == KILN_OK) c->host->draft(c->ctx, text);
    return status;
}

static const kiln_port in[] = {{.name = "text", .type = "STRING", .doc = "What is written."}};
static const kiln_port out[] = {{.name = "text", .type = "STRING", .doc = "The same."}};
static const kiln_param param[] = {
    {.name = "filename_prefix",
     .type = KILN_P_STRING,
     .offset = offsetof(save_params, prefix),
     .def_str = "kiln",
     .doc = "What the file's name begins with; it may hold a folder."},
    KIT_ENUM(save_params, format, format, FORMAT_TXT, "The file's ending."),
};
const kiln_node node_save_text = {KIT_NODE_FLAGS(KILN_NODE_OUTPUT | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES, 1,
                                                 "SaveText", "Save Text", "text",
                                                 "Writes a text into a file, and prints it."),
                                  KILN_ARRAY(in, in),
                                  KILN_ARRAY(out, out),
                                  KIT_PARAMS(save_params, param),
                                  .run = save,
                                  .check = check};
